"""HAPO: clip range and advantage of a unit follow its entropy (arXiv 2509.16591; the fourth and third of its parts).

``h`` in [-1, 1] is ``formulas.entropy.relative_entropy``. ``redistributed`` is that module's on
tensors: the advantage depends on a ratio that changes with every step.
"""

from __future__ import annotations

import torch
from torch import Tensor


def adaptive_bounds(h: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Range of each unit: (low, high) as distances from 1, ``[U]`` each."""
    return low * (1.0 - h.clamp(max=0.0)), high * (1.0 + h.clamp(min=0.0))


def redistributed(adv: Tensor, ratio: Tensor, h: Tensor, low: float, high: float) -> Tensor:
    """Advantages after redistribution; the neutral band is ``(1 - low / 2, 1 + high / 2)``."""
    r = ratio.detach()
    inside = (r > 1.0 - low / 2) & (r < 1.0 + high / 2)
    return torch.where((h > 0) ^ inside, adv * (1.0 + h), adv)
