"""A joint policy that writes the team's action agent by agent: the Multi-Agent Transformer (Wen et al. 2022).

An encoder attends over all observations and gives each agent a representation and a value; a decoder emits agent m's
action from the representations and the actions of the agents before it, in any order. ``logprobs`` is teacher forcing:
one pass for all agents. ``act`` decodes with caches (``joint_decode``) and gives the same log-probabilities.

    encoder: x = LN(GELU(Linear(LN(o)))); per block x = LN(x + Attn(x)), x = LN(x + MLP(x))
             V = Linear(LN(GELU(Linear(x))))
    decoder: x = LN(GELU(Linear(token))); per block x = LN(x + CausalAttn(x)), x = LN(rep + CausalAttn(rep over x)),
             x = LN(x + MLP(x)); out = Linear(LN(GELU(Linear(x))))

A token is [start | one-hot of the previous agent's choice | its numbers] through one linear layer, which has a bias
where there are numbers. No position, no agent embedding: who an agent is shows in its observation, or in its number
behind that (``ids``). Without numbers no parameter depends on how many agents there are.

Deviations from the released code: tokens of mixed and unequal actions, a start flag for continuous actions too,
``mask_dead``; the unused state encoder is left out, and the key bias, which a softmax cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from evolvent.core.errors import BadInput, ModelError
from evolvent.core.team import TeamSpec
from evolvent.models.team.action_heads import BLOCKED, ActionHead, Allowed, sigma_of
from evolvent.models.team.attention import ROOT2, DecoderBlock, EncoderBlock, Head, Look, attend_words, linear
from evolvent.models.team.joint_decode import Decoder, decode, prepare
from evolvent.models.team.sizes import EXTRA, sized, with_ids

Order = Tensor | Callable[[Tensor], Tensor] | None


class Acted(NamedTuple):
    """An action of the team, its log-probabilities by part ``[B, A, P]`` and the values ``[B, A]``."""

    action: Tensor
    logp_BAP: Tensor
    value_BA: Tensor


class JointLogprobs(NamedTuple):
    """Of given actions: log-probabilities by part, entropy (all parts together), values, and representations."""

    logp_BAP: Tensor
    entropy_BA: Tensor
    value_BA: Tensor
    rep_BAW: Tensor


class JointPolicy(nn.Module):
    """Encoder and actor of a team; only ``act`` and ``logprobs`` know how many agents there are.

    The actor is a ``decoder`` (mat), ``local``: one MLP on an agent's own observation, which never sees the encoder
    (mat_dec), or ``encoder``: a head on the representation (mat_encoder). The last two act in one pass.

    With ``mask_dead`` nobody attends to agents that are not active, nor to their actions; then ``active_BA`` must be
    given to ``act`` and ``logprobs`` alike. With ``ids`` each agent's one-hot number is put behind its observation.
    With ``sizes`` how large an observation is stands beside its pattern (``models.team.sizes``): the first layer norm
    erases it else, but for what it leaves of it beside an agent's one-hot number.

    Raises:
        BadInput: heads do not divide the width, or an unknown actor.
    """

    def __init__(
        self,
        team: TeamSpec,
        obs_dim: int,
        *,
        width: int = 64,
        heads: int = 1,
        blocks: int = 1,
        actor: Literal["decoder", "local", "encoder"] = "decoder",
        mask_dead: bool = False,
        ids: bool = False,
        sizes: bool = False,
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads or blocks < 1:
            raise BadInput(
                "heads do not divide the width",
                got=(width, heads, blocks),
                expected="width % heads == 0, blocks >= 1",
                where="JointPolicy",
            )
        if actor not in ("decoder", "local", "encoder"):
            raise BadInput("no such actor", got=actor, expected="decoder, local or encoder", where="JointPolicy.actor")
        self.actor, self.width, self.heads, self.mask_dead = actor, width, heads, mask_dead
        self.action, self.ids, self.sizes = ActionHead(team), ids, sizes
        obs_dim += team.n_agents * ids + EXTRA * sizes
        self.look = Look(obs_dim, width)
        self.encoder = nn.ModuleList(EncoderBlock(width, heads) for _ in range(blocks))
        self.critic = Head(width, 1)
        if team.dims:
            self.scale = nn.Parameter(torch.ones(team.dims))
        if actor == "decoder":
            self.token = linear(1 + self.action.width, width, ROOT2, bias=team.dims > 0)
            self.token_norm = nn.LayerNorm(width)
            self.decoder = nn.ModuleList(DecoderBlock(width, heads) for _ in range(blocks))
        if actor == "local":
            self.own = Look(obs_dim, width)
        self.head = Head(width, self.action.width)
        self._causal: dict[tuple[int, torch.device, torch.dtype], Tensor] = {}
        self._plan: tuple[list[tuple[int, int]], Decoder] | None = None
        self._watched: list[Tensor] = []

    def act(
        self,
        obs_BAD: Tensor,
        *,
        available_BAN: Tensor | None = None,
        active_BA: Tensor | None = None,
        order_BA: Order = None,
        greedy: bool = False,
        generator: torch.Generator | None = None,
    ) -> Acted:
        """An action of every team, without gradients, from observations ``[B, A, D]``.

        ``available_BAN`` bool are choices allowed now (``None`` = all an agent has), ``active_BA`` bool who is alive,
        read where ``mask_dead`` is set. ``order_BA[b, m]`` acts m-th (``None`` = in their own order), or a function
        chooses the order from the representations ``[B, A, d]``; results stand in the order of the agents all the same.
        ``greedy`` takes the likeliest action instead of a draw from ``generator``, on the policy's device.
        """
        plan = self._planned() if self.actor == "decoder" else None
        with torch.inference_mode():
            looked = self.standardise(obs_BAD)
            dead_BA = self._dead(active_BA)
            rep_BAW, value_BA = self._encode(looked, dead_BA)
            allowed = self.action.allowed(available_BAN)
            order = order_BA(rep_BAW) if callable(order_BA) else order_BA
            if plan is not None:
                draw = {"greedy": greedy, "generator": generator}
                out, action = self._decode(plan, rep_BAW, allowed, dead_BA, order, **draw)
                logp_BAP = self.action.logp(out, self._sigma(), action, allowed)
            else:
                out = self._flat_out(looked, rep_BAW)
                action, logp_BAP = self.action.sample(out, self._sigma(), allowed, greedy=greedy, generator=generator)
        # clones made outside are ordinary tensors, which autograd takes later
        return Acted(action.clone(), logp_BAP.clone(), value_BA.clone())

    def logprobs(
        self,
        obs_BAD: Tensor,
        action: Tensor,
        *,
        available_BAN: Tensor | None = None,
        active_BA: Tensor | None = None,
        order_BA: Tensor | None = None,
        standard: bool = False,
    ) -> JointLogprobs:
        """Log-probabilities of actions that were taken, in one differentiable pass; arguments as for ``act``.

        ``standard``: ``obs_BAD`` went through ``standardise`` already, once a rollout instead of once an epoch.
        """
        self._plan = None  # the caller is about to train, perhaps without a new tensor version
        looked = obs_BAD if standard else self.standardise(obs_BAD)
        dead_BA = self._dead(active_BA)
        rep_BAW, value_BA = self._encode(looked, dead_BA)
        if self.actor == "decoder":
            out = self._forced(rep_BAW, action, dead_BA, order_BA)
        else:
            out = self._flat_out(looked, rep_BAW)
        logp_BAP, entropy_BA = self.action.logprobs(out, self._sigma(), action, self.action.allowed(available_BAN))
        return JointLogprobs(logp_BAP, entropy_BA, value_BA, rep_BAW)

    def standardise(self, obs_BAD: Tensor) -> Tensor:
        """Each agent's observation with mean 0 and variance 1 over its own entries, as the first LN does it."""
        obs_BAD = with_ids(obs_BAD) if self.ids else obs_BAD
        return sized(obs_BAD) if self.sizes else torch.layer_norm(obs_BAD, obs_BAD.shape[-1:])

    def value(self, obs_BAD: Tensor, active_BA: Tensor | None = None) -> Tensor:
        """Values ``[B, A]``, with gradients unless the caller forbids them."""
        return self._encode(self.standardise(obs_BAD), self._dead(active_BA))[1]

    def adopt(self, state: Mapping[str, Tensor]) -> None:
        """Take the weights of a policy trained with any number of agents.

        Raises:
            ModelError: a weight is missing, unknown or of another shape (observations, actions, width, heads, blocks).
        """
        own = self.state_dict()
        names = sorted(own.keys() ^ state.keys())
        if names:
            raise ModelError(
                "weights of another architecture",
                got=names[:5],
                expected=f"the {len(own)} of actor={self.actor!r}",
                where="JointPolicy.adopt",
                do="build it with the actor, blocks and kind of actions it was trained with",
            )
        other = {name: tuple(state[name].shape) for name, x in own.items() if x.shape != state[name].shape}
        if other:
            raise ModelError(
                "weights of another shape",
                got=other,
                expected={name: tuple(own[name].shape) for name in other},
                where="JointPolicy.adopt",
                do="observations and actions must have equal sizes; one-hot agent ids make them grow with the team",
            )
        self.load_state_dict(dict(state))

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """As of ``nn.Module``."""
        self._plan, self._watched = None, []
        return super().load_state_dict(*args, **kwargs)

    def _apply(self, fn: Any, recurse: bool = True) -> JointPolicy:
        self._plan, self._watched = None, []
        return super()._apply(fn, recurse)

    def _planned(self) -> Decoder:
        """Weights prepared for acting; prepared again when a weight was written or ``logprobs`` was called."""
        self._watched = self._watched or list(self.parameters())
        state = [(x.data_ptr(), x._version) for x in self._watched]
        if self._plan is None or self._plan[0] != state:
            with torch.no_grad():
                self._plan = (
                    state,
                    prepare(
                        self.decoder,
                        self.token_parts(),
                        self.token_norm,
                        self.head,
                        self._sigma(),
                        choices=self.action.choices,
                        heads=self.heads,
                    ),
                )
        return self._plan[1]

    def _sigma(self) -> Tensor | None:
        return sigma_of(self.scale) if self.action.dims else None

    def _dead(self, active_BA: Tensor | None) -> Tensor | None:
        return ~active_BA if self.mask_dead and active_BA is not None else None

    def _encode(self, looked_BAD: Tensor, dead_BA: Tensor | None) -> tuple[Tensor, Tensor]:
        x = self.look(looked_BAD)
        bias = None if dead_BA is None else hidden(dead_BA, x.dtype)[:, None]
        for block in self.encoder:
            x = block(x, bias)
        return x, self.critic(x).squeeze(-1)

    def _flat_out(self, looked_BAD: Tensor, rep_BAW: Tensor) -> Tensor:
        return self.head(self.own(looked_BAD) if self.actor == "local" else rep_BAW)

    def _decode(
        self,
        plan: Decoder,
        rep_BAW: Tensor,
        allowed: Allowed,
        dead_BA: Tensor | None,
        order_BA: Tensor | None,
        **draw: Any,
    ) -> tuple[Tensor, Tensor]:
        """Cached decoding in an order; the output and the action stand in the order of the agents."""
        batched = allowed.choices is not None and allowed.choices.ndim == 3
        rows = Allowed(
            in_line(allowed.choices, order_BA, batched=batched),
            in_line(allowed.dims, order_BA),
            in_line(allowed.chooses, order_BA),
        )
        dead_AB = None if dead_BA is None else in_line(dead_BA, order_BA, batched=True)
        rep_ABW = in_line(rep_BAW, order_BA, batched=True)
        assert rep_ABW is not None
        parts = decode(plan, rep_ABW.contiguous(), rows, dead_AB, **draw)
        back = None if order_BA is None else inverse(order_BA)
        out, choice, vector = (None if x is None else in_line(x.transpose(0, 1), back, batched=True) for x in parts)
        out, choice, vector = (None if x is None else x.transpose(0, 1) for x in (out, choice, vector))
        assert out is not None
        return out, self.action.join(choice, vector)

    def _forced(self, rep_BAW: Tensor, action: Tensor, dead_BA: Tensor | None, order_BA: Tensor | None) -> Tensor:
        batch, agents, _ = rep_BAW.shape
        choice, vector = self.action.split(action)
        if order_BA is not None:
            rep_BAW = reorder(rep_BAW, order_BA)
        causal = first = later = self._causal_bias(agents, rep_BAW)
        shown_BA = None
        if dead_BA is not None:
            dead_BA = dead_BA if order_BA is None else dead_BA.gather(1, order_BA)
            before_BA = shift_right(dead_BA, False)
            later, first = (causal + hidden(x, causal.dtype)[:, None] for x in (dead_BA, before_BA))
            shown_BA = ~before_BA
        words_BA = self._words(choice, batch, agents, order_BA)
        blocks = [block for block in self.decoder if isinstance(block, DecoderBlock)]
        if vector is None:
            table = self.token_norm(functional.gelu(self.token_parts()[0][:-1]))
            if len(table) * self.heads <= self.width:  # else products over all words cost more than over the agents
                x = blocks[0].norm1(attend_words(blocks[0].attention1.fold(), words_BA, table, shown_BA))
                x = blocks[0].second(x, rep_BAW, first)
            else:
                x = blocks[0](functional.embedding(words_BA, table), rep_BAW, first)
        else:
            x = blocks[0](self._numbers(words_BA, vector, order_BA), rep_BAW, first)
        for block in blocks[1:]:
            x = block(x, rep_BAW, later)
        out = self.head(x)
        return out if order_BA is None else reorder(out, inverse(order_BA))

    def _words(self, choice: Tensor | None, batch: int, agents: int, order_BA: Tensor | None) -> Tensor:
        """Rows of the token table ``[B, A]``: at m the choice of the agent that acted before."""
        n = self.action.choices
        if choice is None:
            return shift_right(torch.full((batch, agents), n + 1, device=self.token.weight.device), n)
        words_BA = choice if self.action.chooses_A is None else choice.masked_fill(~self.action.chooses_A, n + 1)
        return shift_right(words_BA if order_BA is None else words_BA.gather(1, order_BA), n)

    def _numbers(self, words_BA: Tensor, vector: Tensor, order_BA: Tensor | None) -> Tensor:
        """Embedded tokens ``[B, A, d]`` of choices, if any, and numbers."""
        table, numbers = self.token_parts()
        assert numbers is not None
        vector = vector if self.action.dim_AD is None else vector.masked_fill(~self.action.dim_AD, 0.0)
        vector = shift_right(vector if order_BA is None else reorder(vector, order_BA), 0.0)
        return self.token_norm(functional.gelu(functional.embedding(words_BA, table) + vector @ numbers))

    def token_parts(self) -> tuple[Tensor, Tensor | None]:
        """A table (N choices, start, no choice) with its bias, and the columns of the numbers ``[dims, d]``."""
        weight, n = self.token.weight.t(), self.action.choices
        table = torch.cat([weight[1 : 1 + n], weight[:1], torch.zeros_like(weight[:1])])
        table = table if self.token.bias is None else table + self.token.bias
        return table, weight[1 + n :] if self.action.dims else None

    def _causal_bias(self, agents: int, like: Tensor) -> Tensor:
        key = (agents, like.device, like.dtype)
        if key not in self._causal:
            later = torch.full((agents, agents), -math.inf, dtype=like.dtype, device=like.device).triu(1)
            self._causal = {key: later.repeat_interleave(self.heads, 0)[None]}
        return self._causal[key]


def hidden(dead_BA: Tensor, dtype: torch.dtype) -> Tensor:
    """A large negative score where an agent is dead; finite, so that a row of dead agents only stays a number."""
    return dead_BA.to(dtype) * BLOCKED


def shift_right(x: Tensor, fill: float) -> Tensor:
    """``x[:, m - 1]`` at m, ``fill`` at 0."""
    return torch.cat([torch.full_like(x[:, :1], fill), x[:, :-1]], 1)


def reorder(x: Tensor, order_BA: Tensor) -> Tensor:
    """``x[b, order_BA[b, m]]`` at (b, m) for ``[B, A, …]``."""
    return x.gather(1, order_BA.unsqueeze(-1).expand_as(x))


def in_line(x: Tensor | None, order_BA: Tensor | None, *, batched: bool = False) -> Tensor | None:
    """``[B, A, …]`` (``batched``) or ``[A, …]`` in the order in which agents act: ``[A, B or 1, …]``."""
    if x is None:
        return None
    if order_BA is None:
        return x.transpose(0, 1) if batched else x.unsqueeze(1)
    if not batched:
        return x[order_BA].transpose(0, 1)
    return (x.gather(1, order_BA) if x.ndim == 2 else reorder(x, order_BA)).transpose(0, 1)


def inverse(order_BA: Tensor) -> Tensor:
    """The permutation that undoes ``order_BA``."""
    places = torch.arange(order_BA.shape[1], device=order_BA.device).expand_as(order_BA)
    return torch.empty_like(order_BA).scatter_(1, order_BA, places)
