"""Fitting a critic that stands apart from the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.learn.losses import explained_variance, masked_mean, value_loss
from evolvent.learn.team.batch import Batch
from evolvent.learn.team.descent import Rows, descend
from evolvent.learn.team.value_norm import ValueNorm
from evolvent.models.team.actors import Critic


class Targets(NamedTuple):
    """What a critic should say, what it said when acting, and which of it counts (bool): ``[rows, ...]`` each."""

    target: Tensor
    old_value: Tensor | None = None
    mask: Tensor | None = None


def scaled_targets(
    norm: ValueNorm, batch: Batch, ledger: RolloutLedger, heads: Sequence[nn.Linear], *, shared: bool = False
) -> Targets:
    """What critics should say, what they said, and which steps count, on their own scale: ``[T*B, A]`` each.

    All steps count for critics of single agents, also those after an agent's death: what the team earns then is owed to
    it, and the credit of its steps is bootstrapped from these values. ``norm`` takes in the targets, and the last
    layers of the critics are rescaled with it. A ``shared`` critic has the same target for every agent, ``[T*B]`` each;
    then steps count in which anybody was alive.
    """
    target, value = batch.tensor(ledger.targets["step"]), norm.denormalise(batch.value)
    mask = batch.view.active if shared else None
    if shared:
        target, value, mask = target[..., 0], value[..., 0], None if mask is None else mask.any(-1)
    norm.update(target, mask=mask, head=heads)
    target, value = norm.normalise(target).flatten(0, 1), norm.normalise(value).flatten(0, 1)
    return Targets(target, value, None if mask is None else mask.flatten())


def fit_state_critic(
    critic: Critic,
    optimizer: torch.optim.Optimizer,
    norm: ValueNorm,
    batch: Batch,
    ledger: RolloutLedger,
    passes: Iterable[Rows],
    *,
    clip: float,
    grad_clip: float,
) -> dict[str, float]:
    """Fit one critic of the shared state to the lambda-returns of the team; arguments and result as ``fit_critic``."""
    said = scaled_targets(norm, batch, ledger, [critic.head], shared=True)
    state = batch.view.state.flatten(0, 1)
    return fit_critic(lambda rows: critic(state[rows]), optimizer, said, passes, clip=clip, grad_clip=grad_clip)


def fit_critic(
    value_of: Callable[[Rows], Tensor],
    optimizer: torch.optim.Optimizer,
    targets: Targets,
    passes: Iterable[Rows],
    *,
    clip: float = 0.0,
    grad_clip: float = 10.0,
    weight: Tensor | float = 1.0,
) -> dict[str, float]:
    """One step of the optimizer for each part of ``passes``; the mean ``value_loss``, and what the old values
    explained.

    ``value_of`` gives rows of the rollout what the critic says there now, with gradients, on the scale of the targets.
    With ``clip`` it is held near what it said when acting. ``weight`` is that of each error: separate critics learn
    from ``own_means``.
    """
    target, old_value, mask = targets

    def loss_of(rows: Rows) -> tuple[Tensor, dict[str, Tensor | float]]:
        before = None if old_value is None else old_value[rows]
        error = value_loss(value_of(rows), target[rows], old_value=before, clip=clip)
        counts = None if mask is None else mask[rows]
        return masked_mean(weight * error, counts), {"loss": masked_mean(error, counts)}

    metrics = descend(optimizer, passes, loss_of, target, mask=mask, grad_clip=grad_clip)
    known = {} if old_value is None else {"explained_variance": explained_variance(old_value, target, mask)}
    return {"value_loss": metrics.get("loss", 0.0), **known}
