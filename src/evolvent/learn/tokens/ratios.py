"""Importance ratios ``pi / pi_old`` of a token, a turn or a whole trajectory, and the distance to a reference.

Flat vectors over units ``[U]`` with a segment id for each; there is no padding. Log-ratios are clamped to ±20, after
summing where a segment is summed, so that a stale or broken log-probability cannot become an infinite weight.
"""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent.learn.tokens.axis import Part, part_of

LIMIT = 20.0


def segment_sum(x: Tensor, segment: Tensor) -> Tensor:
    """Sum of each segment, ``[S]``; ``segment`` int64 ``[U]`` with ids in [0, S), some of which may be unused."""
    size = int(segment.max()) + 1 if len(segment) else 0
    return torch.zeros(size, dtype=x.dtype, device=x.device).index_add(0, segment, x)


def segment_mean(x: Tensor, segment: Tensor) -> Tensor:
    """Mean of each segment, ``[S]``; 0 where a segment is empty."""
    return segment_sum(x, segment) / segment_sum(torch.ones_like(x), segment).clamp(min=1.0)


def log_ratios(logp: Tensor, old_logp: Tensor) -> Tensor:
    """``log pi - log pi_old`` of each unit within ±20, in at least float32."""
    return (_wide(logp) - _wide(old_logp)).clamp(-LIMIT, LIMIT)


def ratios(logp: Tensor, old_logp: Tensor, level: str, *, turn: Tensor, trajectory: Tensor) -> Tensor:
    """Importance ratio that each unit is weighted with, ``[U]``; ``turn`` and ``trajectory`` are int64 ``[U]``.

    Raises:
        BadInput: a level that is not one of ``RATIOS`` nor ``file.py:NAME``.
    """
    return part_of("ratio", level, RATIOS, Part).call(logp, old_logp, turn, trajectory)


def product(logp: Tensor, old_logp: Tensor, segment: Tensor) -> Tensor:
    """The product over the segment, the same for all its units; the gradient reaches all of them."""
    return segment_sum(_wide(logp) - _wide(old_logp), segment).clamp(-LIMIT, LIMIT).exp()[segment]


def seq_geo(logp: Tensor, old_logp: Tensor, trajectory: Tensor) -> Tensor:
    """The geometric mean ``s`` over the trajectory (GSPO, Zheng et al. 2025, arXiv 2507.18071).

    Written ``sg(s) pi / sg(pi)``, so that each unit gets the gradient of its own log-probability alone.
    """
    logp = _wide(logp)
    mean = segment_mean((logp - _wide(old_logp)).detach(), trajectory).clamp(-LIMIT, LIMIT)
    return mean.exp()[trajectory] * (logp - logp.detach()).exp()


_OLD = ("old_logp",)
RATIOS = {
    "none": Part(lambda logp, *_: torch.ones_like(_wide(logp))),
    "token": Part(lambda logp, old, *_: log_ratios(logp, old).exp(), _OLD),
    "turn": Part(lambda logp, old, turn, _: product(logp, old, turn), _OLD),
    "trajectory": Part(lambda logp, old, _, trajectory: product(logp, old, trajectory), _OLD, "trajectory"),
    "seq_geo": Part(lambda logp, old, _, trajectory: seq_geo(logp, old, trajectory), _OLD, "trajectory"),
}
"""Levels by name: a function of both log-probabilities, of the turn and of the trajectory of each unit."""


def approx_kl(log_ratio: Tensor) -> Tensor:
    """``(r - 1) - log r`` of each unit: at least 0, and KL(pi_old, pi) in expectation (the guard of POAD)."""
    return log_ratio.exp() - 1.0 - log_ratio


KL_FORMS = {
    "k1": Part(lambda d: d),
    "k2": Part(lambda d: 0.5 * d**2),
    "k3": Part(lambda d: (-d).exp() - 1.0 + d),
}
"""By name: a function of ``d = log pi - log ref``. k1 is unbiased and can be negative, k3 is at least 0."""


def kl(logp: Tensor, ref_logp: Tensor, form: str) -> Tensor:
    """Estimate of KL(pi, ref) from what pi sampled, log-ratios within ±20 (Schulman 2020).

    Raises:
        BadInput: a form that is not one of ``KL_FORMS`` nor ``file.py:NAME``.
    """
    return part_of("kl_form", form, KL_FORMS, Part).call(log_ratios(logp, ref_logp))


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
