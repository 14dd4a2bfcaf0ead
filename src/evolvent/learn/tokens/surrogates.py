"""Policy losses of single units, from ratio, advantage and log-probability; to be *minimised*.

Every function is element by element over ``[U]``. Ranges are written as distances from 1: a ratio is left alone in
``[1 - low, 1 + high]``; ``low`` and ``high`` are numbers, or ``[U]`` where they differ from unit to unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from evolvent.learn.tokens.axis import Bound, Now, Part
from evolvent.learn.tokens.ratios import RATIOS, segment_mean
from evolvent.learn.tokens.units import Units


def pg(logp: Tensor, adv: Tensor) -> Tensor:
    """``-A log pi`` (Williams 1992)."""
    return -adv * logp


def importance(ratio: Tensor, adv: Tensor) -> Tensor:
    """``-r A``, not clipped."""
    return -ratio * adv


def ppo(ratio: Tensor, adv: Tensor, low: Bound, high: Bound, *, dual: float = 0.0) -> Tensor:
    """``max(-r A, -clip(r) A)`` (Schulman et al. 2017, arXiv 1707.06347, eq. 7); two ranges as in DAPO.

    ``dual = c > 0`` bounds what a negative advantage can cost by ``-c A`` (Ye et al. 2020, arXiv 1912.09729).
    """
    loss = torch.maximum(-ratio * adv, -_clip(ratio, low, high) * adv)
    return torch.where(adv < 0, torch.minimum(loss, -dual * adv), loss) if dual > 0.0 else loss


def log_sym(ratio: Tensor, adv: Tensor, eps: float) -> Tensor:
    """PPO with a range that is symmetric in log space, ``[1 / (1 + eps), 1 + eps]`` (LOOP, arXiv 2502.01600)."""
    return ppo(ratio, adv, eps / (1.0 + eps), eps)


def cispo(ratio: Tensor, adv: Tensor, logp: Tensor, low: Bound, high: Bound) -> Tensor:
    """``-sg(clip(r)) A log pi``: a clipped unit keeps a gradient (MiniMax-M1, arXiv 2506.13585)."""
    return -_clip(ratio, low, high).detach() * adv * logp


def sapo(ratio: Tensor, adv: Tensor, tau_positive: float, tau_negative: float) -> Tensor:
    """``-(4 / tau) sigmoid(tau (r - 1)) A``: a soft gate instead of a clip (arXiv 2511.20347)."""
    tau = torch.where(adv > 0, tau_positive, tau_negative).to(ratio.dtype)
    return -(4.0 / tau) * torch.sigmoid(tau * (ratio - 1.0)) * adv


def aepo_ste(ratio: Tensor, adv: Tensor, low: float, high: float) -> Tensor:
    """PPO's value, but beyond the *upper* bound the gradient of ``(1 + high) r / sg(r)`` (AEPO, arXiv 2510.14545)."""
    upper = (1.0 + high) * ratio / ratio.detach()
    clipped = torch.minimum(ratio.clamp(min=1.0 - low), upper)
    return torch.maximum(-ratio * adv, -clipped * adv)


def gmpo(log_ratio: Tensor, adv: Tensor, trajectory: Tensor, low: float, high: float) -> Tensor:
    """``-s A`` with s the geometric mean over the trajectory of clipped token ratios (GMPO, arXiv 2507.20673).

    A ratio is cut where PPO would cut it: above ``1 + high`` for A >= 0, below ``1 - low`` for A < 0. Averaging a
    trajectory's units (``seq_mean_token_mean``) gives the published loss.
    """
    ratio = log_ratio.exp()
    cut = torch.where(adv >= 0, ratio.clamp(max=1.0 + high), ratio.clamp(min=1.0 - low)).log()
    return -segment_mean(cut, trajectory).exp()[trajectory] * adv


def nft(ratio: Tensor, adv: Tensor, floor: float) -> Tensor:
    """Negative-aware fine-tuning on outcomes that are right or wrong (Chen et al. 2025, arXiv 2505.18116).

        L = -(1 - q) [ c log R + (1 - c) log max_v((1 - q R) / (1 - q), floor) ],    R = pi / pi_old

    with c = 1 for a right answer and q the share of right answers in the group; ``max_v`` changes the value and not
    the gradient. Both are read off the advantage ``A = c - q`` (reward 0 or 1, group mean as baseline): A > 0 is a
    right answer with ``q = 1 - A``, A < 0 a wrong one with ``q = -A``; A = 0 (all alike) contributes nothing.
    """
    right = adv > 0
    q = torch.where(right, 1.0 - adv, -adv).clamp(0.0, 1.0 - 1e-6)
    other = (1.0 - q * ratio) / (1.0 - q)
    other = other + (other.clamp(min=floor) - other).detach()
    wrong = torch.where(right, torch.ones_like(other), other)  # a right answer's branch must not make a NaN
    loss = -(1.0 - q) * torch.where(right, ratio.log(), wrong.log())
    return torch.where(adv == 0, torch.zeros_like(loss), loss)


def adaptive_bounds(h: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """HAPO (arXiv 2509.16591): the range of each unit follows its ``h`` (``formulas.entropy``), ``[U]`` each."""
    return low * (1.0 - h.clamp(max=0.0)), high * (1.0 + h.clamp(min=0.0))


def redistributed(adv: Tensor, ratio: Tensor, h: Tensor, low: float, high: float) -> Tensor:
    """HAPO's advantages, which follow entropy and ratio: ``formulas.entropy.redistributed`` on tensors."""
    r = ratio.detach()
    inside = (r > 1.0 - low / 2) & (r < 1.0 + high / 2)
    return torch.where((h > 0) ^ inside, adv * (1.0 + h), adv)


def clipped(ratio: Tensor, adv: Tensor, low: Bound, high: Bound) -> tuple[Tensor, Tensor]:
    """Whether PPO would cut the unit below and above, bool ``[U]`` each: the ratio is outside and A points outwards."""
    return (ratio < 1.0 - low) & (adv < 0), (ratio > 1.0 + high) & (adv > 0)


def _clip(ratio: Tensor, low: Bound, high: Bound) -> Tensor:
    return torch.minimum(
        torch.maximum(ratio, torch.as_tensor(1.0 - low).to(ratio)), torch.as_tensor(1.0 + high).to(ratio)
    )


def _clip_range(o: Any, _: Units) -> tuple[Bound, Bound]:
    return o.clip_low, o.clip_high


def _symmetric(o: Any, _: Units) -> tuple[Bound, Bound]:
    return o.clip_high / (1.0 + o.clip_high), o.clip_high


def _adaptive(o: Any, u: Units) -> tuple[Bound, Bound]:
    assert u.h is not None
    return adaptive_bounds(u.h, o.clip_low, o.clip_high)


@dataclass(frozen=True)
class Surrogate(Part):
    """phi: a function of the ``Objective`` and of ``Now``, to ``[U]``."""

    ratios: tuple[str, ...] = tuple(RATIOS)
    """Levels of the ratio that it goes with."""
    bounds: Callable[[Any, Units], tuple[Bound, Bound]] = _clip_range
    """The clip range of each unit."""


def _ppo(o: Any, u: Now) -> Tensor:
    return ppo(u.ratio, u.adv, u.low, u.high, dual=o.dual)


_ANY, _TOKEN = tuple(name for name in RATIOS if name != "none"), ("token",)
SURROGATES = {
    "pg": Surrogate(lambda _, u: pg(u.logp, u.adv), ratios=("none",)),
    "is": Surrogate(lambda _, u: importance(u.ratio, u.adv), ratios=_ANY),
    "ppo": Surrogate(_ppo, ratios=_ANY),
    "log_sym": Surrogate(_ppo, ratios=_ANY, bounds=_symmetric),
    "cispo": Surrogate(lambda _, u: cispo(u.ratio, u.adv, u.logp, u.low, u.high), ratios=_ANY),
    "sapo": Surrogate(lambda o, u: sapo(u.ratio, u.adv, *o.gate), ratios=_ANY),
    "aepo_ste": Surrogate(lambda o, u: aepo_ste(u.ratio, u.adv, o.clip_low, o.clip_high), ratios=_ANY),
    "gmpo": Surrogate(
        lambda o, u: gmpo(u.log_ratio, u.adv, u.trajectory, o.clip_low, o.clip_high), spans="trajectory", ratios=_TOKEN
    ),
    "adaptive": Surrogate(_ppo, needs=("entropy",), ratios=_TOKEN, bounds=_adaptive),
    "nft": Surrogate(lambda o, u: nft(u.ratio, u.adv, o.floor), ratios=_TOKEN),
}
"""phi by name."""
