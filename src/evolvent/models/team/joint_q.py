"""A critic of joint actions, agent by agent: what if this agent had acted otherwise, the others as they did?

    Q^i(s, a^{-i}, ·) = MLP(state, own observation, the others' actions, own slot empty)

One network for all agents. For choices it gives a value for each of them in one pass (Foerster et al. 2018, COMA); for
numbers the agent's own action is one more input. Whose turn it is shows in the empty slot, and in the agent's number
where that is put behind the observation.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evolvent.core.errors import BadInput
from evolvent.core.team import TeamSpec
from evolvent.models.team.actors import Perceptron
from evolvent.models.team.sizes import with_ids


class JointQ(nn.Module):
    """Q of each agent's actions, given those of the others; in the scale of the training targets.

    All agents choose, or all give numbers. With ``ids`` each agent's one-hot number is put behind its observation.
    """

    def __init__(
        self, team: TeamSpec, state_dim: int, obs_dim: int, *, hidden: tuple[int, ...] = (128, 128), ids: bool = False
    ) -> None:
        super().__init__()
        if team.kind == "mixed":
            raise BadInput(
                "no joint Q for mixed actions", got=team.kind, expected="choices, or numbers", where="JointQ"
            )
        self.choices, self.dims, self.ids = team.choices, team.dims, ids
        width = team.choices + team.dims
        plain = team.n_agents * ids + team.n_agents * width + team.dims
        self.net = Perceptron(state_dim + obs_dim + plain, team.choices or 1, hidden, plain=plain, gain=1.0)
        others = 1.0 - torch.eye(team.n_agents)
        self.register_buffer("others_AA", others, persistent=False)

    others_AA: Tensor

    @property
    def head(self) -> nn.Linear:
        """The last layer."""
        last = self.net.net[-1]
        assert isinstance(last, nn.Linear)
        return last

    def of_choices(self, state: Tensor, obs: Tensor, action: Tensor) -> Tensor:
        """Q of every choice of every agent, ``[..., A, N]``; state ``[..., S]``, obs ``[..., A, D]``, action int64."""
        return self.net(self.around(state, obs, nn.functional.one_hot(action, self.choices).to(obs.dtype)))

    def of_numbers(self, state: Tensor, obs: Tensor, action: Tensor, own: Tensor) -> Tensor:
        """Q of K actions of every agent, ``[..., A, K]``.

        State ``[..., S]``, obs ``[..., A, D]``, what was done ``[..., A, dims]``, what might have been ``[..., A, K,
        dims]``.
        """
        return self.own(self.around(state, obs, action), own)

    def own(self, around: Tensor, own: Tensor) -> Tensor:
        """Q of K actions ``[..., K, dims]`` where all else is ``around`` ``[..., W]``: ``[..., K]``."""
        around = around.unsqueeze(-2).expand(*own.shape[:-1], -1)
        return self.net(torch.cat([around, own], dim=-1)).squeeze(-1)

    def taken(self, state: Tensor, obs: Tensor, action: Tensor) -> Tensor:
        """Q of what was done, as every agent's critic sees it: ``[..., A]``."""
        if self.choices:
            return self.of_choices(state, obs, action).gather(-1, action.unsqueeze(-1)).squeeze(-1)
        return self.of_numbers(state, obs, action, action.unsqueeze(-2)).squeeze(-1)

    def around(self, state: Tensor, obs: Tensor, coded: Tensor) -> Tensor:
        """Inputs but for the own action: state, observation (and number), what others did; choices come as one-hot."""
        agents = obs.shape[-2]
        obs = with_ids(obs) if self.ids else obs
        others = coded.unsqueeze(-3) * self.others_AA.unsqueeze(-1)  # [..., A (whose Q), A (whose action), width]
        return torch.cat([state.unsqueeze(-2).expand(*obs.shape[:-2], agents, -1), obs, others.flatten(-2)], dim=-1)
