"""Thoughts: steps that a judge finds alike form one thought, scored once (TP-GRPO).

Paper: TP-GRPO, *Good Learners Think Their Thinking* (arXiv 2507.23317), of which only the abstract was read: the judge
gives a verdict on each step, steps in a row with one verdict are merged, rewards adapt to how capable the policy is.
The equations are ours:

    q = v (1 - p) for a good thought (v = 1), v p for a bad one (v = -1)              p: success rate of the group
    A_t = (R - mean_j R_j) / (std_j R_j + eps) + weight (q of the thought of step t - mean q)

Merging takes away the profit of splitting one thought into many steps. Verdicts stand in the record as the kind
``verdict`` (``core.reward_kinds``), above 0 for good. Biased, by the division and by the verdicts (cosine 0.80 to 0.98
in the exact test, where they are arbitrary). Mean q is over attempts of their mean thought.

Deviations: see above. The off-policy correction belongs to the learner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.core.reward_kinds import rewards_of, succeeded
from evolvent.credit._group import labels, totals, valid_rows
from evolvent.credit._turns import by_turn, turns_to_ledger
from evolvent.formulas.baselines import group_mean, group_z
from evolvent.formulas.process_rewards import thought_rewards

LEVEL = "step"
UNBIASED = False
NEEDS = ("kind:verdict",)


@dataclass(frozen=True)
class Config:
    """Settings of the credit of thoughts."""

    weight: float = 0.5
    """Coefficient of a thought's reward beside the outcome."""
    correct_above: float | None = None
    """Return above which an attempt counts as correct; None = where the environment reports success."""
    eps: float = 1e-6
    """Added to the standard deviation, against division by zero."""
    kind: str = "verdict"
    """Kind of reward that holds the verdicts."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Credit of every step of the valid episodes.

    Raises:
        BadInput: an attempt without verdicts, or of unknown success.
    """
    rows = valid_rows(episodes)
    group, ret = labels(episodes, rows), totals(episodes, rows)
    solved = group_mean([succeeded(episodes[i], config.correct_above) for i in rows], group)
    own_NT, mean = np.zeros_like(by_turn(episodes, rows, lambda e: e.rewards_T)), np.zeros(len(rows))
    for row, i in enumerate(rows):
        thought_T, q = thought_rewards(rewards_of(episodes[i], config.kind), float(solved[row]))
        if q.size:
            own_NT[row, : len(thought_T)], mean[row] = q[thought_T], q.mean()
    adv_NT = group_z(ret, group, eps=config.eps)[:, None] + config.weight * (own_NT - group_mean(mean, group)[:, None])
    return turns_to_ledger(episodes, rows, adv_NT)
