"""How many different channels a team has: K*, its relatives, and what diversity can be worth.

K* (arXiv 2602.03794) is the exponential of the von Neumann entropy of the agents' Gram matrix with unit trace; for
unit rows it is the Vendi score of order 1 with a cosine kernel. It is comparable only within one encoder.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput


def kstar(e_ND: ArrayLike, *, renormalise_rows: bool = True) -> float:
    """Effective number of channels of N agents, in ``[1, min(N, D)]``, from one embedding row each ``[N, D]``.

    Args:
        e_ND: embeddings, finite.
        renormalise_rows: scale rows to unit length first. Averages of unit vectors are shorter than 1 and would be
            silently down-weighted; ``False`` is the released analysis.
    """
    return 2.0 ** _entropy_bits(_gram_spectrum(_rows(e_ND, renormalise_rows)))


def kstar_of_kernel(s_NN: ArrayLike) -> float:
    """K* of a similarity matrix (symmetric, positive semi-definite) ``[N, N]``."""
    s = np.asarray(s_NN, dtype=np.float64)
    if s.ndim != 2 or s.shape[0] != s.shape[1] or not np.allclose(s, s.T, atol=1e-8):
        raise BadInput("a kernel is a symmetric matrix", got=s.shape, where="formulas.diversity.kstar_of_kernel")
    return 2.0 ** _entropy_bits(np.linalg.eigvalsh(s))


def marginal_kstar(e_ND: ArrayLike, *, renormalise_rows: bool = True) -> np.ndarray:
    """``K*(all) - K*(all but i)`` for every agent, float64 ``[N]``; needs two agents."""
    e = _rows(e_ND, renormalise_rows)
    if len(e) < 2:
        raise BadInput("marginal_kstar needs two agents", got=len(e), where="formulas.diversity.marginal_kstar")
    whole = kstar(e, renormalise_rows=False)
    return np.array([whole - kstar(np.delete(e, i, axis=0), renormalise_rows=False) for i in range(len(e))])


def kstar_by_outcome(
    e_ND: ArrayLike, right_N: ArrayLike, *, renormalise_rows: bool = True, penalty: float = 0.5
) -> tuple[float, float, float]:
    """``(K_c, K_w, effective)``: K* over the agents that were right, over those that were wrong, ``K_c - penalty K_w``.

    NaN for an empty side; effective is ``K_c`` where nobody was wrong and NaN where nobody was right.
    """
    e, right = _rows(e_ND, renormalise_rows), np.asarray(right_N, dtype=bool)
    if right.shape != (len(e),):
        raise BadInput("one outcome per agent", got=(len(e), right.shape), where="formulas.diversity.kstar_by_outcome")
    k_c = kstar(e[right], renormalise_rows=False) if right.any() else math.nan
    k_w = kstar(e[~right], renormalise_rows=False) if (~right).any() else math.nan
    return k_c, k_w, (k_c if right.all() else k_c - penalty * k_w)


def weighted_kstar(e_ND: ArrayLike, weight_N: ArrayLike, *, renormalise_rows: bool = True) -> float:
    """K* after multiplying rows by weights rescaled to sum to N (published: 1.0 right, 0.3 wrong, 0.5 unknown)."""
    e, w = _rows(e_ND, renormalise_rows), np.asarray(weight_N, dtype=np.float64)
    if w.shape != (len(e),) or (w < 0).any() or w.sum() <= 0:
        raise BadInput(
            "weights must be one per agent, >= 0, not all 0", got=w.tolist(), where="formulas.diversity.weighted_kstar"
        )
    return kstar(e * (w * len(w) / w.sum())[:, None], renormalise_rows=False)


def centred_kstar(e_ND: ArrayLike, *, renormalise_rows: bool = True) -> float:
    """K* after subtracting the mean row, for comparison only: *not* K* (near N - 1 even for near-clones)."""
    e = _rows(e_ND, renormalise_rows)
    return 2.0 ** _entropy_bits(_gram_spectrum(e - e.mean(axis=0)))


def equicorrelated_kstar(n: int, rho: float) -> float:
    """K* of ``n`` unit rows with one cosine ``rho`` between every pair (closed form)."""
    return 2.0 ** _entropy_bits(np.array([(1 + (n - 1) * rho) / n] + [(1 - rho) / n] * (n - 1)))


def consensus(p_M: ArrayLike) -> float:
    """``sum p²`` of the shares of each answer; ``1 - consensus`` is the disagreement (Gini)."""
    p = np.asarray(p_M, dtype=np.float64)
    return float(np.sum((p / p.sum()) ** 2))


def design_effect_size(n: int, rho: float) -> float:
    """``n / (1 + (n - 1) rho)``: how many independent voters n voters with error correlation ``rho`` are worth."""
    return n / (1.0 + (n - 1) * rho)


def recoverable_share(k: ArrayLike, alpha: float) -> np.ndarray:
    """``1 - exp(-alpha k)``: share of the evidence that ``k`` effective channels recover."""
    return 1.0 - np.exp(-alpha * np.asarray(k, dtype=np.float64))


def fano_error(residual_bits: float, options: int) -> float:
    """Least error over M answers with h bits unknown: Fano's ``H(p) + p log2(M - 1) >= h``, solved for p."""
    if options < 2 or not 0.0 <= residual_bits <= math.log2(options) + 1e-12:
        raise BadInput(
            "residual must lie in 0..log2(options)", got=(residual_bits, options), where="formulas.diversity"
        )
    lo, hi = 0.0, 1.0 - 1.0 / options
    for _ in range(100):
        mid = (lo + hi) / 2
        reached = _entropy_bits(np.array([mid, 1 - mid])) + mid * math.log2(options - 1)
        lo, hi = (mid, hi) if reached < residual_bits else (lo, mid)
    return hi


def voter_evidence(n: int, accuracy: float, copying: float = 0.0) -> tuple[float, float]:
    """``(bits, majority accuracy)`` of n agents on a fair binary question, each right with probability ``accuracy``.

    ``copying`` is the share of questions on which all repeat one draw (nobody knows which questions). Bits are the
    mutual information of the n answers and the truth; a tied vote counts a half.
    """
    right = np.arange(n + 1)
    ways = np.array([math.comb(n, int(k)) for k in right], dtype=np.float64)

    def likelihood(p: float) -> np.ndarray:  # of one particular answer pattern with k agents saying "yes"
        alone = p**right * (1 - p) ** (n - right)
        one = np.where(right == n, p, 0.0) + np.where(right == 0, 1 - p, 0.0)
        return (1 - copying) * alone + copying * (one if n > 1 else alone)

    yes, no = likelihood(accuracy), likelihood(1 - accuracy)
    marginal = (yes + no) / 2
    log_ratio = np.zeros(n + 1)
    np.log2(np.divide(yes, marginal, out=np.ones(n + 1), where=marginal > 0), out=log_ratio, where=yes > 0)
    bits = float(np.sum(ways * yes * log_ratio))  # both truths contribute the same by symmetry
    majority = float(np.sum(ways * yes * ((2 * right > n) + 0.5 * (2 * right == n))))
    return bits, majority


def _rows(e_ND: ArrayLike, renormalise: bool) -> np.ndarray:
    e = np.asarray(e_ND, dtype=np.float64)
    if e.ndim != 2 or e.size == 0 or not np.isfinite(e).all():
        raise BadInput("embeddings must be a finite matrix", got=e.shape, expected="[N, D]", where="formulas.diversity")
    if not renormalise:
        return e
    length = np.linalg.norm(e, axis=1, keepdims=True)
    return np.divide(e, length, out=np.zeros_like(e), where=length > 0)


def _gram_spectrum(e: np.ndarray) -> np.ndarray:
    # the smaller of the two Gram matrices has the same non-zero spectrum
    return np.linalg.eigvalsh(e @ e.T if len(e) <= e.shape[1] else e.T @ e)


def _entropy_bits(mu: np.ndarray) -> float:
    mu = np.clip(mu, 0.0, None)
    total = float(mu.sum())
    if total <= 1e-12:
        return 0.0
    lam = mu / total
    lam = lam[lam > 1e-12]
    return max(0.0, float(-np.sum(lam * np.log2(lam))))
