"""Bellman backup with action decomposition: GAE over tokens that discounts between actions only (POAD).

Paper: Wen et al. 2024, "Reinforcing Language Agents via Policy Optimization with Action Decomposition" (POAD),
arXiv 2405.15821; equations of the backup, GAE as in the released buffer. For token j of n in turn t, V of the prefix
before it:

    inside an action (j < n):  d = V_{t,j+1} - V_{t,j}                       A_{t,j} = d + lambda_inside A_{t,j+1}
    at its last token:         d = r_t + gamma V_{t+1,1} - V_{t,j}           A_{t,j} = d + gamma lambda A_{t+1,1}

so the value of the first prefix is that of the action-level problem, however many tokens its actions have. With
``lambda = lambda_inside = 1`` the first token's advantage is the action-level one (``step_gae`` on the first tokens).

Biased by default, as GAE is: gamma < 1, and trace < 1 lets the critic's errors in (cosine with the true gradient 0.987
to 0.9999 with an arbitrary critic in the exact test). With gamma = lambda = 1 it is unbiased whatever the critic says,
with gamma = 1 and the exact critic for every lambda. With gamma = 0.95 and lambda = 1 the cosine is 0.998 to 0.9999;
``token_ntpo``, which discounts at every token, has 0.989 to 0.9998. Needs no group.

Needs ``episode.notes["value"]`` (or a critic) and, for truncated attempts, ``episode.final_value``.

Deviations: the released buffer lets one accumulator run on through cut attempts; here an attempt that was cut
bootstraps and ends. ``lambda_inside = 1`` is ours: under the released lambda, credit inside an action of n tokens
decays with trace^n although discounting does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._tokens import Gae, gae_ledger, last_tokens

LEVEL = "token"
UNBIASED = False
NEEDS = ("value",)


@dataclass(frozen=True)
class Config(Gae):
    """Settings of POAD's advantage (Overcooked in the paper's scripts; the other tasks have gamma 0.95)."""

    gae_lambda_inside: float | None = None
    """λ of GAE between tokens of one action; ``None`` = ``gae_lambda``, as released."""


CLAIMS = ((Config(gamma=1.0, gae_lambda=1.0), True), (Config(gamma=1.0, gae_lambda=1.0, gae_lambda_inside=0.5), False))
CLAIMS_EXACT_CRITIC = (
    (Config(gamma=1.0), True),
    (Config(gamma=1.0, gae_lambda=0.3, gae_lambda_inside=1.0), True),
    (Config(), False),
)
_WHERE = "credit.token_bad"


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Advantage of every token of the valid episodes, in units of reward; plus its value it is the critic's target.

    Raises:
        BadInput: values missing or not one for each token, a decision without tokens, or a truncated episode without
            a final value.
    """
    inside = config.gae_lambda if config.gae_lambda_inside is None else config.gae_lambda_inside

    def discounts(episode: Episode) -> tuple[np.ndarray, np.ndarray]:
        last_K = last_tokens(episode, _WHERE)
        return np.where(last_K, config.gamma, 1.0), np.where(last_K, config.gae_lambda, inside)

    return gae_ledger(episodes, LEVEL, config, _WHERE, discounts=discounts)
