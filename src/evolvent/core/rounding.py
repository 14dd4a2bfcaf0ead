"""Rewards to rounding: .7 + .2 + .1 earns all that there is to earn, and .1 * 3 + .2 * 3 + .1 no more than that.

One tolerance wherever a reward is held against the end of a range, a threshold, or another reward.
"""

from __future__ import annotations

import math
from collections.abc import Collection

ROUNDING = 1e-9
"""By how much two rewards may differ that count as the same."""


def inside(reward: float, low: float, high: float) -> float:
    """``reward`` within its range: at an end to rounding it is that end; NaN where it is outside, or NaN."""
    near = ROUNDING * min(1.0, high - low)  # of a range of 1e-12, ends are no nearer than elsewhere
    for end in (low, high):
        if abs(reward - end) <= near:
            return float(end)
    return float(reward) if low < reward < high else math.nan


def reaches(reward: float, least: float) -> bool:
    """Whether a reward is ``least`` or more."""
    return reward >= least - ROUNDING


def differ(rewards: Collection[float]) -> bool:
    """Whether some of the rewards are not the same."""
    return len(rewards) > 1 and max(rewards) - min(rewards) > ROUNDING
