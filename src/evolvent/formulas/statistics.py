"""Numbers with intervals: interquartile mean, bootstraps that respect strata and clusters, exact tests.

Intervals are ``(lo, hi)`` at ``confidence`` (default 95 %). Where the data cannot give one (a single cluster), both
ends are NaN rather than a false zero width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput

Stat = Callable[..., np.ndarray]
_BLOCK = 2_000_000  # resampled numbers held at once


def iqm(x: ArrayLike, axis: int | None = None) -> np.ndarray:
    """Interquartile mean: the mean after dropping ``int(n / 4)`` values at each end (Agarwal et al. 2021, rliable)."""
    x_ = np.asarray(x, dtype=np.float64)
    if axis is None:
        x_, axis = x_.reshape(-1), -1
    n = x_.shape[axis]
    if n == 0:
        raise BadInput("interquartile mean of nothing", where="formulas.statistics.iqm")
    cut = int(0.25 * n)
    middle = np.take(np.sort(x_, axis=axis), range(cut, n - cut), axis=axis)
    return middle.mean(axis=axis)


def stratified_bootstrap(
    scores_by_stratum: Sequence[ArrayLike],
    stat: Stat = np.mean,
    n: int = 2000,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval of ``stat`` over all scores, resampling runs within each stratum (a task, an environment).

    One vector of scores a stratum; lengths may differ. ``stat`` is called as ``stat(x_BN, axis=-1)`` on ``n`` resamples
    of all strata side by side: ``numpy.mean``, ``iqm``… ``(lo, hi)``; NaN where every stratum holds a single score.
    """
    strata = [_finite(s, "stratified_bootstrap") for s in scores_by_stratum]
    if not strata or any(s.size == 0 for s in strata):
        raise BadInput(
            "every stratum needs a score",
            got=[s.size for s in strata],
            where="formulas.statistics.stratified_bootstrap",
        )
    if all(s.size == 1 for s in strata):
        return math.nan, math.nan
    rng = np.random.default_rng(seed)
    width = sum(s.size for s in strata)
    out: list[np.ndarray] = []
    for rows in _blocks(n, width):
        x_BN = np.concatenate([s[rng.integers(0, s.size, (rows, s.size))] for s in strata], axis=1)
        out.append(np.asarray(stat(x_BN, axis=-1)))
    return _percentiles(np.concatenate(out), confidence)


def clustered_bootstrap(
    values: ArrayLike,
    clusters: Sequence[object],
    stat: Stat | None = None,
    n: int = 2000,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval that resamples whole clusters (seeds, tasks), for values that are not independent inside one.

    One hashable label a value ``[N]``; ``stat`` is called as ``stat(x_N, axis=-1)``, ``None`` is the mean over all
    values (fast path). NaN for a single cluster. With fewer than about ten clusters a bootstrap is too narrow: give
    ``student_interval`` of the cluster means beside it.
    """
    x = _finite(values, "clustered_bootstrap")
    if len(clusters) != x.size or x.size == 0:
        raise BadInput(
            "one cluster label per value", got=(x.size, len(clusters)), where="formulas.statistics.clustered_bootstrap"
        )
    number = {c: i for i, c in enumerate(dict.fromkeys(clusters))}
    label = np.array([number[c] for c in clusters])
    m = len(number)
    if m == 1:
        return math.nan, math.nan
    rng = np.random.default_rng(seed)
    if stat is None:
        sums, counts = np.bincount(label, x), np.bincount(label)
        out: list[np.ndarray] = []
        for rows in _blocks(n, m):
            draw = rng.integers(0, m, (rows, m))
            out.append(sums[draw].sum(axis=1) / counts[draw].sum(axis=1))
        return _percentiles(np.concatenate(out), confidence)
    members: list[np.ndarray] = [x[label == i] for i in range(m)]
    resampled = np.empty(n)
    for b in range(n):
        drawn: list[np.ndarray] = [members[int(i)] for i in rng.integers(0, m, m)]
        resampled[b] = stat(np.concatenate(drawn), axis=-1)
    return _percentiles(resampled, confidence)


def student_interval(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Student's t interval of a mean of independent values ``[N]`` (e.g. one score per seed); NaN for one value."""
    x = _finite(values, "student_interval")
    if x.size < 2:
        return math.nan, math.nan
    half = student_quantile(0.5 + confidence / 2.0, x.size - 1) * float(x.std(ddof=1)) / math.sqrt(x.size)
    return float(x.mean()) - half, float(x.mean()) + half


def student_quantile(p: float, df: int) -> float:
    """Quantile of Student's t for whole degrees of freedom and 0.5 <= p < 1 (Abramowitz & Stegun 26.7.3-4)."""
    if df < 1 or not 0.5 <= p < 1.0:
        raise BadInput("student_quantile needs df >= 1 and 0.5 <= p < 1", got=(p, df), where="formulas.statistics")

    if df > 500:  # expansion around the normal (26.7.5): the error is of order df^-3
        z = NormalDist().inv_cdf(p)
        return z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)

    def inside(t: float) -> float:  # P(|T| < t), exact finite sums for integer df
        theta = math.atan(t / math.sqrt(df))
        cos2 = math.cos(theta) ** 2
        term, total = 1.0, 1.0
        for j in range((df - 3) // 2 if df % 2 else (df - 2) // 2):
            term *= cos2 * (2 * j + 2) / (2 * j + 3) if df % 2 else cos2 * (2 * j + 1) / (2 * j + 2)
            total += term
        if df % 2 == 0:
            return math.sin(theta) * total
        return 2 / math.pi * (theta + (math.sin(theta) * math.cos(theta) * total if df > 1 else 0.0))

    lo, hi = 0.0, 1.0
    while inside(hi) < 2 * p - 1:
        hi *= 2
    for _ in range(100):
        mid = (lo + hi) / 2
        lo, hi = (mid, hi) if inside(mid) < 2 * p - 1 else (lo, mid)
    return (lo + hi) / 2


def wilson(successes: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson score interval of a success rate; ``n = 0`` gives (0, 1)."""
    if n < 0 or not 0 <= successes <= max(n, 0):
        raise BadInput("successes must lie in 0..n", got=(successes, n), where="formulas.statistics.wilson")
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    p, z2 = successes / n, z * z
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    # at 0 and n the bound is exactly 0 and 1; rounding would leave 1e-17
    return (0.0 if successes == 0 else centre - half), (1.0 if successes == n else centre + half)


def probability_of_improvement(
    a: ArrayLike, b: ArrayLike, n: int = 2000, seed: int = 0, confidence: float = 0.95
) -> tuple[float, float, float]:
    """P(a run of A beats a run of B), ties a half, averaged over tasks, with a bootstrap interval: ``(p, lo, hi)``.

    Scores ``[runs]`` or ``[tasks, runs]``; A and B have the same tasks and each its number of runs, drawn again ``n``
    times within each task. The interval is NaN with one run each. Source: Agarwal et al. 2021 (rliable).
    """
    a_TR, b_TR = np.atleast_2d(np.asarray(a, dtype=np.float64)), np.atleast_2d(np.asarray(b, dtype=np.float64))
    if a_TR.shape[0] != b_TR.shape[0] or a_TR.size == 0 or b_TR.size == 0:
        raise BadInput(
            "A and B need the same tasks",
            got=(a_TR.shape, b_TR.shape),
            where="formulas.statistics.probability_of_improvement",
        )
    wins_TRR = (a_TR[:, :, None] > b_TR[:, None, :]) + 0.5 * (a_TR[:, :, None] == b_TR[:, None, :])
    p = float(wins_TRR.mean())
    if a_TR.shape[1] == 1 and b_TR.shape[1] == 1:
        return p, math.nan, math.nan
    rng = np.random.default_rng(seed)
    (tasks, ra), rb = a_TR.shape, b_TR.shape[1]
    draws = np.zeros(n)
    for t in range(tasks):
        # how often each run is drawn: a resampled mean of wins is a bilinear form in the two count vectors
        ca = rng.multinomial(ra, np.full(ra, 1 / ra), size=n) / ra
        cb = rng.multinomial(rb, np.full(rb, 1 / rb), size=n) / rb
        draws += np.einsum("na,ab,nb->n", ca, wins_TRR[t], cb, optimize=True) / tasks
    return (p, *_percentiles(draws, confidence))


def paired_bootstrap(
    a: ArrayLike,
    b: ArrayLike,
    clusters: Sequence[object] | None = None,
    n: int = 2000,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[float, float, float]:
    """Mean difference ``a - b`` of paired values ``[N]`` with a percentile interval over pairs (or their clusters)."""
    x, y = _finite(a, "paired_bootstrap"), _finite(b, "paired_bootstrap")
    if x.shape != y.shape or x.size == 0:
        raise BadInput(
            "paired values need one length", got=(x.shape, y.shape), where="formulas.statistics.paired_bootstrap"
        )
    labels = list(range(x.size)) if clusters is None else clusters
    return (float((x - y).mean()), *clustered_bootstrap(x - y, labels, None, n, seed, confidence))


def difference_interval(
    a: float, ci_a: tuple[float, float], b: float, ci_b: tuple[float, float]
) -> tuple[float, float, float]:
    """Difference of two independent estimates with an interval from their own two: ``(a - b, lo, hi)``, NaN from NaN.

    The intervals need not be symmetric; of two rates with Wilson intervals it is Newcombe's (1998, method 10). Source:
    Zou & Donner 2008 (MOVER).
    """
    (la, ua), (lb, ub) = ci_a, ci_b
    return a - b, a - b - math.hypot(a - la, ub - b), a - b + math.hypot(ua - a, b - lb)


def paired_rates_interval(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> tuple[float, float, float]:
    """``(rate of a - rate of b, lo, hi)`` over the same ``[N]`` cases (0/1), with its score interval.

    It has a width where all pairs agree, too, which a bootstrap has not. Source: Newcombe 1998 (paired, method 10).
    """
    x, y = _finite(a, "paired_rates_interval"), _finite(b, "paired_rates_interval")
    if x.shape != y.shape or x.size == 0 or not (np.isin(x, (0, 1)).all() and np.isin(y, (0, 1)).all()):
        raise BadInput("paired rates need 0/1 of one length", got=(x.shape, y.shape), where="formulas.statistics")
    n = x.size
    both, only_a, only_b = float((x * y).sum()), float((x * (1 - y)).sum()), float(((1 - x) * y).sum())
    neither = n - both - only_a - only_b
    p, q = (both + only_a) / n, (both + only_b) / n
    (lp, up), (lq, uq) = wilson(both + only_a, n, confidence), wilson(both + only_b, n, confidence)
    spread = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither)
    joint = both * neither - only_a * only_b
    phi = 0.0 if spread == 0 else (max(joint - n / 2, 0.0) if joint > 0 else joint) / math.sqrt(spread)

    def reach(u: float, v: float) -> float:
        return math.sqrt(max(0.0, u * u - 2 * phi * u * v + v * v))

    return p - q, p - q - reach(p - lp, uq - q), p - q + reach(up - p, q - lq)


def mcnemar(a: ArrayLike, b: ArrayLike) -> float:
    """Exact two-sided McNemar test for paired successes ``[N]`` of 0/1: p of the discordant pairs under a fair coin."""
    x, y = np.asarray(a), np.asarray(b)
    if x.shape != y.shape or x.ndim != 1 or not (np.isin(x, (0, 1)).all() and np.isin(y, (0, 1)).all()):
        raise BadInput(
            "mcnemar needs two vectors of 0/1 of one length",
            got=(x.shape, y.shape),
            where="formulas.statistics.mcnemar",
        )
    only_a, only_b = int(((x == 1) & (y == 0)).sum()), int(((x == 0) & (y == 1)).sum())
    m = only_a + only_b
    # whole numbers throughout: no rounding however many pairs
    tail = sum(math.comb(m, i) for i in range(min(only_a, only_b) + 1))
    return min(1.0, 2 * tail / 2**m)


def auc(scores: ArrayLike, positive: ArrayLike) -> float:
    """Chance that a positive case scores above another one, ties half: the area under the ROC curve.

    Scores and flags ``[N]``; 0.5 where all cases are of one kind (nothing to tell apart).
    """
    x, y = np.asarray(scores, np.float64), np.asarray(positive, bool)
    good, bad = np.sort(x[y]), np.sort(x[~y])
    if not len(good) or not len(bad):
        return 0.5
    below, upto = np.searchsorted(bad, good, "left"), np.searchsorted(bad, good, "right")
    return float((below + upto).sum() / (2 * len(good) * len(bad)))


def forgetting(previous: ArrayLike, current: ArrayLike) -> dict[str, float]:
    """Tasks solved in the previous epoch and lost in this one, as a share of three denominators (papers differ)."""
    p, c = np.asarray(previous, dtype=bool), np.asarray(current, dtype=bool)
    lost = int((p & ~c).sum())
    return {
        "of_all": lost / max(1, c.size),
        "of_prev_success": lost / max(1, int(p.sum())),
        "of_current_fail": lost / max(1, int((~c).sum())),
    }


def _finite(x: ArrayLike, where: str) -> np.ndarray:
    x_ = np.asarray(x, dtype=np.float64)
    if x_.ndim != 1 or not np.isfinite(x_).all():
        raise BadInput("expected a vector of finite numbers", got=x_.tolist(), where=f"formulas.statistics.{where}")
    return x_


def _blocks(n: int, width: int) -> list[int]:
    rows = max(1, min(n, _BLOCK // max(1, width)))
    return [min(rows, n - start) for start in range(0, n, rows)]


def _percentiles(draws: np.ndarray, confidence: float) -> tuple[float, float]:
    tail = 50.0 * (1.0 - confidence)
    lo, hi = np.percentile(draws, [tail, 100.0 - tail])
    return float(lo), float(hi)
