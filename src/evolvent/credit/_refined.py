"""What the refinements of process rewards share: the task's reward plus refined scores, to go, against the group."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.core.reward_kinds import rewards_of
from evolvent.credit._group import labels, valid_rows
from evolvent.credit._turns import by_turn, turns_to_ledger
from evolvent.formulas.baselines import group_mean
from evolvent.formulas.returns import discounted


def refined_to_go(
    episodes: Sequence[Episode], kind: str, weight: float, refine: Callable[[np.ndarray], np.ndarray]
) -> Ledger:
    """``G_t - mean_j G_{j,t}`` with ``G_t = sum_{k >= t} (r_k + weight refine(p)_k)``; what has ended counts 0."""
    rows = valid_rows(episodes)
    reward_NT = by_turn(episodes, rows, lambda e: e.rewards_T + weight * refine(rewards_of(e, kind)))
    to_go_NT = discounted(reward_NT.T).T
    return turns_to_ledger(episodes, rows, to_go_NT - group_mean(to_go_NT, labels(episodes, rows)))
