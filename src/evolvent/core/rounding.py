"""Rewards compared up to rounding: .7 + .2 + .1 reaches the maximum of 1, .1 * 3 + .2 * 3 + .1 does not exceed it.

One tolerance wherever a reward is compared with the end of a range, a threshold, or another reward.
"""

from __future__ import annotations

import math
from collections.abc import Collection

ROUNDING = 1e-9
"""Largest difference between two rewards that count as equal."""


def inside(reward: float, low: float, high: float) -> float:
    """``reward`` if it is in the range, rounded to an end that it nearly reaches; NaN where it is outside, or NaN."""
    near = ROUNDING * min(1.0, high - low)  # of a range of 1e-12, ends are no nearer than elsewhere
    for end in (low, high):
        if abs(reward - end) <= near:
            return float(end)
    return float(reward) if low < reward < high else math.nan


def reaches(reward: float, least: float) -> bool:
    """Whether a reward is ``least`` or more."""
    return reward >= least - ROUNDING


def differ(rewards: Collection[float]) -> bool:
    """Whether not all of the rewards are equal."""
    return len(rewards) > 1 and max(rewards) - min(rewards) > ROUNDING
