"""Searches that end before their budget is spent, or whose judge goes beyond it: at one budget in name only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evolvent.evaluate.live import percent

EARLY = 0.25
"""A search that leaves more than this share of its budget is reported."""


OVER = -0.05
"""And one that is so far beyond it."""


def uneven(arms: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence on each search that left much of its budget, or spent more; older runs do not say."""
    over = [f"{a['name']} {percent(1 - a['left'])}" for a in arms if (a.get("left") or 0.0) < OVER]
    lines = [
        f"spent of the budget: {', '.join(over)}; what was made is judged even beyond it: give a larger budget or "
        "larger moves, or compare searches at what they spent"
    ]
    return (lines if over else []) + [
        f"{arm['name']} left {percent(arm['left'])} of its budget, for it came to nothing new: "
        f"set {arm['wider']}, or compare it with searches at what it spent"
        for arm in arms
        if arm.get("wider") and (arm.get("left") or 0.0) > EARLY
    ]
