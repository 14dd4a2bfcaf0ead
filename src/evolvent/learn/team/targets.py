"""What learners from a replay buffer have in common: choices that explore, values of what was seen after to bootstrap
from, and networks that follow slowly.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evolvent.models.team.action_heads import normal


def td_target(reward: Tensor, discount: Tensor, value: Tensor) -> Tensor:
    """``R + gamma^m V``, ``[M, A]``; reward and value ``[M, A]``, discount ``[M]`` (``replay.Transitions``)."""
    return reward + discount.unsqueeze(-1) * value


def best_value(q: Tensor, available: Tensor | None = None, *, by: Tensor | None = None) -> Tensor:
    """``q`` of its best choice among those available, ``[..., N]`` to ``[...]``.

    ``by`` says which is best where another network chooses: double Q-learning (van Hasselt et al. 2016, arXiv
    1509.06461).
    """
    return q.gather(-1, best_choice(q if by is None else by, available).unsqueeze(-1)).squeeze(-1)


def best_choice(q: Tensor, available: Tensor | None = None) -> Tensor:
    """The best choice among those available, ``[..., N]`` to int64 ``[...]``."""
    return (q if available is None else q.masked_fill(~available, -torch.inf)).argmax(-1)


def epsilon_at(step: int, steps: int, end: float) -> float:
    """Share of random choices at a step: falls from 1 to ``end`` over the first ``steps``."""
    return max(end, 1.0 + (end - 1.0) * step / steps)


def epsilon_greedy(
    q: Tensor, available: Tensor | None, epsilon: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Choices ``[B, A]``, the best or with probability epsilon any that is available, and logp ``[B, A, 1]``."""
    open_ = torch.ones_like(q) if available is None else available.to(q.dtype)
    open_[..., 0] += open_.sum(-1) == 0  # who is not alive may have nothing to choose; nobody reads what is drawn
    drawn, best = (
        torch.multinomial(open_.flatten(0, -2), 1, generator=generator).view(q.shape[:-1]),
        best_choice(q, available),
    )
    explores = torch.rand(q.shape[:-1], generator=generator, device=q.device) < epsilon
    action = torch.where(explores, drawn, best)
    p = epsilon / open_.sum(-1) + (1.0 - epsilon) * (action == best)
    return action, p.log().unsqueeze(-1)


def smoothed(action: Tensor, sigma: float, clip: float, generator: torch.Generator) -> Tensor:
    """``clip(a + clip(eps, ±clip), ±1)``, eps Gaussian: target policy smoothing (Fujimoto et al. 2018, eq. 14)."""
    return (action + (sigma * normal(action.shape, action, generator)).clamp(-clip, clip)).clamp(-1.0, 1.0)


@torch.no_grad()
def follow(target: nn.Module, source: nn.Module, tau: float) -> None:
    """``theta' <- (1 - tau) theta' + tau theta`` for all parameters; 1 copies them."""
    for old, new in zip(target.parameters(), source.parameters(), strict=True):
        old.lerp_(new, tau)
