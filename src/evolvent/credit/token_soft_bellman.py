"""Targets of the soft Bellman backup per token: reward minus the KL divergence from the initial model (ETPO).

Paper: Wen et al. 2024, "Entropy-Regularized Token-Level Policy Optimization" (ETPO), arXiv 2402.06700.

    softV(prefix) = sum_w pi(w) Q(prefix, w) - beta KL(pi, rho)         rho the model before training, Q the target net
    inside an action:  y = softV(prefix after the token)
    at its last token: y = r_t + gamma softV(next observation)          0 after the end

y is what Q(prefix, token) should be, which is what an action-value critic is regressed on: credit here is a *target*,
not an advantage. The fixed point is ``pi* ∝ rho exp(Q* / beta)``; as beta goes to 0 the backup is that of
``token_bad``.

Biased as a weight of the policy gradient: it trusts the critic and knows one reward only (cosine -0.45 to 0.91 with an
arbitrary critic in the exact test). With exact values, gamma = 1 and beta = 0 it is unbiased. Needs no group.

Needs, noted while sampling, ``notes["expected_q"]`` (sum of pi Q before each token) and ``notes["kl"]``, or a function
that gives the soft values; for truncated attempts ``final_value``, the soft value of the last observation.
Two numbers a token are kept instead of three rows of the vocabulary.

Deviations: the released code reads the KL of tokens inside an action one step too late, and keeps one environment's
agent 0 only; this is the paper's equation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.credit._group import to_units, valid_rows
from evolvent.credit._tokens import final_value, last_tokens, noted, token_rewards, token_values
from evolvent.formulas.soft import soft_targets

LEVEL = "token"
UNBIASED = False
NEEDS = ("expected_q", "kl")
_WHERE = "credit.token_soft_bellman"


@dataclass(frozen=True)
class Config:
    """Settings of ETPO's targets."""

    critic: Callable[[Episode], ArrayLike] | None = None
    """Soft values before each token ``[K]``, or ``[K + 1]`` with the last one; ``None`` = as recorded."""
    beta: float = 0.01
    """KL coefficient β, in units of reward per nat."""
    gamma: float = 0.99
    """Discount factor per action."""

    def __post_init__(self) -> None:
        if not self.beta > 0.0:
            raise BadInput("no best policy", got=f"beta = {self.beta}", expected="> 0", where=_WHERE)


CLAIMS_EXACT_CRITIC = ((Config(gamma=1.0), True), (Config(), False))


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Target of the action value of every token of the valid episodes, in units of reward.

    Raises:
        BadInput: notes missing, values that do not fit, a decision without tokens, or a truncated episode without a
            final value.
    """
    rows = valid_rows(episodes)
    return to_units(episodes, LEVEL, rows, [_targets(episodes[i], config) for i in rows])


def _targets(episode: Episode, config: Config) -> np.ndarray:
    after_K, last_K = _soft_values(episode, config)[1:], last_tokens(episode, _WHERE)
    return soft_targets(token_rewards(episode, _WHERE), after_K, last_K, config.gamma)


def _soft_values(episode: Episode, config: Config) -> np.ndarray:
    """Soft value before each token and after the last: ``[K + 1]``."""
    if config.critic is not None:
        return token_values(episode, config.critic, _WHERE)
    soft_K = noted(episode, "expected_q", _WHERE) - config.beta * noted(episode, "kl", _WHERE)
    return np.append(soft_K, final_value(episode, _WHERE))
