"""Fitting a critic that stands apart from the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from evolvent.credit import agent_gae
from evolvent.learn.losses import masked_mean, value_loss
from evolvent.learn.team.batch import Batch
from evolvent.learn.team.descent import Rows, descend
from evolvent.learn.team.value_norm import ValueNorm


def own_targets(
    norm: ValueNorm, batch: Batch, rule: agent_gae.Config, heads: Sequence[nn.Linear]
) -> tuple[Tensor, Tensor]:
    """What a critic for each agent should say and what it said, ``[T*B, A]``, on its own scale.

    Of agents that are not alive too: what the team earns after their death is owed to them, and the credit of their
    steps is bootstrapped from these values.

    Args:
        norm: takes in the targets, the agents' lambda-returns.
        batch: the rollout.
        rule: discount and trace.
        heads: last layers of the critics; rescaled with ``norm``.
    """
    value = norm.denormalise(batch.value)
    target = batch.tensor(agent_gae.estimate(batch.rollout, rule)) + value
    norm.update(target, head=heads)
    return norm.normalise(target).flatten(0, 1), norm.normalise(value).flatten(0, 1)


def team_targets(
    norm: ValueNorm, value_TB: Tensor, adv_TBA: Tensor, active_TBA: Tensor | None, heads: Sequence[nn.Linear]
) -> tuple[Tensor, Tensor, Tensor | None]:
    """What one critic of a team should say, what it said and which steps count, flat ``[T*B]``, on its own scale.

    The targets are the lambda-returns of the team; the normaliser takes them in and the heads are rescaled with it.

    Args:
        norm: of the critic's values.
        value_TB: what it said when acting, on its scale.
        adv_TBA: advantages in units of reward, the same for all who were alive, 0 for the others.
        active_TBA: who was alive; ``None`` = everybody.
        heads: last layers of the critics on this scale.
    """
    value = norm.denormalise(value_TB)
    adv = adv_TBA.mean(-1) if active_TBA is None else adv_TBA.sum(-1) / active_TBA.sum(-1).clamp(min=1)
    mask = None if active_TBA is None else active_TBA.any(-1)
    target = value + adv
    norm.update(target, mask=mask, head=heads)
    old = norm.normalise(value).flatten()
    return norm.normalise(target).flatten(), old, None if mask is None else mask.flatten()


def explained_variance(value: Tensor, target: Tensor, mask: Tensor | None = None) -> float:
    """``1 - var(target - value) / var(target)``: 1 = the critic knew, 0 = no better than their mean; NaN-free.

    Args:
        value: what the critic said when acting.
        target: what came, on the same scale.
        mask: bool, what counts.
    """
    value, target = (x.flatten() if mask is None else x[mask] for x in (value, target))
    spread = target.var(correction=0)
    return float(1.0 - (target - value).var(correction=0) / spread) if len(target) and spread > 0 else 0.0


def fit_critic(
    value_of: Callable[[Rows], Tensor],
    optimizer: torch.optim.Optimizer,
    target: Tensor,
    passes: Iterable[Rows],
    *,
    old_value: Tensor | None = None,
    clip: float = 0.0,
    grad_clip: float = 10.0,
    mask: Tensor | None = None,
    weight: Tensor | float = 1.0,
) -> dict[str, float]:
    """One step of the optimizer for each part of ``passes``; the mean ``value_loss``, and what ``old_value`` explained.

    Args:
        value_of: rows of the rollout → what the critic says there now, with gradients.
        optimizer: of the critic's parameters.
        target: what it should say, on its own scale, ``[rows, ...]``.
        passes: minibatches, as often as the rollout is passed over.
        old_value: what it said when acting; with ``clip`` it is held near that.
        clip: range of the value clip.
        grad_clip: largest norm of the gradient.
        mask: bool, which targets count.
        weight: of each target's error, as it broadcasts; separate critics learn from ``own_means``.
    """

    def loss_of(rows: Rows) -> tuple[Tensor, dict[str, Tensor | float]]:
        before = None if old_value is None else old_value[rows]
        error = value_loss(value_of(rows), target[rows], old_value=before, clip=clip)
        counts = None if mask is None else mask[rows]
        return masked_mean(weight * error, counts), {"loss": masked_mean(error, counts)}

    metrics = descend(optimizer, passes, loss_of, target, mask=mask, grad_clip=grad_clip)
    known = {} if old_value is None else {"explained_variance": explained_variance(old_value, target, mask)}
    return {"value_loss": metrics.get("loss", 0.0), **known}
