"""HAPO: clip range and advantage of a unit follow its entropy (arXiv 2509.16591; the fourth and third of its parts).

    e = log max(H, 1e-8),  h = (e - q_.8(e)) / rms,  positives / max, negatives / |min|            in [-1, 1]
    range:      low (1 - h) for h <= 0,  high (1 + h) for h > 0                  forking tokens may rise further
    advantage:  times (1 + h) for h > 0 outside the neutral band of ratios, for h <= 0 inside it

The released code divides negatives by their minimum, which makes low-entropy units positive; this is the equation.
"""

from __future__ import annotations

import torch
from torch import Tensor


def relative_entropy(entropy: Tensor) -> Tensor:
    """``h``, ``[U]`` in [-1, 1]: the log-entropy of a unit relative to the .8 quantile of the step."""
    e = entropy.clamp(min=1e-8).log()
    pivot = e.sort().values[round(0.8 * (len(e) - 1))]
    h = e - pivot
    h = h / (h**2).mean().sqrt().clamp(min=1e-8)
    return torch.where(h > 0, h / h.max().clamp(min=1e-8), h / h.min().abs().clamp(min=1e-8))


def adaptive_bounds(h: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Range of each unit: (low, high) as distances from 1, ``[U]`` each."""
    return low * (1.0 - h.clamp(max=0.0)), high * (1.0 + h.clamp(min=0.0))


def redistributed(adv: Tensor, ratio: Tensor, h: Tensor, low: float, high: float) -> Tensor:
    """Advantages after redistribution; the neutral band is ``(1 - low / 2, 1 + high / 2)``."""
    r = ratio.detach()
    inside = (r > 1.0 - low / 2) & (r < 1.0 + high / 2)
    return torch.where((h > 0) ^ inside, adv * (1.0 + h), adv)
