"""What policy-gradient learners minimise: clipped surrogates, the Huber value loss, means over who is alive.

Tensors of any leading shape ``[...]``; ``logp`` has one axis more, the parts P of an action (one for a choice, one a
dimension of a continuous action). Everything returned is element by element unless it says "mean", so that the caller
decides who counts.
"""

from __future__ import annotations

import torch
from torch import Tensor


def masked_mean(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean of ``x`` over the entries of ``mask`` (bool, same shape), of all without a mask; 0 where none is set."""
    if mask is None:
        return x.mean()
    # where, not a product: an entry that does not count may be NaN
    return torch.where(mask, x, torch.zeros_like(x)).sum() / mask.sum().clamp(min=1)


def own_means(like: Tensor, mask: Tensor | None = None) -> Tensor:
    """Weights ``[A]`` that turn a mean over all agents into the sum of each agent's own mean; ``like`` is ``[rows,
    A]``.

    For separate actors: in a mean over all agents the gradient of each would be 1/A of its own, and the step of Adam
    shrinks where gradients come near its eps.
    """
    if mask is None:
        return like.new_full(like.shape[-1:], like.shape[-1])
    return mask.sum() / mask.sum(0).clamp(min=1)


def normalised(
    adv: Tensor, mask: Tensor | None = None, *, per_agent: bool = False, centre: bool = True, eps: float = 1e-5
) -> Tensor:
    """``(A - mean) / (sd + eps)`` of ``[..., A]`` over the entries of ``mask``, 0 elsewhere.

    With ``per_agent`` each agent (last axis) has its own mean and spread. Not centred beside an optimal baseline, since
    the mean acts as a second one.
    """
    live = torch.ones_like(adv, dtype=torch.bool) if mask is None else mask
    axes = tuple(range(adv.dim() - 1)) if per_agent else tuple(range(adv.dim()))
    n = live.sum(dim=axes, keepdim=True).clamp(min=1)
    clean = torch.where(live, adv, torch.zeros_like(adv))
    centred = torch.where(live, clean - clean.sum(dim=axes, keepdim=True) / n, torch.zeros_like(adv))
    return (centred if centre else clean) / ((centred**2).sum(dim=axes, keepdim=True).div(n).sqrt() + eps)


def clipped_surrogate(
    logp_P: Tensor, old_logp_P: Tensor, adv: Tensor, *, clip: float, parts: str = "each", weight: Tensor | None = None
) -> Tensor:
    """PPO's clipped objective (Schulman et al. 2017, arXiv 1707.06347, eq. 7), to be *maximised*: ``[...]``.

    ``min(r A, clip(r, 1 - eps, 1 + eps) A)`` with ``r = pi / pi_old``, of log-probabilities ``[..., P]``. ``parts`` is
    ``"each"``: one ratio a part, the clipped terms summed (MAT); or ``"product"``: one ratio for the whole action, the
    product over its parts (HAPPO, MAPPO). The same where P is 1. ``weight`` is a positive factor on the result (HAPPO's
    ratio of the agents before).
    """
    log_ratio_P = logp_P - old_logp_P
    if parts == "product":
        log_ratio_P = log_ratio_P.sum(dim=-1, keepdim=True)
    ratio_P, adv_P = log_ratio_P.exp(), adv.unsqueeze(-1)
    objective = torch.minimum(ratio_P * adv_P, ratio_P.clamp(1.0 - clip, 1.0 + clip) * adv_P).sum(dim=-1)
    return objective if weight is None else objective * weight


def huber(error: Tensor, delta: float = 10.0) -> Tensor:
    """``e²/2`` for ``|e| <= delta``, ``delta (|e| - delta/2)`` beyond, on *both* sides (Huber 1964).

    Several released multi-agent code bases test ``e > delta`` and so give an error below ``-delta`` no gradient.
    """
    size = error.abs()
    return torch.where(size <= delta, 0.5 * error**2, delta * (size - 0.5 * delta))


def value_loss(
    value: Tensor, target: Tensor, *, old_value: Tensor | None = None, clip: float = 0.0, delta: float = 10.0
) -> Tensor:
    """``max(H(R - V), H(R - [V_old + clip(V - V_old, ±eps)]))``, ``[...]``; the plain Huber loss H where ``clip`` is 0.

    The critic now, what it should say, and what it said when acting, on one scale; ``delta`` is where H turns linear.
    """
    plain = huber(target - value, delta)
    if old_value is None or clip <= 0.0:
        return plain
    clipped = old_value + (value - old_value).clamp(-clip, clip)
    return torch.maximum(plain, huber(target - clipped, delta))


def clipped_share(logp_P: Tensor, old_logp_P: Tensor, clip: float, mask: Tensor | None = None) -> float:
    """Share of whole-action ratios outside ``1 ± clip``: how far the policy moved, for the log."""
    with torch.no_grad():
        ratio = (logp_P - old_logp_P).sum(dim=-1).exp()
        return float(masked_mean(((ratio - 1.0).abs() > clip).to(logp_P.dtype), mask))


def explained_variance(value: Tensor, target: Tensor, mask: Tensor | None = None) -> float:
    """``1 - var(target - value) / var(target)``: 1 = exact, 0 = no better than the mean of the targets; never NaN.

    ``value`` is what the critic said when acting, ``target`` what came, on the same scale.
    """
    value, target = (x.flatten() if mask is None else x[mask] for x in (value, target))
    spread = target.var(correction=0) if len(target) else 0.0
    return float(1.0 - (target - value).var(correction=0) / spread) if spread > 1e-12 else 0.0
