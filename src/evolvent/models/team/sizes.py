"""What a network is shown: numbers in one unit, as their pattern and how large they are, and who an agent is.

A layer norm over raw numbers erases their scale: V(c s) = V(s) for every c > 0, and a single number looks like 0. So
two numbers are put beside what it leaves, and from all of them together ``x`` can be recovered:

    r = sqrt(mean x² + 1e-12),    x  ->  [(x - mean x) / sd x,  mean x / r,  log r]

Multiplying ``x`` by 100 adds 4.6 to one input and changes no other; a constant 1 beside ``x``, the usual remedy, drowns
in large numbers and drowns small ones. All numbers share one size: a small feature beside one a hundred times as large
is lost in the pattern (``learn.team.obs_norm`` brings them to one size before).
"""

from __future__ import annotations

import torch
from torch import Tensor

EXTRA = 2
"""Numbers that ``sized`` adds."""
TINY = 1e-12


def sized(x: Tensor, plain: int = 0) -> Tensor:
    """``[..., D]`` as ``[..., D + 2]``: normalised over the last axis, then mean / r and log r, then what is plain.

    So many of the last numbers (``plain``) have a fixed size already, as one-hot numbers do, and stay. Beside them no
    gradient flows into the normalised numbers, which are observations; without them it does where an adversary asks.
    """
    raw, rest = (x, None) if plain == 0 else x.split([x.shape[-1] - plain, plain], dim=-1)
    raw = raw if rest is None else raw.detach()
    pattern, mean, rstd = torch.native_layer_norm(raw, raw.shape[-1:], None, None, TINY)  # one pass over the numbers
    var = (rstd**-2 - TINY).clamp(min=0.0)
    square = var + mean * mean + TINY
    trust = (var / (var + 1e-5 * square)).sqrt()  # numbers that differ by rounding alone have no pattern, in any unit
    parts = [pattern * trust, mean * square.rsqrt(), 0.5 * square.log()]
    return torch.cat(parts if rest is None else [*parts, rest], dim=-1)


def with_ids(obs: Tensor) -> Tensor:
    """``[..., A, D]`` as ``[..., A, D + A]``, each agent's own number behind its observation."""
    agents = obs.shape[-2]
    eye = torch.eye(agents, dtype=obs.dtype, device=obs.device)
    return torch.cat([obs, eye.expand(*obs.shape[:-1], -1)], dim=-1)


def with_id(obs: Tensor, agent: int, agents: int) -> Tensor:
    """``[..., D]`` of one of so many agents as ``[..., D + A]``."""
    number = torch.zeros(agents, dtype=obs.dtype, device=obs.device)
    number[agent] = 1.0
    return torch.cat([obs, number.expand(*obs.shape[:-1], -1)], dim=-1)
