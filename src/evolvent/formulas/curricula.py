"""What to learn from next, and with which weight: groups that teach, rewards that fade.

Pure functions; the loop that calls them keeps the state (the step).
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput
from evolvent.core.rounding import differ
from evolvent.formulas.values import ema


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


def learning_gains(
    q: Mapping[str, float], credit_N: ArrayLike, arm: Sequence[str], *, rate: float = 0.1
) -> dict[str, float]:
    """Values of arms after an update: SEC's bandit over kinds of tasks (arXiv 2505.14970), TD(0) on mean |advantage|.

    ``Q <- Q + rate (mean |A| - Q)`` of the arms that were drawn; the others stay. With z-scores of rewards 0 and 1,
    mean |A| is ``2 sqrt(p (1 - p))``: what succeeds half the time teaches most. Arms are then drawn by
    ``selection.softmax(Q, temperature)``.

    Args:
        q: value of every arm.
        credit_N: advantage of each sample, NaN = not learned from, which counts 0.
        arm: of each sample.
        rate: step size.
    """
    size = np.abs(np.nan_to_num(np.asarray(credit_N, dtype=np.float64)))
    drawn: dict[str, list[float]] = {}
    for name, a in zip(arm, size.tolist(), strict=True):
        drawn.setdefault(name, []).append(a)
    return {
        name: ema(value, float(np.mean(drawn[name])), rate) if name in drawn else value for name, value in q.items()
    }


def worth_of_attempts(n: ArrayLike, p: ArrayLike) -> np.ndarray:
    """``[1 - p^n - (1-p)^n] p (1-p)^2`` of ``n`` attempts at a task that succeeds with ``p``; both broadcast.

    The chance that the attempts differ, so that there is a gradient, times its expected gain (Knapsack-RL, arXiv
    2509.25849). A sure success or failure is worth nothing at any number.
    """
    n_, p_ = np.asarray(n, dtype=np.float64), np.asarray(p, dtype=np.float64)
    return (1.0 - p_**n_ - (1.0 - p_) ** n_) * p_ * (1.0 - p_) ** 2


def attempts_by_knapsack(p_N: ArrayLike, total: int, *, least: int = 2) -> np.ndarray:
    """Attempts at each task, int64 ``[N]``, ``total`` in all, that are worth most together (Knapsack-RL).

    The published dynamic program of a multiple-choice knapsack is not needed: ``worth_of_attempts`` is concave in n, so
    that giving one attempt after another where it adds most is exact, in O(total log N). Where success is not known, a
    posterior mean under Beta(1, 1), ``(1 + won) / (2 + n)``, keeps tasks in play that were never solved.

    Raises:
        BadInput: a probability outside 0 to 1, or a total below ``least`` at each.
    """
    p = np.asarray(p_N, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0.0) & (p <= 1.0)).all() or least < 1 or total < least * len(p):
        raise BadInput(
            "attempts that cannot be distributed",
            got=(p.tolist(), total, least),
            expected="probabilities, and at least the smallest number for each",
            where="formulas.curricula.attempts_by_knapsack",
        )

    def adds(i: int, n: int) -> tuple[float, int, int]:
        return -float(worth_of_attempts(n + 1, p[i]) - worth_of_attempts(n, p[i])), n, i

    n_N = np.full(len(p), least, dtype=np.int64)
    heap = [adds(i, least) for i in range(len(p))]
    heapq.heapify(heap)
    for _ in range(total - least * len(p) if len(p) else 0):
        _, n, i = heap[0]
        n_N[i] = n + 1
        heapq.heapreplace(heap, adds(i, n + 1))
    return n_N
