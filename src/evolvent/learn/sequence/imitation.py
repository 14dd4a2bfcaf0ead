"""Doing what was done: the loss of a sequence model that says actions, its gradient step, and what it then does."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from evolvent.models.team.action_heads import BLOCKED, gumbel


def action_error(said_MK: Tensor, action_MK: Tensor, mask_MK: Tensor) -> Tensor:
    """Mean over the steps that count: cross-entropy of logits ``[M, K, N]``, in nats, or the squared error of numbers
    ``[M, K, dims]``, a mean over these.
    """
    if action_MK.ndim == said_MK.ndim:
        return (said_MK - action_MK)[mask_MK].square().mean()
    return functional.cross_entropy(said_MK[mask_MK], action_MK[mask_MK])


def choose(logits: Tensor, available: Tensor | None, greedy: bool, generator: torch.Generator | None) -> Tensor:
    """The likeliest of N choices that are open, or one drawn from their softmax, ``[..., N]`` to int64 ``[...]``."""
    logits = logits if available is None else logits.masked_fill(~available, BLOCKED)
    return (logits if greedy else logits + gumbel(logits.shape, logits, generator)).argmax(-1)


def take_step(optimizer: torch.optim.Optimizer, loss: Tensor, *, lr: float, grad_clip: float) -> float:
    """One step down the gradient of ``loss``, of norm ``grad_clip`` at most; returns the norm that it had."""
    optimizer.zero_grad()
    loss.backward()
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    norm = nn.utils.clip_grad_norm_(parameters, grad_clip)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    return norm.item()
