"""Fitting a critic that stands apart from the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from evolvent.learn.losses import masked_mean, value_loss

Rows = Tensor | slice


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
) -> float:
    """One step of the optimizer for each part of ``passes``; returns the mean loss.

    Args:
        value_of: rows of the rollout → what the critic says there now, with gradients.
        optimizer: of the critic's parameters.
        target: what it should say, on its own scale, ``[rows, ...]``.
        passes: minibatches, as often as the rollout is passed over.
        old_value: what it said when acting; with ``clip`` it is held near that.
        clip: range of the value clip.
        grad_clip: largest norm of the gradient.
        mask: bool, which targets count.
    """
    params = [param for group in optimizer.param_groups for param in group["params"]]
    losses: list[float] = []
    for rows in passes:
        before = None if old_value is None else old_value[rows]
        error = value_loss(value_of(rows), target[rows], old_value=before, clip=clip)
        loss = masked_mean(error, None if mask is None else mask[rows])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, grad_clip)
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / max(len(losses), 1)
