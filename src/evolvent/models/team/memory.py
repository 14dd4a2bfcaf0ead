"""Memory of what was seen before in an attempt: a gated recurrent unit between what is seen and what follows from it.

    h' = GRU(relu(N(o)), h),   out = Linear(LN(h')),   h = 0 where an attempt begins

Cho et al. 2014 (arXiv 1406.1078). N is a ``Perceptron`` of the hidden layers. Learning goes back through all steps of a
rollout, to where its attempt began.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from evolvent.core.team import TeamSpec
from evolvent.models.team.action_heads import sigma_of
from evolvent.models.team.actors import Actors, Perceptron
from evolvent.models.team.attention import ROOT2, linear
from evolvent.models.team.sizes import with_ids


class Recurrent(nn.Module):
    """A network of ``width`` numbers of memory."""

    def __init__(self, inputs: int, outputs: int, hidden: tuple[int, ...], width: int, *, gain: float) -> None:
        super().__init__()
        self.net, self.cell = Perceptron(inputs, width, hidden, gain=ROOT2), nn.GRUCell(width, width)
        self.norm, self.last = nn.LayerNorm(width), linear(width, outputs, gain)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """Memory ``[..., W]`` once ``x`` ``[..., inputs]`` is seen."""
        return self.cell(self.net(x).relu().flatten(0, -2), memory.flatten(0, -2)).view(memory.shape)

    def out(self, memory: Tensor) -> Tensor:
        """What follows from it, ``[..., outputs]``."""
        return self.last(self.norm(memory))

    def unrolled(self, x: Tensor, memory: Tensor, begins: Tensor) -> Tensor:
        """Memory after each of T steps ``[M, T, A, W]``, of ``x`` ``[M, T, A, inputs]``.

        ``memory`` ``[M, A, W]`` is what there was before the first; ``begins`` (bool ``[M, T]``) says at which steps an
        attempt begins.
        """
        seen, out = self.net(x).relu(), list[Tensor]()
        for t in range(x.shape[1]):
            memory = memory.masked_fill(begins[:, t, None, None], 0.0)
            memory = self.cell(seen[:, t].flatten(0, 1), memory.flatten(0, 1)).view(memory.shape)
            out.append(memory)
        return torch.stack(out, dim=1)


class RecurrentActors(Actors):
    """Actors with memory: ``seen`` says what they remember, and everything else is given that instead of observations.

    Those that do not share a network are evaluated one after another.
    """

    def __init__(self, team: TeamSpec, obs_dim: int, *, hidden: tuple[int, ...], memory: int, **how: Any) -> None:
        super().__init__(team, obs_dim, hidden=(), **how)
        inputs = obs_dim + team.n_agents * self.ids
        for member in self.members:
            member.net = Recurrent(inputs, self.action.width, hidden, memory, gain=0.01)

    def seen(self, obs: Tensor, memory: Tensor | None = None, begins: Tensor | None = None) -> Tensor:
        """What is remembered once ``obs`` ``[B, A, D]`` is seen, ``[B, A, W]``; ``memory`` is from before.

        Of T steps of M copies, ``obs`` ``[M, T, A, D]`` and ``begins`` bool ``[M, T]``: after each, ``[M, T, A, W]``.
        """
        assert memory is not None
        obs = with_ids(obs) if self.ids else obs
        if begins is None:
            return self._each(lambda net, x, h: net(x, h), obs, memory)
        return self._each(lambda net, x, h: net.unrolled(x, h[:, 0], begins), obs, memory)

    def seen_one(self, agent: int, obs: Tensor, memory: Tensor | None = None, begins: Tensor | None = None) -> Tensor:
        """As ``seen``, of T steps of one agent: ``obs`` ``[M, T, D]``, ``memory`` ``[M, T, W]``, to ``[M, T, W]``."""
        assert memory is not None and begins is not None
        x = self.seen_by(agent, obs).unsqueeze(-2)
        return self._net(agent).unrolled(x, memory[:, 0].unsqueeze(-2), begins).squeeze(-2)

    def _net(self, agent: int) -> Recurrent:
        net = self._member(agent).net
        assert isinstance(net, Recurrent)
        return net

    def _out_one(self, agent: int, obs_BD: Tensor) -> Tensor:
        return self._net(agent).out(obs_BD)

    def _out(self, obs_BAD: Tensor) -> tuple[Tensor, Tensor | None]:
        out = self._each(lambda net, h, _: net.out(h), obs_BAD, obs_BAD)
        if not self.action.dims:
            return out, None
        sigma = torch.stack([sigma_of(self._member(i).scale) for i in range(len(self.members))])
        return out, sigma[0] if self.shared else sigma

    def _each(self, what: Callable[[Recurrent, Tensor, Tensor], Tensor], x: Tensor, memory: Tensor) -> Tensor:
        if self.shared:
            return what(self._net(0), x, memory)
        agents = range(self.n_agents)
        own = [what(self._net(i), x[..., i : i + 1, :], memory[..., i : i + 1, :]) for i in agents]
        return torch.cat(own, dim=-2)
