"""Separate actors of a team, evaluated together, and critics: the networks of HAPPO, HATRPO, MAPPO, IPPO and COMA.

    N(obs) -> [Linear h -> ReLU -> LN] x k -> Linear, orthogonal with gain sqrt 2, bias 0

as in HARL (Zhong et al. 2024), the last layer with gain 0.01 for actors and 1 for critics. N is a layer norm there. It
erases how large the numbers are, but for what an agent's one-hot number among them shows of it. So critics, and actors
that do not see that number, are also given the size (``models.team.sizes``); actors that see it are HARL's, since on
robots they learned less when they were given it (LOG.md, "Told of sizes").
Numbers of an action have sigma = 0.5 sigmoid(l), one l an agent and number, 1 at start.

Every agent has its own parameters, so that each can have its own optimiser. They are views into stacks ``[A, ...]``:
acting multiplies all agents at once, and nothing is copied when one of them learns. Moving to another device or copying
the module breaks the views; this is noticed at the next use, and the stacks are made anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from evolvent.core.errors import BadInput
from evolvent.core.team import TeamSpec
from evolvent.models.team.action_heads import ActionHead, Outlook, divergence, sigma_of
from evolvent.models.team.attention import ROOT2, fold_norm, linear
from evolvent.models.team.sizes import EXTRA, sized, with_id, with_ids


class TeamLogprobs(NamedTuple):
    """Of given actions: log-probabilities by part ``[..., P]`` and the entropy of all parts together ``[...]``."""

    logp: Tensor
    entropy: Tensor


class Perceptron(nn.Module):
    """N -> [Linear, ReLU, LN] x k -> Linear, with ``gain`` in the last layer.

    Where it is ``sized`` it is given the size of its inputs; so many of the last ones (``plain``) are not normalised
    then.
    """

    def __init__(
        self, inputs: int, outputs: int, hidden: tuple[int, ...], *, plain: int = 0, gain: float, sized: bool = True
    ) -> None:
        super().__init__()
        self.plain, self.sized = plain, sized
        sizes = (inputs + EXTRA * sized, *hidden)
        layers: list[nn.Module] = []
        for a, b in pairwise(sizes):
            layers += [linear(a, b, ROOT2), nn.ReLU(), nn.LayerNorm(b)]
        self.norm, self.net = nn.LayerNorm(sizes[0]), nn.Sequential(*layers, linear(sizes[-1], outputs, gain))

    def normalised(self, x: Tensor) -> Tensor:
        """N of the inputs, before its weights."""
        return sized(x, self.plain) if self.sized else torch.layer_norm(x, x.shape[-1:])

    def forward(self, x: Tensor) -> Tensor:
        """``[..., inputs]`` to ``[..., outputs]``."""
        x = self.normalised(x)
        for index, layer in enumerate(self.net):
            if index:
                x = layer(x)
            else:
                assert isinstance(layer, nn.Linear)
                x = functional.linear(x, *fold_norm(self.norm, layer))
        return x


class Critic(nn.Module):
    """A value (or ``out`` values) of what it is shown: a shared state, all observations side by side, or one agent's.

    With one output the last axis is dropped. So many of the last numbers (``ids``) are the one-hot number of an agent.
    """

    def __init__(self, in_dim: int, out: int = 1, hidden: tuple[int, ...] = (128, 128), *, ids: int = 0) -> None:
        super().__init__()
        self.net, self.outputs = Perceptron(in_dim, out, hidden, plain=ids, gain=1.0), out

    @property
    def head(self) -> nn.Linear:
        """The last layer."""
        last = self.net.net[-1]
        assert isinstance(last, nn.Linear)
        return last

    def forward(self, x: Tensor) -> Tensor:
        """``[..., in_dim]`` to ``[...]``, or ``[..., out]``."""
        value = self.net(x)
        return value.squeeze(-1) if self.outputs == 1 else value


class JointQ(nn.Module):
    """A critic of joint actions: Q of each agent's actions, given those of the others, in the scale of the targets.

        Q^i(s, a^{-i}, ·) = MLP(state, own observation, the others' actions, own slot empty)

    One network for all agents. For choices it gives a value for each of them in one pass (Foerster et al. 2018, COMA);
    for numbers the agent's own action is one more input. Whose turn it is shows in the empty slot, and in the agent's
    number where that is put behind the observation.

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


class Member(nn.Module):
    """One actor: its network and, where there are numbers, the scale of their noise."""

    def __init__(self, net: nn.Module, head: ActionHead) -> None:
        super().__init__()
        self.net = net
        if head.dims:
            self.scale = nn.Parameter(torch.ones(head.dims))

    @property
    def sigma(self) -> Tensor | None:
        """Standard deviations ``[dims]``."""
        return sigma_of(self.scale) if hasattr(self, "scale") else None


class Actors(nn.Module):
    """A actors with their own parameters, or one that all share (``shared``).

    They see D = ``obs_dim`` numbers each and, with ``ids``, their own one-hot number behind them. ``network`` takes the
    numbers that go in and out to another network than a perceptron, for one actor alone or one that all share.
    """

    def __init__(
        self,
        team: TeamSpec,
        obs_dim: int,
        *,
        hidden: tuple[int, ...] = (128, 128),
        shared: bool = False,
        ids: bool = False,
        network: Callable[[int, int], nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.action, self.shared, self.n_agents, self.ids = ActionHead(team), shared, team.n_agents, ids
        inputs = obs_dim + team.n_agents * ids
        make = network or partial(Perceptron, hidden=hidden, gain=0.01, sized=not ids)
        self.members = nn.ModuleList(
            Member(make(inputs, self.action.width), self.action) for _ in range(1 if shared else team.n_agents)
        )
        self._columns: dict[str, tuple[Tensor, ...]] = {}
        self._stacks: dict[str, Tensor] = {}

    def seen(self, obs: Tensor, memory: Tensor | None = None, begins: Tensor | None = None) -> Tensor:
        """What ``act`` and ``logprobs`` are given: observations; of actors with memory (``RecurrentActors``) that."""
        return obs

    @torch.no_grad()
    def act(
        self,
        obs_BAD: Tensor,
        *,
        available_BAN: Tensor | None = None,
        greedy: bool = False,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Actions of all agents and their log-probabilities ``[B, A, P]``, without gradients.

        Observations ``[B, A, D]``; ``available_BAN`` bool, choices allowed now (``None`` = all an agent has);
        ``greedy`` takes the likeliest action instead of a draw from ``generator``, on the actors' device.
        """
        out, sigma = self._out(obs_BAD)
        allowed = self.action.allowed(available_BAN)
        return self.action.sample(out, sigma, allowed, greedy=greedy, generator=generator)

    def logprobs(self, obs_BAD: Tensor, action: Tensor, *, available_BAN: Tensor | None = None) -> TeamLogprobs:
        """Judge actions ``[B, A, …]`` of all agents, with gradients."""
        out, sigma = self._out(obs_BAD)
        return TeamLogprobs(*self.action.logprobs(out, sigma, action, self.action.allowed(available_BAN)))

    def outlook(self, obs_BAD: Tensor, *, available_BAN: Tensor | None = None) -> Outlook:
        """All agents' distributions as parameters ``[B, A, …]``, with gradients (COMA's baseline needs them)."""
        out, sigma = self._out(obs_BAD)
        return self.action.outlook(out, sigma, self.action.allowed(available_BAN))

    def parameters_of(self, agent: int) -> list[nn.Parameter]:
        """The parameters of one agent, for its own optimiser; of everybody where they are shared."""
        return list(self._member(agent).parameters())

    def groups(self) -> list[dict[str, Any]]:
        """Parameters for one optimiser of all: a group for each actor, whose gradient is clipped for itself."""
        return [{"params": list(member.parameters())} for member in self.members]

    def logprobs_one(
        self, agent: int, obs_BD: Tensor, action: Tensor, *, available_BN: Tensor | None = None
    ) -> TeamLogprobs:
        """Log-probabilities ``[B, P]`` and entropy ``[B]`` of one agent's actions ``[B, …]``, differentiable."""
        member, allowed = self._member(agent), self.action.allowed(available_BN, agent)
        out = self._out_one(agent, obs_BD)
        return TeamLogprobs(*self.action.logprobs(out, member.sigma, action, allowed))

    def params_one(self, agent: int, obs_BD: Tensor, *, available_BN: Tensor | None = None) -> Outlook:
        """One agent's distribution as parameters, with gradients; two of them give ``kl_one``."""
        member = self._member(agent)
        out = self._out_one(agent, obs_BD)
        return self.action.outlook(out, member.sigma, self.action.allowed(available_BN, agent))

    def kl_one(self, agent: int, old: Outlook, new: Outlook) -> Tensor:
        """KL(old || new) of one agent's distributions ``[B]``, exact, in nats."""
        return divergence(old, new, self.action.allowed(None, agent))

    def seen_one(self, agent: int, obs: Tensor, memory: Tensor | None = None, begins: Tensor | None = None) -> Tensor:
        """As ``seen``, of one agent, for ``logprobs_one``: ``[..., D]``, ``[..., W]`` of its own."""
        return obs

    def seen_by(self, agent: int, obs_BD: Tensor) -> Tensor:
        """What the network of one agent is shown of its observations."""
        return with_id(obs_BD, agent, self.n_agents) if self.ids else obs_BD

    def _member(self, agent: int) -> Member:
        member = self.members[0 if self.shared else agent]
        assert isinstance(member, Member)
        return member

    def _out_one(self, agent: int, obs_BD: Tensor) -> Tensor:
        return self._member(agent).net(self.seen_by(agent, obs_BD))

    def _out(self, obs_BAD: Tensor) -> tuple[Tensor, Tensor | None]:
        obs_BAD = with_ids(obs_BAD) if self.ids else obs_BAD
        if len(self.members) == 1:
            member = self._member(0)
            return member.net(obs_BAD), member.sigma
        take = self._stacked()
        first = self._member(0).net
        assert isinstance(first, Perceptron)
        x_ABD = first.normalised(obs_BAD.transpose(0, 1))
        x_ABD = torch.addcmul(take["net.norm.bias"][:, None], x_ABD, take["net.norm.weight"][:, None])
        depth = len(first.net)
        for index in range(0, depth - 1, 3):
            at, norm = f"net.net.{index}", f"net.net.{index + 2}"
            x_ABD = torch.relu(_layer(x_ABD, take[f"{at}.weight"], take[f"{at}.bias"]))
            x_ABD = torch.layer_norm(x_ABD, x_ABD.shape[-1:])
            x_ABD = torch.addcmul(take[f"{norm}.bias"][:, None], x_ABD, take[f"{norm}.weight"][:, None])
        at = f"net.net.{depth - 1}"
        out = _layer(x_ABD, take[f"{at}.weight"], take[f"{at}.bias"]).transpose(0, 1)
        return out, sigma_of(take["scale"]) if self.action.dims else None

    def _stacked(self) -> dict[str, Tensor]:
        """Parameters ``[A, …]`` by name; gradients go to the agents' own tensors where they are wanted."""
        if not self._columns:
            rows = [dict(member.named_parameters()) for member in self.members]
            self._columns = {name: tuple(row[name] for row in rows) for name in rows[0]}
        for name, column in self._columns.items():
            if name not in self._stacks or not _is_stack(self._stacks[name], column):
                self._stacks[name] = _tie(column)
        if not torch.is_grad_enabled():
            return self._stacks
        return {name: _Stack.apply(stack, *self._columns[name]) for name, stack in self._stacks.items()}

    def _apply(self, fn: Any, recurse: bool = True) -> Actors:
        self._columns, self._stacks = {}, {}
        return super()._apply(fn, recurse)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """As of ``nn.Module``."""
        self._columns, self._stacks = {}, {}
        return super().load_state_dict(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        # copies and pickles make their own stacks
        return {**self.__dict__, "_columns": {}, "_stacks": {}}


class _Stack(torch.autograd.Function):
    """Tensors that lie side by side in one stack, as the stack; nothing is copied in either direction."""

    @staticmethod
    def forward(ctx: Any, stack: Tensor, *column: Tensor) -> Tensor:
        return stack.view_as(stack)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return (None, *grads[0].unbind(0))


def _layer(x_ABD: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.baddbmm(bias[:, None], x_ABD, weight.transpose(1, 2))


def _is_stack(stack: Tensor, column: tuple[Tensor, ...]) -> bool:
    size = stack[0].numel() * stack.element_size()
    start = stack.data_ptr()
    return stack.dtype == column[0].dtype and all(x.data_ptr() == start + i * size for i, x in enumerate(column))


@torch.no_grad()
def _tie(column: tuple[Tensor, ...]) -> Tensor:
    stack = torch.stack([x.detach() for x in column])
    for row, parameter in zip(stack, column, strict=True):
        parameter.data = row
    return stack
