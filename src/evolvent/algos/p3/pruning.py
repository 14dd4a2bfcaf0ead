"""Which examples a model learns from next: P3's difficulty, pace and diversity.

Paper: Yang et al. 2024, P3: A Policy-Driven, Pace-Adaptive, and Diversity-Promoted Framework for Data Pruning (arXiv
2408.05541). Of log-probabilities under the policy as it is now:

    P(a)     = exp(mean log pi(w) over the tokens w of a line a of the solution)
    f(x)     = 1 - mean_a P(a)                                                        difficulty
    lambda_e = percentile s + (t - s) e / E of the difficulties, {x : f(x) <= lambda_e} are eligible       pace
    L        = diag(f) Phi Phi^T diag(f),  greedily the rows with the largest determinant                  diversity

Deviations from the released code: a column that is constant has standard deviation 1 instead of 0 (it made NaN); an
item without a solution takes no part in the percentile; what remains is taken in order of difficulty where the rest of
a pool is alike, so that a selection ends with the pool.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput

LEAST = 1e-10
"""A squared distance from what is chosen below which nothing new is left."""


def difficulty(logps: Sequence[ArrayLike]) -> float:
    """``1 - mean_a exp(mean log pi)`` over the actions (lines) of a solution, in [0, 1]; without actions infinite.

    Args:
        logps: log-probabilities of the tokens of each action, ``[K]``, at most 0.

    Raises:
        BadInput: an action without tokens, NaN, or a log-probability above 0.
    """
    actions = [np.asarray(logp, dtype=np.float64) for logp in logps]
    if not all(a.ndim == 1 and a.size and (a <= 1e-6).all() for a in actions):
        raise BadInput(
            "actions need log-probabilities",
            got=[a.tolist() for a in actions],
            expected="one vector an action, not empty, at most 0",
            where="algos.p3.pruning.difficulty",
        )
    return 1.0 - float(np.mean([np.exp(min(a.mean(), 0.0)) for a in actions])) if actions else np.inf


def pace(epoch: int, epochs: int, *, start: float = 45.0, end: float = 95.0) -> float:
    """The percentile ``start + (end - start) epoch / epochs`` of an epoch (0-based): the last one stays below ``end``.

    Published: 45 to 95; 30 to 95 where diversity takes no part.
    """
    if not 0 <= epoch < epochs or not 0.0 <= min(start, end) <= max(start, end) <= 100.0:
        raise BadInput(
            "no pace",
            got=(epoch, epochs, start, end),
            expected="0 <= epoch < epochs, percentiles 0 to 100",
            where="algos.p3.pruning.pace",
        )
    return start + (end - start) * epoch / epochs


def eligible(difficulty_N: ArrayLike, percentile: float) -> np.ndarray:
    """Items at most as difficult as that percentile of the finite difficulties (linear interpolation), bool ``[N]``."""
    f_N = np.asarray(difficulty_N, dtype=np.float64)
    known = np.isfinite(f_N)
    return known & (f_N <= np.percentile(f_N[known], percentile)) if known.any() else known


def rarest(probs: Sequence[ArrayLike], n: int = 30) -> np.ndarray:
    """Features of prompts: of each its ``n`` smallest token probabilities, ascending, 0 behind: float64 ``[N, n]``."""
    out_ND = np.zeros((len(probs), n))
    for row, p in zip(out_ND, probs, strict=True):
        least = np.sort(np.asarray(p, dtype=np.float64))[:n]
        row[: len(least)] = least
    return out_ND


def unit_rows(x_ND: ArrayLike) -> np.ndarray:
    """z-scores of the columns (population sd; 1 where a column is constant), rows scaled to length 1: ``[N, D]``.

    A row of zeros, one that is the mean, stays so.
    """
    x = np.asarray(x_ND, dtype=np.float64)
    x = x - x.mean(0)
    sd = x.std(0)
    x = x / np.where(sd > 1e-12, sd, 1.0)
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(length > 1e-12, length, 1.0)


def greedy_determinant(rows_ND: ArrayLike, n: int) -> tuple[list[int], np.ndarray]:
    """At most ``n`` rows whose kernel ``rows rows^T`` has a large determinant, the one that adds most first.

    Incremental Cholesky (Chen et al. 2018, arXiv 1709.05135): O(N D) a row. Stops where nothing new is left, after at
    most D rows; the first row is chosen even so.

    Returns:
        Indices, and the factor by which each multiplied the determinant, ``[<= n]``.
    """
    x = np.asarray(rows_ND, dtype=np.float64)
    left_N = (x * x).sum(1)
    cholesky, chosen, gains = np.zeros((0, len(x))), list[int](), list[float]()
    while len(chosen) < min(n, len(x)):
        j = int(np.argmax(left_N))
        gain = float(left_N[j])
        if chosen and gain < LEAST:
            break
        chosen.append(j)
        gains.append(gain)
        if gain < LEAST:
            break
        row_N = (x @ x[j] - cholesky[:, j] @ cholesky) / np.sqrt(gain)
        cholesky = np.vstack([cholesky, row_N])
        left_N = left_N - row_N * row_N
        left_N[chosen] = -np.inf
    return chosen, np.array(gains)


def diverse(features_ND: ArrayLike, quality_N: ArrayLike, n: int) -> np.ndarray:
    """``n`` items (all, where there are fewer), int64 ``[<= n]``: difficult, and each unlike those beside it.

    Pass after pass of ``greedy_determinant`` over what is left, each with z-scores of its own.

    Args:
        features_ND: of each item, from ``rarest``.
        quality_N: weight of each, its difficulty; finite.
        n: how many.
    """
    x, quality = np.asarray(features_ND, dtype=np.float64), np.asarray(quality_N, dtype=np.float64)
    pool, chosen = np.argsort(-quality, kind="stable"), list[int]()  # ties go to the most difficult
    while len(chosen) < n and len(pool):
        picked, _ = greedy_determinant(unit_rows(x[pool]) * quality[pool, None], n - len(chosen))
        chosen += pool[picked].tolist()
        pool = np.delete(pool, picked)
    return np.array(chosen, dtype=np.int64)
