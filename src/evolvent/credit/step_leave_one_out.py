"""Leave-one-out: return minus the mean return of the other attempts at the same task (RLOO).

Paper: Kool et al. 2019 (*Buy 4 REINFORCE samples, get a baseline for free*); Ahmadian et al. 2024 (arXiv 2402.14740).

    A_i = R_i - 1/(G-1) sum_{j != i} R_j        for every step of attempt i

Unbiased: the others were drawn independently of attempt i, so their mean is a baseline that does not depend on its
actions. An attempt without others keeps its whole return (baseline 0).

LOOP (Chen et al. 2025, arXiv 2502.01600) leaves out attempts whose advantage is small: ``drop_below=0.01``. That is
biased as far as what it drops does not average out.

Deviations: LOOP leaves such attempts out of the batch, here their credit is 0; a learner that skips zero advantages
does the same. ``step_leave_one_out_to_go`` is the rule with reward to go, usually at lower variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._group import labels, to_steps, totals, valid_rows
from evolvent.formulas.baselines import leave_one_out

LEVEL = "step"
UNBIASED = True


@dataclass(frozen=True)
class Config:
    """Settings of leave-one-out."""

    drop_below: float = 0.0
    """Advantages smaller than this in size are set to 0; 0.01 in LOOP."""
    kinds: tuple[str, ...] = ("return",)
    """Rewards that are summed and compared: the task's own return, and kinds of reward (``core.reward_kinds``)."""


CLAIMS = ((Config(drop_below=0.5), False),)


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The advantage of its episode on every step of the valid episodes, in units of reward.

    Raises:
        BadInput: an attempt without a kind of reward that is asked for.
    """
    rows = valid_rows(episodes)
    ret = totals(episodes, rows, config.kinds)
    adv = ret - leave_one_out(ret, labels(episodes, rows))
    return to_steps(episodes, rows, np.where(np.abs(adv) < config.drop_below, 0.0, adv))
