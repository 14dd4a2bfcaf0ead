"""Leave-one-out: the return of an attempt against the mean return of the other attempts at the same task (RLOO).

Paper: Kool et al. 2019 (*Buy 4 REINFORCE samples, get a baseline for free*); Ahmadian et al. 2024 (arXiv 2402.14740).

    A_i = R_i - 1/(G-1) sum_{j != i} R_j        for every step of attempt i

Unbiased: the others were drawn independently of attempt i, so their mean is a baseline that does not depend on its
actions. The group is the episodes with one ``group`` (or task); an attempt without others keeps its whole return
(baseline 0).

Deviations: none. ``step_leave_one_out_to_go`` is the same with reward to go, as a rule at lower variance.
"""

from __future__ import annotations

from collections.abc import Sequence

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._group import labels, to_steps, totals, valid_rows
from evolvent.formulas.baselines import leave_one_out

LEVEL = "step"
UNBIASED = True


def assign(episodes: Sequence[Episode]) -> Ledger:
    """The advantage of its episode on every step of the valid episodes, in units of reward."""
    rows = valid_rows(episodes)
    ret = totals(episodes, rows)
    return to_steps(episodes, rows, ret - leave_one_out(ret, labels(episodes, rows)))
