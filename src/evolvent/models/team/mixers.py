"""Values of agents mixed into one of the team: their sum (VDN), or any mixture that rises with each of them (QMIX).

    Sum:       Q_tot = sum_i Q_i
    Monotone:  Q_tot = |w2(s)|' elu(|W1(s)| q + b1(s)) + b2(s)

Papers: Sunehag et al. 2018 (arXiv 1706.05296); Rashid et al. 2018 (arXiv 1803.11485). Where Q_tot rises with every Q_i,
the best joint action is each agent's own best. Weights are made from the state and are not negative; biases are free.
One network makes all four from the state, of which it is told the size (``models.team.sizes``); in the paper each has
its own. Its last layer starts small, so that Q_tot starts near the size of the agents' values.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from evolvent.models.team.actors import Perceptron

GAIN = 0.2
"""Of the last layer: weights are about this, and W1 and w2 together, over 32 numbers, about 1."""


class Sum(nn.Module):
    """The sum of the agents' values; nothing is learned."""

    def forward(self, q: Tensor, state: Tensor) -> Tensor:
        """``q`` ``[..., A]``, of any state, as ``[...]``."""
        return q.sum(-1)


class Monotone(nn.Module):
    """A mixture that never falls when an agent's value rises."""

    def __init__(self, state_dim: int, n_agents: int, *, width: int = 32, hidden: tuple[int, ...] = (64,)) -> None:
        super().__init__()
        self.n_agents, self.width = n_agents, width
        self.net = Perceptron(state_dim, n_agents * width + 2 * width + 1, hidden, gain=GAIN)

    def forward(self, q: Tensor, state: Tensor) -> Tensor:
        """``q`` ``[..., A]`` and ``state`` ``[..., S]`` as ``[...]``."""
        sizes = [self.n_agents * self.width, self.width, self.width, 1]
        w1, b1, w2, b2 = self.net(state).split(sizes, dim=-1)
        w1 = w1.abs().unflatten(-1, (self.n_agents, self.width))
        hidden = functional.elu((q.unsqueeze(-2) @ w1).squeeze(-2) + b1)
        return (hidden * w2.abs()).sum(-1) + b2.squeeze(-1)
