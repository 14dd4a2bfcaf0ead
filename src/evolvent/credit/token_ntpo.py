"""Naive token-level GAE: every token is a step, discounted like one (NTPO).

Paper: the baseline "NTPO" of Wen et al. 2024, arXiv 2405.15821.

    d_{t,j} = r_{t,j} + gamma V(next token's prefix) - V_{t,j}          r on the last token of an action, else 0
    A_{t,j} = d_{t,j} + gamma lambda A(next token)

Biased, and for another reason than GAE: with gamma < 1 what an action is worth depends on how many tokens it and the
actions after it have. In the exact test, whose actions have 1 to 3 tokens, gamma = 0.95 and lambda = 1 (where the
critic is a baseline only) give a cosine with the true gradient of 0.989 to 0.9998, 0.9965 on average, against 0.9994
for ``token_bad`` with the same discount between actions; it falls with the length of actions. With gamma = lambda = 1
it is unbiased and the same as ``token_bad``. Needs no group.

Needs ``episode.notes["value"]`` (or a critic) and, for truncated attempts, ``episode.final_value``.

Deviations: an attempt that was cut bootstraps and ends (see ``token_bad``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._tokens import Gae, gae_ledger

LEVEL = "token"
UNBIASED = False
NEEDS = ("value",)


@dataclass(frozen=True)
class Config(Gae):
    """Settings of the naive token-level advantage; those of ``token_bad`` with which it is compared."""


CLAIMS = ((Config(gamma=1.0, gae_lambda=1.0), True),)
CLAIMS_EXACT_CRITIC = ((Config(gamma=1.0), True), (Config(gae_lambda=1.0), False))


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Advantage of every token of the valid episodes, in units of reward; plus its value it is the critic's target.

    Raises:
        BadInput: as in ``token_bad``.
    """
    return gae_ledger(episodes, LEVEL, config, "credit.token_ntpo")
