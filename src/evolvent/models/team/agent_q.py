"""What each choice is worth to an agent, by one network that all agents share."""

from __future__ import annotations

from torch import Tensor, nn

from evolvent.core.team import TeamSpec
from evolvent.models.team.actors import Critic
from evolvent.models.team.sizes import with_ids


class AgentQ(nn.Module):
    """Q_i of every choice of every agent, from its own observation and, with ``ids``, its own one-hot number."""

    def __init__(self, team: TeamSpec, *, hidden: tuple[int, ...], ids: bool) -> None:
        super().__init__()
        more = team.n_agents * ids
        self.ids, self.net = ids, Critic(team.obs_dim + more, team.choices, hidden, ids=more)

    def forward(self, obs: Tensor) -> Tensor:
        """``[..., A, D]`` to ``[..., A, N]``."""
        return self.net(with_ids(obs) if self.ids else obs)
