"""How many attempts each task deserves: a group teaches only when some of its attempts succeed and some fail.

``p`` is the probability that one attempt at a task succeeds, from its history or a predictor.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput


def p_mixed(p: ArrayLike, n: ArrayLike) -> np.ndarray:
    """Probability that n attempts are neither all successes nor all failures, ``1 - p^n - (1-p)^n``; broadcast."""
    rate, count = np.asarray(p, dtype=np.float64), np.asarray(n, dtype=np.float64)
    return 1.0 - rate**count - (1.0 - rate) ** count


def mixed_value(p: ArrayLike, n: ArrayLike) -> np.ndarray:
    """Value of n attempts in Knapsack RL (arXiv 2509.25849): ``p_mixed(p, n) p (1-p)²``; broadcast."""
    rate = np.asarray(p, dtype=np.float64)
    return p_mixed(rate, n) * rate * (1.0 - rate) ** 2


def zero_state_utility(p: ArrayLike, n: ArrayLike) -> np.ndarray:
    """Value of n attempts in V0 (arXiv 2602.03584): ``n (1-p) [1 - (1-p)^(n-1)]``; broadcast.

    Expected number of failures that have a success beside them.
    """
    miss = 1.0 - np.asarray(p, dtype=np.float64)
    count = np.asarray(n, dtype=np.float64)
    return count * miss * (1.0 - miss ** (count - 1.0))


def allocate(value_NM: ArrayLike, total: int, *, lowest: int) -> np.ndarray:
    """Attempts for each task that maximise the summed value, int64 ``[N]``: a bounded knapsack, by dynamic programming.

    Args:
        value_NM: ``value_NM[i, j]`` is the worth of ``lowest + j`` attempts at task i, for every number allowed.
        total: attempts to share out; all of them are.
        lowest: fewest attempts a task.

    Among equal allocations the one that gives later tasks fewer. Work O(N total M).

    Raises:
        BadInput: a total that the bounds do not allow.
    """
    value = np.asarray(value_NM, dtype=np.float64)
    if value.ndim != 2 or value.shape[1] == 0:
        raise BadInput("values are not [N, M]", got=value.shape, where="formulas.budgets.allocate")
    spare = _spare(len(value), total, lowest, lowest + value.shape[1] - 1)
    best, choice = np.full(spare + 1, -np.inf), np.zeros((len(value), spare + 1), dtype=np.int64)
    best[0] = 0.0
    for i, worth in enumerate(value):
        after = np.full(spare + 1, -np.inf)
        for extra, gain in enumerate(worth[: spare + 1].tolist()):
            with_it = best[: spare + 1 - extra] + gain
            better = with_it > after[extra:] + 1e-15  # not for rounding's sake alone
            after[extra:] = np.where(better, with_it, after[extra:])
            choice[i, extra:] = np.where(better, extra, choice[i, extra:])
        best = after
    out, left = np.zeros(len(value), dtype=np.int64), spare
    for i in range(len(value) - 1, -1, -1):
        out[i] = lowest + choice[i, left]
        left -= int(choice[i, left])
    return out


def allocate_greedily(value_NM: ArrayLike, total: int, *, lowest: int) -> np.ndarray:
    """As ``allocate``, one attempt at a time to the task that gains most by one more: int64 ``[N]``.

    Equal to it where every task's value is concave in the number of attempts, and much cheaper. V0's utility is not
    concave for small p, and its published allocation is nevertheless this greedy one. Ties go to the earlier task.
    """
    value = np.asarray(value_NM, dtype=np.float64)
    if value.ndim != 2 or value.shape[1] == 0:
        raise BadInput("values are not [N, M]", got=value.shape, where="formulas.budgets.allocate_greedily")
    spare = _spare(len(value), total, lowest, lowest + value.shape[1] - 1)
    gain, extra = np.diff(value, axis=1), np.zeros(len(value), dtype=np.int64)
    heap = [(-float(row[0]), i) for i, row in enumerate(gain) if len(row)]
    heapq.heapify(heap)
    for _ in range(spare):
        _, i = heapq.heappop(heap)
        extra[i] += 1
        if extra[i] < gain.shape[1]:
            heapq.heappush(heap, (-float(gain[i, extra[i]]), i))
    return lowest + extra


def knapsack_attempts(p_N: ArrayLike, total: int, *, lowest: int = 2, highest: int = 128) -> np.ndarray:
    """Attempts for each task under Knapsack RL: int64 ``[N]``; solved and hopeless tasks get ``lowest``.

    Args:
        p_N: success rates.
        total: attempts to share out.
        lowest: fewest a task, the floor of exploration.
        highest: most a task.
    """
    counts = np.arange(lowest, highest + 1)
    return allocate(mixed_value(_rates(p_N)[:, None], counts), total, lowest=lowest)


def zero_state_attempts(p_N: ArrayLike, total: int, *, lowest: int = 2, highest: int = 128) -> np.ndarray:
    """Attempts for each task under V0's utility, shared out greedily: int64 ``[N]``."""
    counts = np.arange(lowest, highest + 1)
    return allocate_greedily(zero_state_utility(_rates(p_N)[:, None], counts), total, lowest=lowest)


def _rates(p_N: ArrayLike) -> np.ndarray:
    p = np.asarray(p_N, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0.0) & (p <= 1.0)).all():
        raise BadInput("not success rates", got=p_N, expected="numbers in [0, 1], [N]", where="formulas.budgets")
    return p


def _spare(tasks: int, total: int, lowest: int, highest: int) -> int:
    """Attempts left once every task has the fewest."""
    if not tasks * lowest <= total <= tasks * highest:
        raise BadInput(
            "the total does not fit the bounds", got=total, expected=f"{tasks * lowest} … {tasks * highest}",
            where="formulas.budgets", do="change the total, or the fewest and most attempts a task",
        )  # fmt: skip
    return total - tasks * lowest
