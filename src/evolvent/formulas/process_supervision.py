"""Labels of steps from samples behind them: Monte-Carlo estimates, the first error, where to look next.

Papers: Luo et al. 2024 (OmegaPRM, arXiv 2406.06592), constants as in OpenR's code (arXiv 2410.09671); MedS3 (arXiv
2501.12051).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike


def first_error(alive: Callable[[int], bool], n: int) -> int:
    """The first of ``n`` steps behind which nothing comes right any more, ``n`` where all are fine, by bisection.

    ``alive(i)``: whether some sample behind steps ``0 … i`` comes right; once false it stays false.
    """
    low, high = 0, n - 1
    while low <= high:
        middle = (low + high) // 2
        if alive(middle):
            low = middle + 1
        else:
            high = middle - 1
    return low


def surprise(
    mc: ArrayLike, words: ArrayLike, *, alpha: float = 0.5, beta: float = 0.9, length: float = 500.0
) -> np.ndarray:
    """``Q = alpha^(1 - MC) beta^(words / length)``: a wrong sample behind a good state tells most, a short one sooner.

    MC is the share of right samples behind the state, 0..1, and ``words`` the length of the wrong sample.
    """
    x, n = np.asarray(mc, np.float64), np.asarray(words, np.float64)
    return np.power(alpha, 1.0 - x) * np.power(beta, n / length)


def attention(total: float, visits: ArrayLike, *, c: float = 0.125) -> np.ndarray:
    """``U = c sqrt(max(1, total)) / (1 + visits)``: states that were estimated seldom come first."""
    return c * math.sqrt(max(1.0, total)) / (1.0 + np.asarray(visits, np.float64))


def samples_at(depth: int, *, most: int = 20, least: int = 5) -> int:
    """Samples behind a state, ``max(most // (depth + 1), least)``: fewer where less is left (MedS3, as released)."""
    return max(most // (depth + 1), least)


def labels(mc: ArrayLike, threshold: float = 0.5) -> np.ndarray:
    """1 where the share of right samples is above the threshold, else 0: float64, the shape of ``mc``."""
    return (np.asarray(mc, np.float64) > threshold).astype(np.float64)
