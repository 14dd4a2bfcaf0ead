"""Evidence that may be looked at after every outcome: a test whose level holds however often it is read.

A test at level α that is read after each of many outcomes rejects a true hypothesis far more often than α (optional
stopping). An e-process does not: under the hypothesis it is bounded by a nonnegative martingale that starts at 1, and
by Ville's inequality (1939) the chance that it ever reaches 1/α is at most α.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Outcomes(NamedTuple):
    """``n`` outcomes in 0..1 that sum to ``total``; neither need be whole: weighted ones count by effective size."""

    n: float
    total: float


def less_than(a: Outcomes, b: Outcomes) -> float:
    """Logarithm of the e-process against "the mean of ``a`` is at least that of ``b``".

    ``log [∫L dπ / sup L]``: the mean likelihood of all outcomes where mean a < mean b (Jeffreys priors on both means,
    cut off there), over its largest value where mean a >= mean b: universal inference (Wasserman, Ramdas and
    Balakrishnan 2020) with Robbins' mixture above the line. The cut doubles the prior and leaves the posterior mass of
    mean a < mean b, which is bounded from below by Cantelli's inequality. The likelihood is the Bernoulli one; for
    other outcomes in 0..1 the bound still holds, because ``x → p^x (1-p)^(1-x)`` is convex. Into which arm the next
    outcome falls may depend on everything before it.

    Returns:
        Evidence that ``a`` is worse, in nats: reject at level α when it reaches ``-log α``. At most 0 when the mean of
        ``a`` is not below that of ``b``, or one of them is empty.
    """
    if a.n <= 0.0 or b.n <= 0.0 or a.total / a.n >= b.total / b.n:
        return 0.0
    pooled = (a.total + b.total) / (a.n + b.n)
    (mean_a, variance_a), (mean_b, variance_b) = _posterior(a), _posterior(b)
    gap_squared = (mean_b - mean_a) ** 2 if mean_b > mean_a else 0.0
    below = 2.0 * gap_squared / (gap_squared + variance_a + variance_b)
    if below <= 0.0:
        return 0.0
    return math.log(below) + _mixture(a) + _mixture(b) - _log_likelihood(Outcomes(a.n + b.n, a.total + b.total), pooled)


def _mixture(x: Outcomes) -> float:
    """``log ∫ p^total (1-p)^(n-total) Beta(p; ½, ½) dp``; the normalising constant of the prior is π."""
    won, lost = max(0.0, x.total), max(0.0, x.n - x.total)
    return math.lgamma(won + 0.5) + math.lgamma(lost + 0.5) - math.lgamma(x.n + 1.0) - math.log(math.pi)


def _posterior(x: Outcomes) -> tuple[float, float]:
    """Mean and variance of Beta(total + ½, n - total + ½)."""
    n = x.n + 1.0
    mean = (x.total + 0.5) / n
    return mean, mean * (1.0 - mean) / (n + 1.0)


def _log_likelihood(x: Outcomes, p: float) -> float:
    won, lost = max(0.0, x.total), max(0.0, x.n - x.total)
    return (won * math.log(p) if won > 0.0 else 0.0) + (lost * math.log1p(-p) if lost > 0.0 else 0.0)
