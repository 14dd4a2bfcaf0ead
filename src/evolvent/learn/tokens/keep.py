"""Which units take part in the surrogate: masks bool ``[U]``. One that is left out still counts in the denominator."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from evolvent.learn.tokens.axis import Now, Part
from evolvent.learn.tokens.ratios import segment_mean
from evolvent.learn.tokens.units import Units


def covariance(adv: Tensor, logp: Tensor) -> Tensor:
    """``(A - mean A)(log pi - mean log pi)`` over the units of the step: what drives the entropy down."""
    return (adv - adv.mean()) * (logp - logp.mean())


def clip_cov(
    cov: Tensor, clipped: Tensor, *, share: float, low: float, high: float, generator: torch.Generator | None
) -> Tensor:
    """All but a few units of high covariance, drawn at random (Clip-Cov, Cui et al. 2025, arXiv 2505.22617).

    ``max(1, round(share U))`` units, as many as there are, among those with ``low < cov < high`` that PPO's clip does
    not cut anyway (``clipped``). The generator is on the CPU.
    """
    eligible = torch.nonzero((cov > low) & (cov < high) & ~clipped).squeeze(-1)
    order = torch.randperm(len(eligible), generator=generator).to(eligible.device)
    takes_part = torch.ones_like(clipped)
    takes_part[eligible[order[: max(1, round(share * len(cov)))]]] = False
    return takes_part


def top_covariance(cov: Tensor, share: float) -> Tensor:
    """The ``max(1, round(share U))`` units of largest covariance (KL-Cov, same paper)."""
    picked = torch.zeros_like(cov, dtype=torch.bool)
    picked[cov.topk(min(len(cov), max(1, round(share * len(cov))))).indices] = True
    return picked


def top_entropy(entropy: Tensor, share: float) -> Tensor:
    """Units whose entropy reaches the ``1 - share`` quantile of the step (Wang et al. 2025, arXiv 2506.01939)."""
    return entropy >= torch.quantile(entropy.double(), 1.0 - share).to(entropy.dtype)


def neg_seq_kl(adv: Tensor, log_ratio: Tensor, trajectory: Tensor, limit: float) -> Tensor:
    """All but negative-advantage units of trajectories whose mean ``log pi_old - log pi`` exceeds ``limit`` (REC)."""
    moved = -segment_mean(log_ratio.detach(), trajectory)[trajectory]
    return ~((adv < 0) & (moved > limit))


def nonzero(adv: Tensor, limit: float) -> Tensor:
    """Units with ``|A| > limit`` (LOOP drops smaller ones)."""
    return adv.abs() > limit


def _clip_cov(o: Any, u: Now) -> Tensor:
    low, high = o.keep_range
    return clip_cov(covariance(u.adv, u.logp), u.cut, share=o.keep_share, low=low, high=high, generator=u.generator)


def _top_entropy(o: Any, u: Units) -> Tensor:
    assert u.entropy is not None
    return top_entropy(u.entropy, o.keep_share)


KEEPS = {
    "all": Part(lambda _, u: torch.ones_like(u.adv, dtype=torch.bool)),
    "clip_cov": Part(_clip_cov, spans="step"),
    "top_entropy": Part(_top_entropy, ("entropy",), "sampled"),
    "neg_seq_kl": Part(
        lambda o, u: neg_seq_kl(u.adv, u.log_ratio, u.trajectory, o.keep_range[0]), ("old_logp",), "trajectory"
    ),
    "nonzero": Part(lambda o, u: nonzero(u.adv, o.keep_range[0]), spans="sampled"),
}
"""By name: a function of the ``Objective`` and of ``Now``, or of ``Units`` where it spans what was sampled."""
