"""What each choice is worth to an agent, by one network that all agents share."""

from __future__ import annotations

from torch import Tensor, nn

from evolvent.core.team import TeamSpec
from evolvent.models.team.actors import Critic
from evolvent.models.team.memory import Recurrent
from evolvent.models.team.sizes import with_ids


class AgentQ(nn.Module):
    """Q_i of every choice of every agent, from what it has ``seen``: its observation and, with ``ids``, its one-hot
    number; with ``memory`` so many numbers that it remembers of them.
    """

    def __init__(self, team: TeamSpec, *, hidden: tuple[int, ...], ids: bool, memory: int = 0) -> None:
        super().__init__()
        more = team.n_agents * ids
        self.ids, inputs = ids, team.obs_dim + more
        self.net = (
            Recurrent(inputs, team.choices, hidden, memory, gain=1.0)
            if memory
            else Critic(inputs, team.choices, hidden, ids=more)
        )

    def seen(self, obs: Tensor, memory: Tensor | None = None, begins: Tensor | None = None) -> Tensor:
        """Inputs, or what is remembered once ``obs`` are seen; arguments as of ``RecurrentActors.seen``."""
        obs = with_ids(obs) if self.ids else obs
        if memory is None or not isinstance(self.net, Recurrent):
            return obs
        return self.net(obs, memory) if begins is None else self.net.unrolled(obs, memory[:, 0], begins)

    def forward(self, seen: Tensor) -> Tensor:
        """``[..., A, N]``."""
        return self.net.out(seen) if isinstance(self.net, Recurrent) else self.net(seen)
