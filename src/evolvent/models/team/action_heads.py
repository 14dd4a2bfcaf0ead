"""What agents may do, as distributions over a network's output: one of N choices, a vector of numbers, or both.

The output has ``N + dims`` columns: logits of the choices, then means of the numbers. Choices are categorical over what
is available (unavailable logits become -1e10), numbers are Gaussian with sigma = 0.5 sigmoid(l), l a learned vector; it
does not depend on the observation (Multi-Agent Transformer, Wen et al. 2022, and HARL, Zhong et al. 2024). Nothing is
squashed or clipped: environments clip to [-1, 1] themselves.

Log-probabilities keep their parts ``[..., P]``: the choice first (where there is one), then one column a number. Parts
that an agent does not have are 0 in log-probability and entropy, and 0 in its action.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from evolvent.core.team import TeamSpec

BLOCKED = -1e10
LOG_TAU = math.log(2 * math.pi)


class Allowed(NamedTuple):
    """What agents may do now, with any leading axes; ``None`` = all choices, all agents.

    Bool: choices ``[..., N]``, the numbers an agent has ``[..., dims]``, whether it has choices at all ``[...]``.
    """

    choices: Tensor | None = None
    dims: Tensor | None = None
    chooses: Tensor | None = None


class Outlook(NamedTuple):
    """Parameters of the distribution over actions: log-probabilities ``[..., N]``, means and sigma ``[..., dims]``."""

    logp: Tensor | None
    mean: Tensor | None
    sigma: Tensor | None


class ActionHead(nn.Module):
    """The action specs of a team on the device of its policy; no parameters, nothing in the state dict.

    N choices (0 where nobody chooses) and ``dims`` numbers take ``width`` columns of a network's output and give P
    parts.
    """

    choice_AN: Tensor | None
    dim_AD: Tensor | None
    chooses_A: Tensor | None

    def __init__(self, team: TeamSpec) -> None:
        super().__init__()
        self.kind, self.choices, self.dims = team.kind, team.choices, team.dims
        self.width, self.parts = team.choices + team.dims, bool(team.choices) + team.dims
        choice_AN, dim_AD = torch.from_numpy(team.choice_mask()), torch.from_numpy(team.dim_mask())
        chooses_A = choice_AN.any(1) if team.choices else torch.ones(team.n_agents, dtype=torch.bool)
        for name, mask in (("choice_AN", choice_AN), ("dim_AD", dim_AD), ("chooses_A", chooses_A)):
            self.register_buffer(name, None if bool(mask.all()) else mask, persistent=False)

    def allowed(self, available: Tensor | None = None, agent: int | None = None) -> Allowed:
        """What the team (``available`` ``[B, A, N]``) or one ``agent`` (``[B, N]``) may do."""

        def pick(mask: Tensor | None) -> Tensor | None:
            return mask if mask is None or agent is None else mask[agent]

        own = pick(self.choice_AN)
        choices = own if available is None else available if own is None else available & own
        return Allowed(choices if self.choices else None, pick(self.dim_AD), pick(self.chooses_A))

    def split(self, action: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The choice (int64 ``[...]``) and the numbers (``[..., dims]``) of an action, or ``None``."""
        if self.kind == "discrete":
            return action.long(), None
        if self.kind == "continuous":
            return None, action
        return action[..., 0].long(), action[..., 1:]

    def join(self, choice: Tensor | None, vector: Tensor | None) -> Tensor:
        """The action of these parts, in the form of ``TeamSpec.kind``."""
        if choice is None or vector is None:
            part = vector if choice is None else choice
            assert part is not None
            return part
        return torch.cat([choice.unsqueeze(-1).to(vector.dtype), vector], -1)

    def logp(self, out: Tensor, sigma: Tensor | None, action: Tensor, allowed: Allowed) -> Tensor:
        """Log-probabilities of an action (``[...]``, ``[..., dims]`` or ``[..., 1 + dims]``) by part, ``[..., P]``.

        ``out`` is the network's output ``[..., N + dims]``; ``sigma`` broadcasts to ``[..., dims]``, ``None`` = no
        numbers.
        """
        return self._logp(self.log_softmax(out, allowed), out, sigma, action, allowed)

    def logprobs(self, out: Tensor, sigma: Tensor | None, action: Tensor, allowed: Allowed) -> tuple[Tensor, Tensor]:
        """Log-probabilities ``[..., P]`` of an action and the entropy ``[...]`` of all parts together, in nats."""
        logits = self.log_softmax(out, allowed)
        return self._logp(logits, out, sigma, action, allowed), self._entropy(logits, out, sigma, allowed)

    def outlook(self, out: Tensor, sigma: Tensor | None, allowed: Allowed) -> Outlook:
        """The distribution over actions as its parameters, for an exact divergence (``divergence``)."""
        mean = None if sigma is None else out[..., self.choices :]
        return Outlook(self.log_softmax(out, allowed), mean, sigma)

    def sample(
        self, out: Tensor, sigma: Tensor | None, allowed: Allowed, *, greedy: bool, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """An action drawn (or the likeliest one) from every row of ``out``, and its log-probabilities ``[..., P]``."""
        logits = self.log_softmax(out, allowed)
        choice = vector = None
        if logits is not None:
            choice = (logits if greedy else logits + gumbel(logits.shape, logits, generator)).argmax(-1)
            choice = _own(choice, allowed.chooses)
        if sigma is not None:
            vector = out[..., self.choices :]
            vector = vector if greedy else vector + sigma * normal(vector.shape, vector, generator)
            vector = _own(vector, allowed.dims)
        action = self.join(choice, vector)
        return action, self._logp(logits, out, sigma, action, allowed)

    def log_softmax(self, out: Tensor, allowed: Allowed) -> Tensor | None:
        """Log-probabilities of all choices ``[..., N]``; ``None`` where nobody chooses."""
        if not self.choices:
            return None
        logits = out[..., : self.choices]
        if allowed.choices is not None:
            logits = logits.masked_fill(~allowed.choices, BLOCKED)
        return torch.log_softmax(logits, -1)

    def _logp(
        self, logits: Tensor | None, out: Tensor, sigma: Tensor | None, action: Tensor, allowed: Allowed
    ) -> Tensor:
        choice, vector = self.split(action)
        parts: list[Tensor] = []
        if logits is not None and choice is not None:
            logp = logits.gather(-1, choice.unsqueeze(-1))
            parts.append(_own(logp, None if allowed.chooses is None else allowed.chooses.unsqueeze(-1)))
        if sigma is not None and vector is not None:
            logp = -0.5 * ((vector - out[..., self.choices :]) / sigma).square() - (sigma.log() + 0.5 * LOG_TAU)
            parts.append(_own(logp, allowed.dims))
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def _entropy(self, logits: Tensor | None, out: Tensor, sigma: Tensor | None, allowed: Allowed) -> Tensor:
        parts: list[Tensor] = []
        if logits is not None:
            parts.append(_own(-(logits.exp() * logits).sum(-1), allowed.chooses))
        if sigma is not None:
            each = (sigma.log() + 0.5 * (1.0 + LOG_TAU)).expand(out[..., self.choices :].shape)
            parts.append(_own(each, allowed.dims).sum(-1))
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def divergence(old: Outlook, new: Outlook, allowed: Allowed) -> Tensor:
    """KL(old || new) of all parts of an action together ``[...]``, in nats and in closed form.

    Choices: ``sum p (log p - log q)``, weighted by the old policy. Numbers: Gaussian, summed over those an agent has.
    """
    parts: list[Tensor] = []
    if old.logp is not None and new.logp is not None:
        parts.append(_own((old.logp.exp() * (old.logp - new.logp)).sum(-1), allowed.chooses))
    if old.sigma is not None and new.sigma is not None and old.mean is not None and new.mean is not None:
        far = (old.sigma.square() + (old.mean - new.mean).square()) / (2.0 * new.sigma.square())
        parts.append(_own((new.sigma / old.sigma).log() + far - 0.5, allowed.dims).sum(-1))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _own(x: Tensor, mask: Tensor | None) -> Tensor:
    """``x``, 0 where an agent has no such part."""
    return x if mask is None else x.masked_fill(~mask, 0)


def sigma_of(scale: Tensor) -> Tensor:
    """Standard deviation 0.5 sigmoid(l) of the unbounded parameter l; never above 0.5."""
    return 0.5 * torch.sigmoid(scale)


def gumbel(shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Standard Gumbel noise: the arg-max of logits + noise is a draw from their softmax."""
    noise = torch.empty(shape, dtype=like.dtype, device=like.device).exponential_(generator=generator)
    # an exact 0 would give infinite noise, which beats the -1e10 of what is not available
    return noise.clamp_min_(torch.finfo(like.dtype).tiny).log_().neg_()


def normal(shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Standard normal noise in the dtype and on the device of ``like``."""
    return torch.randn(shape, dtype=like.dtype, device=like.device, generator=generator)
