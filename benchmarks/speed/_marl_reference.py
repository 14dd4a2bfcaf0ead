"""What ``bench marl`` races against: the same network in the plain pattern of the released multi-agent transformer.

Four separate projections an attention, heads split and joined by transposes, a mask filled in at every call, one-hot
tokens, distribution objects; acting runs the whole decoder once for every agent, and the local actor too. Written for
this comparison; it takes the weights of a ``JointPolicy`` and gives its log-probabilities, which a test checks.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Normal
from torch.nn import functional

from evolvent.models.team.attention import Attention, DecoderBlock, EncoderBlock, Look
from evolvent.models.team.joint import JointPolicy

HIDDEN = -1e10


class PlainAttention(nn.Module):
    """Multi-head attention, projections apart, an optional causal mask."""

    def __init__(self, source: Attention, causal: bool) -> None:
        super().__init__()
        self.q, self.v, self.o = source.q, source.v, source.o
        width = source.q.in_features
        self.k = nn.Linear(width, width, dtype=source.k.weight.dtype, device=source.k.weight.device)
        with torch.no_grad():
            self.k.weight.copy_(source.k.weight)
            self.k.bias.zero_()
        self.heads, self.causal = source.heads, causal

    def forward(self, key: Tensor, value: Tensor, query: Tensor) -> Tensor:
        """``[B, A, D]``, all three."""
        batch, agents, width = query.shape
        q, k, v = (
            layer(x).view(batch, agents, self.heads, width // self.heads).transpose(1, 2)
            for layer, x in ((self.q, query), (self.k, key), (self.v, value))
        )
        score = (q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5
        if self.causal:
            mask = torch.tril(torch.ones(agents, agents, device=query.device))
            score = score.masked_fill(mask[None, None] == 0, float("-inf"))
        mixed = functional.softmax(score, dim=-1) @ v
        return self.o(mixed.transpose(1, 2).contiguous().view(batch, agents, width))


class PlainEncoder(nn.Module):
    """A block of the encoder."""

    def __init__(self, source: EncoderBlock) -> None:
        super().__init__()
        self.attention, self.mlp = PlainAttention(source.attention, False), source.mlp
        self.norm1, self.norm2 = source.norm1, source.norm2

    def forward(self, x: Tensor) -> Tensor:
        """``[B, A, D]``."""
        x = self.norm1(x + self.attention(x, x, x))
        return self.norm2(x + self.mlp(x))


class PlainDecoder(nn.Module):
    """A block of the decoder."""

    def __init__(self, source: DecoderBlock) -> None:
        super().__init__()
        self.attention1, self.attention2 = (
            PlainAttention(source.attention1, True),
            PlainAttention(source.attention2, True),
        )
        self.mlp, self.norm1, self.norm2, self.norm3 = source.mlp, source.norm1, source.norm2, source.norm3

    def forward(self, x: Tensor, rep: Tensor) -> Tensor:
        """``[B, A, D]``, both."""
        x = self.norm1(x + self.attention1(x, x, x))
        x = self.norm2(rep + self.attention2(x, x, rep))
        return self.norm3(x + self.mlp(x))


class PlainJoint(nn.Module):
    """A team with one kind of action, in the order of the agents, everybody alive.

    Shares the layers of ``policy`` where their form is the same, copies the rest: make a new one after training.
    """

    def __init__(self, policy: JointPolicy) -> None:
        super().__init__()
        self.actor, self.choices, self.dims = policy.actor, policy.action.choices, policy.action.dims
        self.look, self.critic, self.head = policy.look, policy.critic, policy.head
        self.own: Look | None = getattr(policy, "own", None)
        self.encoder = nn.ModuleList(PlainEncoder(x) for x in policy.encoder if isinstance(x, EncoderBlock))
        if self.actor == "decoder":
            self.token, self.token_norm = policy.token, policy.token_norm
            self.decoder = nn.ModuleList(PlainDecoder(x) for x in policy.decoder if isinstance(x, DecoderBlock))
        if self.dims:
            self.scale = policy.scale

    def encode(self, obs_BAD: Tensor) -> tuple[Tensor, Tensor]:
        """Representations and values."""
        x = self._look(self.look, obs_BAD)
        for block in self.encoder:
            x = block(x)
        return x, self.critic(x).squeeze(-1)

    def decode(self, shifted_BAK: Tensor, rep_BAD: Tensor, obs_BAD: Tensor) -> Tensor:
        """The output for every agent, given the tokens before each."""
        if self.own is not None:
            return self.head(self._look(self.own, obs_BAD))
        x = self.token_norm(functional.gelu(self.token(shifted_BAK)))
        for block in self.decoder:
            x = block(x, rep_BAD)
        return self.head(x)

    @torch.no_grad()
    def act(self, obs_BAD: Tensor, available_BAN: Tensor | None = None, *, greedy: bool = False) -> tuple[Tensor, ...]:
        """Action, log-probabilities ``[B, A, P]``, values: the whole decoder once for every agent."""
        rep, value = self.encode(obs_BAD)
        batch, agents, _ = obs_BAD.shape
        shifted = torch.zeros(batch, agents, 1 + self.choices + self.dims, dtype=obs_BAD.dtype, device=obs_BAD.device)
        shifted[:, 0, 0] = 1.0
        action = torch.zeros(
            (batch, agents) if self.choices else (batch, agents, self.dims),
            dtype=torch.long if self.choices else obs_BAD.dtype,
            device=obs_BAD.device,
        )
        logp = torch.zeros(batch, agents, self.dims or 1, dtype=obs_BAD.dtype, device=obs_BAD.device)
        for m in range(agents):
            out = self.decode(shifted, rep, obs_BAD)[:, m]
            dist = self._dist(out, None if available_BAN is None else available_BAN[:, m])
            likeliest = dist.probs.argmax(-1) if isinstance(dist, Categorical) else dist.mean
            drawn = likeliest if greedy else dist.sample()
            logp[:, m] = dist.log_prob(drawn).view(batch, -1)
            action[:, m] = drawn
            if m + 1 < agents:
                actions = functional.one_hot(drawn, self.choices).to(obs_BAD.dtype) if self.choices else drawn
                shifted[:, m + 1, 1:] = actions
        return action, logp, value

    def logprobs(self, obs_BAD: Tensor, action: Tensor, available_BAN: Tensor | None = None) -> tuple[Tensor, ...]:
        """Log-probabilities ``[B, A, P]``, entropy ``[B, A]``, values, in one pass with gradients."""
        rep, value = self.encode(obs_BAD)
        batch, agents, _ = obs_BAD.shape
        shifted = torch.zeros(batch, agents, 1 + self.choices + self.dims, dtype=obs_BAD.dtype, device=obs_BAD.device)
        shifted[:, 0, 0] = 1.0
        actions = functional.one_hot(action, self.choices).to(obs_BAD.dtype) if self.choices else action
        shifted[:, 1:, 1:] = actions[:, :-1]
        dist = self._dist(self.decode(shifted, rep, obs_BAD), available_BAN)
        entropy = dist.entropy().view(batch, agents, -1).sum(-1)
        return dist.log_prob(action).view(batch, agents, -1), entropy, value

    def _look(self, look: Look, obs_BAD: Tensor) -> Tensor:
        x = look.norm1(obs_BAD)
        return look.norm2(functional.gelu(look.linear(x)))

    def _dist(self, out: Tensor, available: Tensor | None) -> Categorical | Normal:
        if self.choices:
            logits = out if available is None else out.masked_fill(~available, HIDDEN)
            return Categorical(logits=logits)
        return Normal(out, (0.5 * torch.sigmoid(self.scale)).expand_as(out))
