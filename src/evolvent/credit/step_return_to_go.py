"""Reward to go: the sum of rewards after a decision.

Paper: Williams 1992 (REINFORCE), with the causality argument of Sutton et al. 2000 (policy gradient theorem).

    A_t = sum_{k >= t} gamma^(k-t) r_k

Unbiased for the undiscounted return with ``gamma = 1`` (the default): a step cannot have caused earlier rewards. With
``gamma < 1`` it is the gradient of no objective, only less noisy. Needs no group.

Deviations: there is no critic, so a truncated episode counts as ended; ``step_gae`` bootstraps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._group import to_units, valid_rows
from evolvent.formulas.returns import discounted

LEVEL = "step"
UNBIASED = True


@dataclass(frozen=True)
class Config:
    """Settings of reward to go."""

    gamma: float = 1.0
    """Discount factor per step."""


CLAIMS = ((Config(gamma=0.9), False),)


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Credit of every step of the valid episodes, in units of reward."""
    rows = valid_rows(episodes)
    parts = [discounted(episodes[i].rewards_T, gamma=config.gamma) for i in rows]
    return to_units(episodes, LEVEL, rows, parts)
