"""Preference pair: +1 for the best attempt of a group, -1 for the worst (DPO and its variants, TGDPO).

Paper: Rafailov et al. 2023, Direct Preference Optimization (arXiv 2305.18290).

    label = +1 for the attempt of each group that earned most, -1 for the one that earned least

A label is no advantage: it says preferred or not, and the loss does the rest (``learn.preference.objective``). As the
weight of a policy gradient it is biased: it knows the order of returns and not their size. A group needs two attempts
that earned differently; all others take no part and are not scored.

Deviations: pairs come from what attempts earned, not from people.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.core.rounding import differ
from evolvent.credit._sides import compared, sided

LEVEL = "step"
UNBIASED = False
COMPARES = True
LABEL = True  # a side for a loss of preferences, not an advantage
LEAVES_OUT = True


def assign(episodes: Sequence[Episode]) -> Ledger:
    """+1 and -1 on all decisions of the pairs; among equals the first.

    Raises:
        BadInput: a decision without tokens.
    """
    side: dict[int, float] = {}
    for members, returns in compared(episodes):
        if differ(returns.tolist()):
            side[members[int(np.argmax(returns))]] = 1.0
            side[members[int(np.argmin(returns))]] = -1.0
    return sided(episodes, side, "credit.step_preferred")
