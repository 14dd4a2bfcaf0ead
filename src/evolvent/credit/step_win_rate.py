"""Win rate: share of its group that an attempt beats, minus one half (SPPO).

Paper: Wu et al. 2024, Self-Play Preference Optimization (arXiv 2405.00675).

    label_i = P(i wins) - 1/2,    P: share of the others that earned less, a tie being half a win

It is a target of the log-ratio, not an advantage (``learn.preference.objective``). As the weight of a policy gradient
it is biased: it increases the win rate, not the return. A group needs two attempts; those alone are not scored.

Deviations: P is computed from the returns within the group, not by a preference model.
"""

from __future__ import annotations

from collections.abc import Sequence

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._sides import compared, sided

LEVEL = "step"
UNBIASED = False
COMPARES = True
LABEL = True  # a side for a loss of preferences, not an advantage
LEAVES_OUT = True


def assign(episodes: Sequence[Episode]) -> Ledger:
    """Win rate less one half, on all decisions of the attempts that have somebody to beat.

    Raises:
        BadInput: a decision without tokens.
    """
    side: dict[int, float] = {}
    for members, returns in compared(episodes):
        for i, mine in zip(members, returns.tolist(), strict=True):
            wins = (returns < mine).sum() + 0.5 * ((returns == mine).sum() - 1)
            side[i] = float(wins / (len(members) - 1) - 0.5)
    return sided(episodes, side, "credit.step_win_rate")
