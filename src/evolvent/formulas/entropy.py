"""Advantages that follow the entropy of a token's choice: AEPO (z-score) and HAPO (place against a quantile).

Sources: AEPO (arXiv 2510.14545) and HAPO (arXiv 2509.16591) as released. Entropies are in nats, ``[K]`` over the tokens
that are compared; ``h`` lies in [-1, 1], 0 at the pivot, above it for tokens where the course forks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def z_scores(x_K: ArrayLike, ddof: int = 1) -> np.ndarray:
    """``(x - mean) / std``, ``[K]``; 0 where nothing differs."""
    x = np.asarray(x_K, dtype=np.float64)
    if len(x) <= ddof:
        return np.zeros(len(x))
    spread = float(x.std(ddof=ddof))
    return (x - x.mean()) / spread if spread > 1e-12 else np.zeros(len(x))


def relative_entropy(entropy_K: ArrayLike, *, quantile: float = 0.8, released: bool = False) -> np.ndarray:
    """``h`` of each token: its log-entropy above the quantile over the largest such, or below it over the lowest.

    Entropies below 1e-8 count as that; the pivot stands at position ``round(quantile (K - 1))`` in ascending order. The
    released code (``released``) divides what is below the pivot by its own negative minimum, so that certain tokens get
    ``h`` up to +1 instead of -1.
    """
    e = np.log(np.maximum(np.asarray(entropy_K, dtype=np.float64), 1e-8))
    if len(e) == 0:
        return e
    above = e - np.sort(e)[round(quantile * (len(e) - 1))]
    high, low = max(float(above.max()), 1e-12), min(float(above.min()), -1e-12)
    h = above / np.where(above > 0.0, high, -low)
    return np.abs(h) if released else np.asarray(h)


def redistributed(adv_K: ArrayLike, h_K: ArrayLike, ratio_K: ArrayLike, *, low: float, high: float) -> np.ndarray:
    """Advantages times ``1 + h``: where h > 0 outside the neutral band of ratios, where h <= 0 inside it, ``[K]``.

    The band is ``(1 - low/2, 1 + high/2)``; ``ratio`` is that of the present policy to the one that sampled.
    """
    adv, h, r = (np.asarray(x, dtype=np.float64) for x in (adv_K, h_K, ratio_K))
    inside = (r > 1.0 - low / 2) & (r < 1.0 + high / 2)
    return np.where((h > 0.0) ^ inside, adv * (1.0 + h), adv)
