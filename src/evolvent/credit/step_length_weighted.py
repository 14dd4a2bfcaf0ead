"""Length-weighted mean: return minus the group mean weighted by the number of tokens (OPO).

Paper: Hao et al. 2025 (*On-Policy RL with Optimal Reward Baseline*, arXiv 2505.23585).

    A_i = R_i - sum_j L_j R_j / sum_j L_j        for every step of attempt i, L_j its number of sampled tokens

The baseline of least variance weighs returns with the squared length of the score; if every token contributes alike,
that is the number of tokens. Biased: the own return has a weight that depends on the own actions (cosine 0.98 to 0.99
in the exact test). With ``without_own`` the baseline is made of the other attempts only and exact. An attempt without
others gets 0, or keeps its whole return with ``without_own``.

Deviations: ``without_own`` is ours and off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._group import labels, to_steps, totals, valid_rows
from evolvent.credit._turns import lengths
from evolvent.formulas.baselines import weighted_mean

LEVEL = "step"
UNBIASED = False
COMPARES = True


@dataclass(frozen=True)
class Config:
    """Settings of OPO's baseline."""

    without_own: bool = False
    """Leave an attempt out of its own baseline."""


CLAIMS = ((Config(without_own=True), True),)


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The advantage of its episode on every step of the valid episodes, in units of reward.

    Raises:
        BadInput: an attempt whose tokens were not recorded.
    """
    rows = valid_rows(episodes)
    ret, size = totals(episodes, rows), lengths(episodes, rows, "credit.step_length_weighted")
    baseline = weighted_mean(ret, size, labels(episodes, rows), without_own=config.without_own)
    return to_steps(episodes, rows, ret - baseline)
