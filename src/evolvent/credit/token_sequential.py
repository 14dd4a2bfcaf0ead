"""GAE over tokens, inside agents, inside turns (MARFT-T).

Paper: Liao et al. 2025 (MARFT), arXiv 2504.16129, token level. One chain through all tokens of all agents:

    at the last token of a turn:  d = r + gamma V(first token of the next turn) - V     A = d + gamma lambda A(next)
    at every other token:         d = r + kappa V(next token's prefix) - V              A = d + kappa lambda A(next)

where the reward of a decision lies on its last token and the next token may be another agent's. With one agent and
kappa = 1 it is ``token_bad``, with kappa = gamma ``token_ntpo``; with lambda = 1 the first token of a decision has the
advantage that ``agent_sequential`` gives the decision. Turns end as in ``agent_sequential``.

Biased by default: gamma < 1, and trace < 1 lets the critic's errors in. In the exact test it is unbiased with gamma =
lambda = 1 whatever the critic says, and with gamma = 1 and the exact critic for every lambda. With lambda = 1 the
cosine with the true gradient is 0.998 or more for gamma = 0.95, kappa = 1, and 0.989 to 0.9998 for kappa = gamma =
0.95: what bends is the discount inside turns (0.993 to 0.9999 for gamma = 1, kappa = 0.95). Needs no group.

Needs ``episode.notes["value"]`` (or a critic) and, for truncated attempts, ``episode.final_value``.

Deviations: the released code discounts at every token; ``Config(kappa=0.99)`` is that. We take 1 as in ``token_bad``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._tokens import Gae, gae_ledger, last_tokens, turn_ends

LEVEL = "token"
UNBIASED = False
NEEDS = ("value",)


@dataclass(frozen=True)
class Config(Gae):
    """Settings of MARFT's token-level advantage."""

    kappa: float = 1.0
    """Discount factor from token to token and agent to agent inside a turn; 0.99 (gamma) is the released behaviour."""


CLAIMS = ((Config(gamma=1.0, gae_lambda=1.0), True), (Config(gamma=1.0), False))
CLAIMS_EXACT_CRITIC = ((Config(gamma=1.0), True), (Config(gamma=1.0, kappa=0.95), False))
_WHERE = "credit.token_sequential"


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Advantage of every token of the valid episodes, in units of reward; plus its value it is the critic's target.

    Raises:
        BadInput: as in ``token_bad``, or turns that do not fit.
    """

    def discounts(episode: Episode) -> tuple[np.ndarray, float]:
        last_K = last_tokens(episode, _WHERE)
        over_K = np.zeros(episode.n_tokens, np.bool_)
        over_K[last_K] = turn_ends(episode, _WHERE)
        return np.where(over_K, config.gamma, config.kappa), config.gae_lambda

    return gae_ledger(episodes, LEVEL, config, _WHERE, discounts=discounts)
