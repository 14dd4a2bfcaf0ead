"""Choosing among candidates: z-scores, the two-phase recall of MemRL, PUCT and UCT, and probabilities to sample
from.

Everything that samples returns the probability with which it sampled (the propensity), so that what was chosen can be
evaluated without bias later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput


def zscores(x: ArrayLike, *, eps: float = 1e-9, clip: float | None = None) -> np.ndarray:
    """``(x - mean) / sd`` over a pool, population sd, float64 ``[N]``.

    Defined everywhere: an empty pool gives an empty array; one item, or values all within ``eps`` of spread, give
    zeros (the criterion then abstains). |z| never exceeds ``sqrt(N - 1)``, so a clip at 3 is inert up to N = 10.

    Raises:
        BadInput: a value is NaN or infinite, or x is not a vector.
    """
    x_N = _vector(x, "zscores")
    if x_N.size == 0:
        return x_N
    # the bits of ``mean()``, in a third of its time: a recall takes four
    centred: np.ndarray = x_N - np.add.reduce(x_N) / x_N.size
    sd = math.sqrt(float(np.add.reduce(centred * centred)) / x_N.size)
    if sd <= eps:
        return np.zeros_like(x_N)
    z = centred / sd
    return z if clip is None else np.clip(z, -clip, clip)


def blended(
    ids: Sequence[int], sim_N: np.ndarray, q_N: np.ndarray, *, k: int, weight: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The ranking of MemRL's two-phase recall (arXiv 2601.03192), inside a pool of N items that passed a gate.

    Scores are ``(1 - weight) z(sim) + weight z(q)``, z taken inside the pool. Ties (to nine decimals) go to the more
    similar, then to the smaller id: the order of the rows makes no difference. Row numbers int64 ``[<=k]``, best first;
    scores, z-scores of similarity and of value, float64 ``[N]``.

    Raises:
        BadInput: a similarity or a value is not finite.
    """
    z_sim, z_q = zscores(sim_N), zscores(q_N)
    scores = (1.0 - weight) * z_sim + weight * z_q
    # rounded, since z-scores of two that disagree are always a tie at weight .5, and their last bits would decide
    return np.lexsort((np.asarray(ids), -sim_N, -np.round(scores, 9)))[:k], scores, z_sim, z_q


def puct(
    q_N: ArrayLike, prior_N: ArrayLike, n_N: ArrayLike, c: float | np.ndarray = 1.25, *, parent: ArrayLike | None = None
) -> np.ndarray:
    """PUCT scores ``q + c prior sqrt(n_parent) / (1 + n)`` (Rosin 2011; AlphaZero form); all broadcast.

    ``c`` belongs to the scale of the values; it grows by ``puct_constant`` in AlphaZero. Visits of the parent are by
    default ``1 + sum n``, where the 1 is its own visit, so that the prior decides before any child was tried; with 0
    the values alone decide.
    """
    q, prior, n = (np.asarray(x, dtype=np.float64) for x in (q_N, prior_N, n_N))
    visits = 1.0 + n.sum(-1, keepdims=True) if parent is None else np.asarray(parent, dtype=np.float64)
    return q + c * prior * np.sqrt(visits) / (1.0 + n)


def puct_constant(parent: ArrayLike, *, init: float = 1.25, base: float = 19652.0) -> np.ndarray:
    """Weight of exploration ``ln((n_parent + base + 1) / base) + init`` (AlphaZero, Silver et al. 2018)."""
    return np.log((np.asarray(parent, dtype=np.float64) + base + 1.0) / base) + init


def uct(
    q_N: ArrayLike, n_N: ArrayLike, parent: ArrayLike, *, weight: float = 2.0, fresh: float = math.inf
) -> np.ndarray:
    """UCT scores ``q + weight sqrt(ln n_parent / n)`` (Kocsis & Szepesvari 2006), ``[..., N]``.

    Mean values and visits of the children; visits of the parent broadcast and count at least 1. rStar and MedS3 have
    weight 2. A child without visits scores ``fresh``.
    """
    q, n = np.asarray(q_N, dtype=np.float64), np.asarray(n_N, dtype=np.float64)
    log = np.log(np.maximum(np.asarray(parent, dtype=np.float64), 1.0))
    return np.where(n > 0, q + weight * np.sqrt(log / np.maximum(n, 1.0)), fresh)


def annealed(start: float, end: float, progress: float, how: str = "linear") -> float:
    """A temperature (or a weight) on its way from ``start`` to ``end``; ``progress`` in 0..1.

    ``linear``, ``exponential`` (both ends above 0) or ``constant``.

    Raises:
        BadInput: another schedule, or an end of the exponential one that is not above 0.
    """
    if how not in ("linear", "exponential", "constant") or (how == "exponential" and min(start, end) <= 0.0):
        raise BadInput(
            "no such schedule",
            got=(how, start, end),
            expected="linear, constant, or exponential between positive ends",
            where="formulas.selection.annealed",
        )
    x = min(max(progress, 0.0), 1.0)
    if how == "exponential":
        return start * (end / start) ** x
    return start if how == "constant" else start + (end - start) * x


def mean_likelihoods(logps: Sequence[ArrayLike]) -> np.ndarray:
    """Priors ``exp(mean log-probability a token)`` of candidates, normalised (TS-LLM): float64 ``[N]``.

    Raises:
        BadInput: a candidate without tokens, or with one whose log-probability is not known.
    """
    means = [float(np.mean(_vector(logp, "mean_likelihoods"))) if np.size(logp) else math.nan for logp in logps]
    return softmax(_vector(means, "mean_likelihoods")) if means else np.zeros(0)


def visit_policy(n_N: ArrayLike, temperature: float = 1.0) -> np.ndarray:
    """Move probabilities ``n^(1/temperature)``, normalised: the policy of a finished search, float64 ``[..., N]``."""
    return softmax(np.log(np.asarray(n_N, dtype=np.float64) + 1e-10), temperature)


def softmax(x: ArrayLike, temperature: float = 1.0, axis: int = -1) -> np.ndarray:
    """``exp(x / temperature)`` normalised along ``axis``, shifted by the maximum so that nothing overflows.

    ``-inf`` entries get probability 0 (masked actions). ``temperature = 0`` is the arg-max, shared evenly among ties.

    Raises:
        BadInput: negative temperature, NaN, or a row without a finite entry.
    """
    x_ = np.asarray(x, dtype=np.float64)
    if temperature < 0 or x_.size == 0:
        raise BadInput(
            "softmax needs values and a temperature >= 0",
            got=(x_.shape, temperature),
            where="formulas.selection.softmax",
        )
    top = x_.max(axis=axis, keepdims=True)
    if not np.isfinite(top).all():
        raise BadInput("softmax of a row with NaN or without a finite entry", where="formulas.selection.softmax")
    e = (x_ == top).astype(np.float64) if temperature == 0 else np.exp((x_ - top) / temperature)
    return e / e.sum(axis=axis, keepdims=True)


def sample(p_N: ArrayLike, rng: np.random.Generator) -> tuple[int, float]:
    """One index drawn from probabilities ``[N]`` and the propensity it had; probabilities must sum to 1."""
    p = _vector(p_N, "sample")
    if p.size == 0 or (p < 0).any() or abs(float(p.sum()) - 1.0) > 1e-9:
        raise BadInput(
            "not a probability vector", got=p.tolist(), expected="p >= 0, sum 1", where="formulas.selection.sample"
        )
    # inverse transform; the clamp guards the rounding of the last partial sum
    i = min(int(np.searchsorted(np.cumsum(p), rng.random(), side="right")), int(np.flatnonzero(p)[-1]))
    return i, float(p[i])


def _vector(x: ArrayLike, where: str) -> np.ndarray:
    x_N = np.asarray(x, dtype=np.float64)
    if x_N.ndim != 1 or not np.isfinite(x_N).all():
        raise BadInput(
            "expected a vector of finite numbers",
            got=x_N.tolist(),
            expected="float [N]",
            where=f"formulas.selection.{where}",
        )
    return x_N
