"""Live groups: return minus the group mean, scaled up to make up for groups whose returns are all equal (GPG).

Paper: Chu et al. 2025 (*GPG: A Simple and Strong Reinforcement Learning Baseline for Model Reasoning*,
arXiv 2504.02546), equations as in the authors' code.

    A_i = B / (B - M) (R_i - 1/G sum_j R_j)        for every step of attempt i

B attempts are given, M of them in groups that all earned the same: these have no gradient, and a mean over the batch
would shrink with their number. Unbiased up to scale for one group at a time; over a batch the factor depends on which
groups happened to differ, so there it is not. Pools over all it is given.

Deviations: without any group that differs the credit is 0 (released: divided by a small number). Sampling until a share
of the groups differs (.6 in the paper's best run) belongs to the loop. verl's ``gpg`` has B over the number of rewards
that are not 0 instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._group import labels, to_steps, totals, valid_rows
from evolvent.formulas.baselines import group_mean
from evolvent.formulas.curricula import teaching

LEVEL = "step"
SCOPE = "batch"
UNBIASED = "up to scale"
COMPARES = True


def assign(episodes: Sequence[Episode]) -> Ledger:
    """The advantage of its episode on every step of the valid episodes, in units of reward."""
    rows = valid_rows(episodes)
    ret, group = totals(episodes, rows), labels(episodes, rows)
    live = int(teaching(ret, group).sum())
    return to_steps(episodes, rows, (len(rows) / live if live else 0.0) * (ret - group_mean(ret, group)))
