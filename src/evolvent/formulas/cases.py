"""Which case helps which question: estimates of success from pairs that were tried (Memento, arXiv 2508.16153).

The soft values of its policy over cases are those of ``formulas/soft.py`` with a prior of 1 for every case:
``soft_best_value(q, 1, a) = a log sum exp(q / a)`` and ``soft_best_policy(q, 1, a) = softmax(q / a)``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

_EDGE = 1e-7  # probabilities this near to 0 and 1 cost no more


def kernel_value(weight_I: ArrayLike, q_I: ArrayLike) -> float:
    """``sum_i k_i Q_i / sum_i k_i``: what came of a case, weighted by how near those questions were; 0 without any."""
    weight, q = np.asarray(weight_I, dtype=np.float64), np.asarray(q_I, dtype=np.float64)
    total = float(weight.sum())
    return float(weight @ q) / total if total > 0.0 else 0.0


def cross_entropy(p: ArrayLike, r: ArrayLike) -> np.ndarray:
    """``-(r log p + (1 - r) log(1 - p))`` in nats, elementwise; ``p`` and ``r`` in [0, 1].

    Preferred to squared error for success in {0, 1}: its gradient in the logit is ``p - r`` and does not vanish near 0
    and 1 (p = .01, r = 1: -.99 against -.0196).
    """
    chance, label = np.clip(np.asarray(p, dtype=np.float64), _EDGE, 1.0 - _EDGE), np.asarray(r, dtype=np.float64)
    return -(label * np.log(chance) + (1.0 - label) * np.log1p(-chance))


def fit_logistic(x_PD: np.ndarray, r_P: np.ndarray, ridge: float, steps: int = 8) -> np.ndarray:
    """Weights ``[D + 1]``, the last of a constant: least cross-entropy plus ``ridge/2`` times their squares.

    Newton's method from zero; the constant is not shrunk. ``r_P`` in [0, 1].
    """
    x = np.column_stack([x_PD, np.ones(len(x_PD))]).astype(np.float64)
    shrink = np.append(np.full(x_PD.shape[1], ridge), 1e-6)
    w = np.zeros(x.shape[1])
    for _ in range(steps):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ w, -30.0, 30.0)))
        slope = x.T @ (p - r_P) + shrink * w
        bend = (x * (p * (1.0 - p) + 1e-9)[:, None]).T @ x + np.diag(shrink)
        w -= np.linalg.solve(bend, slope)
    return w


def logistic(x_PD: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Probabilities ``[P]`` under weights of ``fit_logistic``."""
    return 1.0 / (1.0 + np.exp(-np.clip(x_PD @ w[:-1] + w[-1], -30.0, 30.0)))
