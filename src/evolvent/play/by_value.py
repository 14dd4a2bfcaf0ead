"""Choosing among admissible commands by the learned values of experiences, together with a model's prior."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.core.protocols import Embedder
from evolvent.formulas.selection import puct
from evolvent.memory.recall import Recalled


def command_values(
    items: Sequence[Recalled], commands: Sequence[str], embedder: Embedder, *, gate: float, start: float
) -> tuple[np.ndarray, np.ndarray]:
    """Kernel-averaged value and visit count of each command from experiences of similar situations.

    The weight of an experience is the product of two kernels, over the situation and over the command's text, times
    its number of visits: q = Σ w q_i / Σ w, shrunk to ``start`` by half a visit (Memento's estimator, Eq. of Q_EC, with
    a product kernel). Returns float64 ``[N]`` twice.
    """
    value_N = np.full(len(commands), start)
    count_N = np.zeros(len(commands))
    if not items:
        return value_N, count_N
    commands_ND = embedder.embed(list(commands))
    bodies_MD = embedder.embed([item.body for item in items])
    kernel_M = _kernel(np.array([item.similarity for item in items]), gate)
    visits_M = np.array([max(1, item.n) for item in items], dtype=float)
    weight_NM = _kernel(commands_ND @ bodies_MD.T, gate) * (kernel_M * visits_M)
    count_N = weight_NM.sum(1)
    value_N = (weight_NM @ np.array([item.value for item in items]) + 0.5 * start) / (count_N + 0.5)
    return value_N, count_N


def choose_by_value(
    prior_N: np.ndarray, value_N: np.ndarray, count_N: np.ndarray, *, exploration: float, rng: np.random.Generator
) -> int:
    """PUCT over learned values with the model's prior, mixed with 10 % uniform so that nothing is ruled out."""
    prior_N = 0.9 * prior_N + 0.1 / len(prior_N)
    score_N = puct(value_N, prior_N, count_N, exploration)
    return int(np.argmax(score_N + 1e-6 * rng.random(len(prior_N))))


def _kernel(similarity: np.ndarray, gate: float) -> np.ndarray:
    return np.maximum(0.0, (similarity - gate) / (1.0 - gate)) ** 2
