"""Critics of what one agent does: Q(o, a) of numbers, or of one of its choices."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evolvent.core.team import TeamSpec
from evolvent.models.team.actors import Critic


class ActionCritics(nn.Module):
    """``count`` networks; of choices each has a value for every choice, numbers are one more input."""

    def __init__(self, team: TeamSpec, hidden: tuple[int, ...], *, count: int = 2) -> None:
        super().__init__()
        self.choices = team.choices
        sizes = (team.obs_dim, team.choices) if team.choices else (team.obs_dim + team.dims, 1)
        self.each = nn.ModuleList(Critic(*sizes, hidden, ids=team.dims) for _ in range(count))

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """What each says, ``[count, ...]``; observations ``[..., D]``, action int64 ``[...]`` or ``[..., dims]``."""
        if not self.choices:
            seen = torch.cat([obs, action], dim=-1)
            return torch.stack([critic(seen) for critic in self.each])
        return torch.stack([critic(obs).gather(-1, action.unsqueeze(-1)).squeeze(-1) for critic in self.each])
