"""Desirable or not: +1 for a success and -1 for a failure, without pairs (KTO).

Paper: Ethayarajh et al. 2024, KTO: Model Alignment as Prospect Theoretic Optimization (arXiv 2402.01306).

    label = +1 for an attempt that succeeded, -1 for any other; if success is unknown, a return above 0 counts as one

A label is no advantage (``learn.preference.objective``). As the weight of a policy gradient it is biased: it knows the
sign of an outcome and not its size. Needs no group.

Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._sides import answered, sided

LEVEL = "step"
UNBIASED = False
LABEL = True  # a side for a loss of preferences, not an advantage


def assign(episodes: Sequence[Episode]) -> Ledger:
    """+1 or -1 on all decisions of the valid attempts.

    Raises:
        BadInput: a decision without tokens.
    """

    def wanted(episode: Episode) -> bool:
        return episode.total_reward > 0 if episode.success is None else episode.success

    side = {i: 1.0 if wanted(episodes[i]) else -1.0 for i in answered(episodes)}
    return sided(episodes, side, "credit.step_wanted")
