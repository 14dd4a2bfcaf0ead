"""Rewards of steps and turns: refinements that cannot be farmed, progress, gates, tests weighted by how much they tell.

All are plain shaping: from numbers that a judge, an estimator or a test run gave to numbers that a policy is paid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput


def clip_rewards(p_T: ArrayLike, eta: float) -> np.ndarray:
    """``min(p_k - eta, 0)``: a good step earns nothing, a bad one costs, so more steps never pay; ``[T]``.

    Gao et al. 2024 (arXiv 2410.15115), "Clip". ``eta`` is the score from which on a step is good enough.
    """
    return np.minimum(_vector(p_T, "clip_rewards") - eta, 0.0)


def delta_rewards(p_T: ArrayLike) -> np.ndarray:
    """``p_k - p_{k+1}``, the last step keeps ``p``: the sum from step k on is ``p_k``, whatever follows; ``[T]``.

    Gao et al. 2024 (arXiv 2410.15115), "Delta".
    """
    p = _vector(p_T, "delta_rewards")
    return p - np.append(p[1:], 0.0)


def progress_rewards(contribution_T: ArrayLike, executed_T: ArrayLike, weight: float) -> np.ndarray:
    """``c_t + weight executed_t``: a share of the outcome, and a bonus for an action that was carried out; ``[T]``.

    SPA-RL (Wang et al. 2025, arXiv 2505.20732).
    """
    c, done = _vector(contribution_T, "progress_rewards"), _vector(executed_T, "progress_rewards")
    if c.shape != done.shape:
        raise BadInput("lengths differ", got=(c.shape, done.shape), where="formulas.process_rewards.progress_rewards")
    return c + weight * done


def progress_loss(contribution_T: ArrayLike, outcome: float) -> float:
    """``(sum_t c_t - R)²`` of one attempt: what the estimator of contributions is trained on (SPA-RL)."""
    return (math.fsum(_vector(contribution_T, "progress_loss").tolist()) - float(outcome)) ** 2


def gated_total(levels: Sequence[float], gates: Sequence[float]) -> float:
    """Sum of rewards by priority, each counted only while every one before it cleared its gate.

    G-RA (arXiv 2508.10548): ``R_out + 1[R_out > gate] R_low``, here for any number of levels, the one that matters most
    first. ``levels[k + 1]`` counts where ``levels[k]`` exceeds ``gates[k]``; there is one gate fewer than levels.
    """
    if len(gates) != len(levels) - 1:
        raise BadInput(
            "one gate between each two levels",
            got=(len(levels), len(gates)),
            where="formulas.process_rewards.gated_total",
        )
    total = float(levels[0])
    for before, gate, level in zip(levels[:-1], gates, levels[1:], strict=True):
        if not before > gate:
            break
        total += float(level)
    return total


def weigh_tests(pass_rate_M: ArrayLike, *, alpha: float, width: float, eps: float = 1e-6) -> np.ndarray:
    """``w_j = exp(-alpha rho_j) / (sum_k exp(-(rho_j - rho_k)² / 2 width²) + eps)``: rare, distinctive tests; ``[M]``.

    VeRPO (arXiv 2601.03525). ``pass_rate_M`` is the share of the group's attempts that pass each test.
    """
    rho = _vector(pass_rate_M, "weigh_tests")
    alike = np.exp(-((rho[:, None] - rho[None, :]) ** 2) / (2.0 * width**2)).sum(axis=1)
    return np.exp(-alpha * rho) / (alike + eps)


def length_budget_reward(
    length: ArrayLike, budget: ArrayLike, *, alpha: float, beta: float, limit: float
) -> np.ndarray:
    """Reward of a *correct* answer of ``length`` tokens for which ``budget`` were granted; broadcast.

    HBPO: ``beta cos(pi n / 2L)`` with n the larger of length and budget, less ``alpha`` a token over the budget.
    """
    n, b = np.asarray(length, dtype=np.float64), np.asarray(budget, dtype=np.float64)
    paid: np.ndarray = beta * np.cos(np.pi * np.maximum(n, b) / (2.0 * limit))
    return paid - alpha * np.maximum(n - b, 0.0)


def overlong_penalty(length: ArrayLike, *, limit: int, buffer: int) -> np.ndarray:
    """0 up to ``limit - buffer`` tokens, falling linearly to -1 at ``limit`` and beyond (DAPO, arXiv 2503.14476)."""
    if not 0 < buffer <= limit:
        raise BadInput("not a buffer", got=buffer, expected=f"1 … {limit}", where="formulas.process_rewards.overlong")
    return np.clip((limit - buffer - np.asarray(length, dtype=np.float64)) / buffer, -1.0, 0.0)


def thought_rewards(verdict_T: ArrayLike, success_rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Steps with one verdict in a row are one thought: its number ``[T]`` and the reward of each thought.

    A good thought (verdict > 0) earns ``1 - p``, a bad one costs ``p``, p the success rate of the group: praise counts
    where the task is hard, blame where it is easy.
    """
    v = np.sign(_vector(verdict_T, "thought_rewards"))
    if v.size == 0:
        return np.zeros(0, np.int64), v
    starts = np.append(True, v[1:] != v[:-1])
    good = v[starts] > 0
    return np.cumsum(starts) - 1, np.where(good, 1.0 - success_rate, -success_rate)


# ------------------------------------------------------------------------- of programs that were run
GRADES = (-1.0, -0.6, -0.3, 1.0)
"""CodeRL: it does not compile, it ends with an error, a test fails, all pass."""


def outcome_class(compiles: bool, runs: bool, correct: bool) -> int:
    """The outcome as CodeRL counts it, a place in ``GRADES``: that of the first stage that was not passed."""
    return 3 if correct else 0 if not compiles else 2 if runs else 1


def graded_outcome(
    compiles: bool, runs: bool, correct: bool, grades: tuple[float, float, float, float] = GRADES
) -> float:
    """The grade of an outcome (Le et al. 2022, arXiv 2207.01780)."""
    return grades[outcome_class(compiles, runs, correct)]


def efficiency_reward(compiles: bool, correct: bool, ratio: float = 1.0) -> float:
    """Correctness and speed in one number, in [-1, 1] (ACECode, Yang et al. 2024, arXiv 2412.17264; the form is ours).

        -1 does not compile     -0.5 wrong     0.5 + 0.5 clip((t_ref - t) / t_ref, -1, 1) right

    ``ratio`` is ``t_ref / t``: how many times as fast as the reference.

    Raises:
        BadInput: a right program whose ratio is not above 0.
    """
    if not correct:
        return -0.5 if compiles else -1.0
    if not ratio > 0.0:
        raise BadInput("no ratio of times", got=ratio, expected="above 0", where="efficiency_reward")
    return 0.5 + 0.5 * max(-1.0, min(1.0, 1.0 - 1.0 / ratio))


def _vector(x: ArrayLike, where: str) -> np.ndarray:
    x_T = np.asarray(x, dtype=np.float64)
    if x_T.ndim != 1 or not np.isfinite(x_T).all():
        raise BadInput("not finite numbers [T]", got=x_T.shape, where=f"formulas.process_rewards.{where}")
    return x_T
