"""How many different things the members of a team say: K*, what it can be worth in bits, and votes.

Paper: Understanding Agent Scaling in LLM-Based Multi-Agent Systems via Diversity (arXiv 2602.03794).

    G   = E E^T                       E: one row a member, its embedded answer; not centred
    lam = eigenvalues(G) / trace(G)
    K*  = 2^H,  H = -sum lam log2 lam  bits                           effective channels, 1 to min(N, D)

On unit rows this is the Vendi score with a cosine kernel (Friedman and Dieng 2023). It compares within one encoder.
The released robustness script centres the rows, which gives near-clones N - 1 channels: another quantity, not here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput

_NONE = 1e-12


def k_star_of_gram(gram_NN: ArrayLike) -> float:
    """K* of a symmetric positive semidefinite matrix of similarities; 1 where all of it is zero."""
    gram = np.asarray(gram_NN, np.float64)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not gram.size or not np.isfinite(gram).all():
        raise BadInput("a square matrix of finite numbers", got=gram.shape, where="formulas.diversity.k_star_of_gram")
    mu = np.clip(np.linalg.eigvalsh(gram), 0.0, None)
    if mu.sum() <= _NONE:
        return 1.0
    lam = mu / mu.sum()
    lam = lam[lam > _NONE]
    return float(2.0 ** -(lam * np.log2(lam)).sum())


def k_star(vec_ND: ArrayLike, *, weights: ArrayLike | None = None, renormalise: bool = True) -> float:
    """K* of embedded answers ``[N, D]``, a row a member, each row times its weight.

    ``renormalise``: rows are brought to length 1 first. The released code does not: means of unit rows, which are
    shorter, then count for less.
    """
    vec = np.asarray(vec_ND, np.float64)
    if renormalise:
        vec = vec / np.maximum(np.linalg.norm(vec, axis=1, keepdims=True), _NONE)
    if weights is not None:
        vec = vec * np.asarray(weights, np.float64)[:, None]
    return k_star_of_gram(vec @ vec.T)


def k_star_by_label(vec_ND: ArrayLike, right_N: Sequence[bool | None]) -> dict[str, float]:
    """K* of the members that are right, of those that are wrong, ``right - wrong / 2``, and with weights 1, .3, .5.

    ``right_N``: ``None`` = unknown, weight .5. NaN where nobody is right (or wrong). Source: the released code.
    """
    vec = np.asarray(vec_ND, np.float64)
    of: dict[bool, float] = {}
    for label in (True, False):
        rows = [i for i, right in enumerate(right_N) if right is label]
        of[label] = k_star(vec[rows]) if rows else math.nan
    weights = [0.5 if right is None else 1.0 if right else 0.3 for right in right_N]
    effective = of[True] - (0.0 if math.isnan(of[False]) else 0.5 * of[False])
    return {"right": of[True], "wrong": of[False], "effective": effective, "weighted": k_star(vec, weights=weights)}


def k_star_without(vec_ND: ArrayLike) -> np.ndarray:
    """What each of at least two members adds: K* of all less K* of all others, ``[N]``."""
    vec = np.asarray(vec_ND, np.float64)
    return np.array([k_star(vec) - k_star(np.delete(vec, i, axis=0)) for i in range(len(vec))])


# ------------------------------------------------------------------------------------------------- information
def mutual_information(joint_YZ: ArrayLike) -> float:
    """``I(Z; Y)`` in bits of a joint distribution, or counts, ``[Y, Z]``: at most ``H(Y)``, however many members."""
    p = np.asarray(joint_YZ, np.float64)
    p = p / p.sum()
    independent = p.sum(1, keepdims=True) * p.sum(0, keepdims=True)
    there = p > 0
    return float((p[there] * np.log2(p[there] / independent[there])).sum())


def fano_missing(error: float, options: int) -> float:
    """Bits that may be missing at most where a share ``error`` of answers among ``options`` is wrong (Fano)."""
    if not 0.0 <= error <= 1.0 or options < 2:
        raise BadInput("an error of 0 to 1, two options or more", got=(error, options), where="formulas.diversity")
    heads = sum(-p * math.log2(p) for p in (error, 1.0 - error) if p > 0)
    return heads + error * math.log2(options - 1)


def fano_error(missing_bits: float, options: int) -> float:
    """The least share of wrong answers where that many bits about the right one of ``options`` are missing (Fano)."""
    lo, hi = 0.0, 1.0 - 1.0 / options
    for _ in range(100):
        mid = (lo + hi) / 2
        lo, hi = (mid, hi) if fano_missing(mid, options) < missing_bits else (lo, mid)
    return hi


def saturation(k: ArrayLike, alpha: float) -> np.ndarray:
    """Share of the evidence that ``k`` effective channels recover: ``1 - exp(-alpha k)``."""
    return 1.0 - np.exp(-alpha * np.asarray(k, np.float64))


def fit_saturation(k_M: ArrayLike, accuracy_M: ArrayLike) -> tuple[float, float, float]:
    """``(floor, span, alpha)`` of ``accuracy = floor + span (1 - exp(-alpha k))`` by least squares over M >= 3 arms.

    ``alpha`` lies in .001 to 30; at either end the arms show no bend, and floor and span mean nothing.
    """
    k, y = np.asarray(k_M, np.float64), np.asarray(accuracy_M, np.float64)
    if k.shape != y.shape or len(np.unique(k)) < 3:
        raise BadInput(
            "three arms of different k are needed", got=k.tolist(), where="formulas.diversity.fit_saturation"
        )

    def fitted(alpha: float) -> tuple[float, np.ndarray]:
        x = np.stack([np.ones(len(k)), saturation(k, alpha)], axis=1)
        line = np.linalg.lstsq(x, y, rcond=None)[0]
        return float(((x @ line - y) ** 2).sum()), line

    alpha = float(min(np.geomspace(1e-3, 30.0, 2000), key=lambda one: fitted(float(one))[0]))
    floor, span = fitted(alpha)[1]
    return float(floor), float(span), alpha


# --------------------------------------------------------------------------------------------------- answers
def error_correlation(right_QA: ArrayLike) -> np.ndarray:
    """Correlation of being wrong over questions, of each two members ``[A, A]``; NaN beside one that never varies."""
    wrong = 1.0 - np.asarray(right_QA, np.float64)
    centred = wrong - wrong.mean(0)
    length = np.sqrt((centred**2).sum(0))
    length[length < _NONE] = np.nan
    return (centred.T @ centred) / np.outer(length, length)


def effective_size(n: float, correlation: float) -> float:
    """The number of independent members that ``n`` equally correlated ones amount to: ``n / (1 + (n - 1) rho)``."""
    return n / (1.0 + (n - 1.0) * correlation)


def vote(answer_QA: ArrayLike, right_QA: ArrayLike) -> np.ndarray:
    """The chance that a plurality vote is right, ties drawn by lot, ``[Q]``.

    ``answer_QA``: equal numbers are equal answers of one question; below 0 = none, which is no vote.
    """
    answer, right = np.asarray(answer_QA), np.asarray(right_QA, np.float64)
    votes = (answer[:, :, None] == answer[:, None, :]).sum(2) * (answer >= 0)
    won = (votes == votes.max(1, keepdims=True)) & (votes > 0)
    return (won * right).sum(1) / np.maximum(won.sum(1), 1)
