"""What to learn from next, and with which weight: groups that teach, rewards that fade.

Pure functions; the loop that calls them keeps the state (the step).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput
from evolvent.core.rounding import differ


def teaching(ret_N: ArrayLike, group: Sequence[object]) -> np.ndarray:
    """Dynamic sampling (DAPO, arXiv 2503.14476): bool ``[N]``, False where all returns of the group are equal.

    To rounding. Such a group has no gradient; DAPO leaves it out and samples on until the batch is full.
    """
    ret = np.asarray(ret_N, dtype=np.float64)
    if ret.ndim != 1 or len(group) != len(ret):
        raise BadInput("one group label per return", got=(ret.shape, len(group)), where="formulas.curricula.teaching")
    seen: dict[object, list[float]] = {}
    for label, r in zip(group, ret.tolist(), strict=True):
        seen.setdefault(label, []).append(r)
    teaches = {label: differ(returns) for label, returns in seen.items()}
    return np.array([teaches[label] for label in group], dtype=bool)


def widest_groups(ret_N: ArrayLike, group: Sequence[object], *, share: float) -> np.ndarray:
    """Members of the ``share`` of groups (rounded up) with the largest std, bool ``[N]``; SPEAR keeps 0.75.

    Ties go to the group that comes first.
    """
    ret = np.asarray(ret_N, dtype=np.float64)
    members: dict[object, list[int]] = {}
    for i, label in enumerate(group):
        members.setdefault(label, []).append(i)
    spread = [float(ret[rows].std()) for rows in members.values()]
    first = np.argsort([-s for s in spread], kind="stable")[: math.ceil(share * len(spread))]
    names = list(members)
    widest = {names[i] for i in first.tolist()}
    return np.array([label in widest for label in group], dtype=bool)


def repeats(ids: Sequence[int], *, n: int) -> int:
    """How often the most frequent run of ``n`` tokens occurs (SPEAR: 20 tokens ten times are no example)."""
    return max(Counter(tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)).values(), default=0)


def rising(step: float, period: float) -> float:
    """``(1 - cos(pi t / period)) / 2``, 0 to 1: weight of SPEAR's self-imitation (arXiv 2509.22601, period 200)."""
    return (1.0 - math.cos(math.pi * min(max(step / period, 0.0), 1.0))) / 2.0


def fading(step: float, period: float) -> float:
    """``1 - rising``: weight of SPEAR's bonus for using tools."""
    return 1.0 - rising(step, period)


def tool_bonus(turns: int, step: float, *, period: float = 200.0, each: float = 0.1) -> float:
    """``min(1, each * turns)`` times ``fading``: SPEAR's reward for turns that used a tool."""
    return min(1.0, each * turns) * fading(step, period)
