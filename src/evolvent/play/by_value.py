"""Choosing among admissible commands by the learned values of experiences, together with a model's prior."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.core.protocols import Embedder
from evolvent.formulas.selection import puct
from evolvent.formulas.values import closeness, kernel_mean
from evolvent.memory.recall import Recalled


def command_values(
    items: Sequence[Recalled], commands: Sequence[str], embedder: Embedder, *, gate: float, start: float
) -> tuple[np.ndarray, np.ndarray]:
    """Kernel-averaged value and visit count of each command from experiences of similar situations.

    The weight of an experience is the product of two kernels, over the situation and over the command's text, times
    its number of visits: q = Σ w q_i / Σ w, shrunk to ``start`` by half a visit (Memento's estimator, Eq. of Q_EC, with
    a product kernel). Returns float64 ``[N]`` twice.
    """
    if not items:
        return np.full(len(commands), start), np.zeros(len(commands))
    commands_ND = embedder.embed(list(commands))
    bodies_MD = embedder.embed([item.body for item in items])
    kernel_M = closeness([item.similarity for item in items], gate)
    visits_M = np.array([max(1, item.n) for item in items], dtype=float)
    weight_NM = closeness(commands_ND @ bodies_MD.T, gate) * (kernel_M * visits_M)
    return kernel_mean(weight_NM, [item.value for item in items], start), weight_NM.sum(1)


def choose_by_value(
    prior_N: np.ndarray, value_N: np.ndarray, count_N: np.ndarray, *, exploration: float, rng: np.random.Generator
) -> int:
    """PUCT over learned values with the model's prior, mixed with 10 % uniform so that nothing is ruled out."""
    prior_N = 0.9 * prior_N + 0.1 / len(prior_N)
    score_N = puct(value_N, prior_N, count_N, exploration)
    return int(np.argmax(score_N + 1e-6 * rng.random(len(prior_N))))
