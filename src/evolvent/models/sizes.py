"""What a network is shown of numbers in any unit: their pattern, normalised, and how large they are.

A layer norm over raw numbers erases their scale: V(c s) = V(s) for every c > 0, and a single number looks like 0. So
two numbers are put beside what it leaves, and from all of them together ``x`` can be recovered:

    r = sqrt(mean x² + 1e-12),    x  ->  [(x - mean x) / sd x,  mean x / r,  log r]

Multiplying ``x`` by 100 adds 4.6 to one input and changes no other; a constant 1 beside ``x``, the usual remedy, drowns
in large numbers and drowns small ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

EXTRA = 2
"""Numbers that ``sized`` adds."""


def sized(x: Tensor, plain: int = 0) -> Tensor:
    """``[..., D]`` as ``[..., D + 2]``: normalised over the last axis, then mean / r and log r, then what is plain.

    Args:
        x: float, at least one number that is not plain.
        plain: so many of the last numbers have a fixed size already (one-hot numbers of agents, actions) and stay.
    """
    raw, rest = (x, None) if plain == 0 else x.split([x.shape[-1] - plain, plain], dim=-1)
    var, mean = torch.var_mean(raw, dim=-1, keepdim=True, correction=0)
    square = var + mean * mean + 1e-12
    scale = torch.rsqrt(var + 1e-5 * square)  # relative, so that no unit is too small for it
    parts = [(raw - mean) * scale, mean * square.rsqrt(), 0.5 * square.log()]
    return torch.cat(parts if rest is None else [*parts, rest], dim=-1)
