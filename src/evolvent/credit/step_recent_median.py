"""Recent median: return above the median of recent group means, at least 0 (SPEAR's replay).

Paper: Qin et al. 2025 (*Learn the Ropes, Then Trust the Wins*, SPEAR, arXiv 2509.22601), self-imitation.

    A_i = max(0, R_i - median of the mean returns of recent groups)        for every step of attempt i

Attempts are replayed after the policy has moved on; the means of the groups seen since (``recent``, the last 10240) say
whether what was good then would still stand out, and what no longer does is dropped: credit 0. Biased by design: only
what went well is imitated (cosine 0.83 to 0.99 in the exact test). Without ``recent`` the median is the mean of the
attempt's own group, so that an attempt alone gets 0.

Deviations: none in the advantage; which attempts are kept for replay, and for how long, belongs to the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._group import labels, to_steps, totals, valid_rows
from evolvent.formulas.baselines import group_mean

LEVEL = "step"
UNBIASED = False


@dataclass(frozen=True)
class Config:
    """Settings of SPEAR's replay advantage."""

    recent: tuple[float, ...] = ()
    """Mean returns of the latest groups; empty = each group's own mean."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The advantage of its episode on every step of the valid episodes, in units of reward, never negative."""
    rows = valid_rows(episodes)
    ret = totals(episodes, rows)
    baseline = float(np.median(config.recent)) if config.recent else group_mean(ret, labels(episodes, rows))
    return to_steps(episodes, rows, np.maximum(ret - baseline, 0.0))
