"""What to subtract from a return: means over a group of attempts, a running average, the baseline of least variance.

Members are the first axis; further axes (turns) are treated column by column. ``group`` labels which members belong
together (default: all). Whether a baseline keeps the gradient unbiased is a property of the rule that uses it: one
that contains the member's own return scales or bends the gradient, one made of the others does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput


def group_mean(x_N: ArrayLike, group: Sequence[object] | None = None) -> np.ndarray:
    """Mean of each member's group, the member included; float64 of the shape of ``x_N``."""
    x, label, size = _grouped(x_N, group, "group_mean")
    return (_sums(x, label, len(size)) / _column(size, x))[label]


def leave_one_out(x_N: ArrayLike, group: Sequence[object] | None = None, alone: float = 0.0) -> np.ndarray:
    """Mean of the *other* members of the group (RLOO: Kool et al. 2019; Ahmadian et al. 2024).

    A member without others gets ``alone``: any constant is unbiased.
    """
    x, label, size = _grouped(x_N, group, "leave_one_out")
    others = _column(size[label] - 1, x)
    rest = _sums(x, label, len(size))[label] - x
    return np.where(others > 0, rest / np.maximum(others, 1), alone)


def group_std(x_N: ArrayLike, group: Sequence[object] | None = None, ddof: int = 0) -> np.ndarray:
    """Standard deviation of each member's group; 0 where the group is not larger than ``ddof``."""
    x, label, size = _grouped(x_N, group, "group_std")
    centred = x - group_mean(x, group)
    n = _column(size - ddof, x)
    spread = np.where(n > 0, _sums(centred**2, label, len(size)) / np.maximum(n, 1), 0.0)
    return np.sqrt(spread)[label]


def group_z(x_N: ArrayLike, group: Sequence[object] | None = None, *, ddof: int = 1, eps: float = 1e-6) -> np.ndarray:
    """``(x - mean) / (std + eps)`` of each member in its group."""
    return (np.asarray(x_N, dtype=np.float64) - group_mean(x_N, group)) / (group_std(x_N, group, ddof) + eps)


def weighted_mean(
    x_N: ArrayLike, weight_N: ArrayLike, group: Sequence[object] | None = None, *, without_own: bool = False
) -> np.ndarray:
    """Weighted mean of each member's group ``[N]``, or of the *others* in it (``without_own``; 0 without others).

    Weights are >= 0, such as numbers of tokens (OPO, arXiv 2505.23585); a group that weighs nothing has mean 0.
    """
    x, label, size = _grouped(x_N, group, "weighted_mean")
    w = np.asarray(weight_N, dtype=np.float64)
    if w.shape != x.shape or x.ndim != 1 or not (w >= 0.0).all():
        raise BadInput("weights do not fit", got=(x.shape, w.shape), where="formulas.baselines.weighted_mean")
    sums = np.bincount(label, w * x, len(size))[label], np.bincount(label, w, len(size))[label]
    own = (w * x, w) if without_own else (np.zeros_like(x), np.zeros_like(x))
    top, bottom = sums[0] - own[0], sums[1] - own[1]
    there = bottom > 0.0
    return np.where(there, top / np.where(there, bottom, 1.0), 0.0)


def log_avg_exp(x_N: ArrayLike, group: Sequence[object] | None = None, *, tau: float) -> np.ndarray:
    """``tau log mean exp(x / tau)`` of each member's group ``[N]``: the mean (large tau) to the maximum (small)."""
    x, label, size = _grouped(x_N, group, "log_avg_exp")
    top = np.full(len(size), -np.inf)
    np.maximum.at(top, label, x)
    soft = np.bincount(label, np.exp((x - top[label]) / tau), len(size)) / size
    return (top + tau * np.log(soft))[label]


def score_norms(policy: ArrayLike) -> np.ndarray:
    """Squared length of ``grad log pi(a)`` with respect to softmax logits: ``1 - 2 pi(a) + |pi|²``, ``[..., N]``.

    Kuba et al. 2021 (arXiv 2108.08612) use it in place of the gradient with respect to all weights of a network.
    """
    p = np.asarray(policy, dtype=np.float64)
    return (1.0 - p) ** 2 + np.maximum((p * p).sum(axis=-1, keepdims=True) - p * p, 0.0)


def gaussian_score_norms(action: ArrayLike, mean: ArrayLike, sd: ArrayLike) -> np.ndarray:
    """Squared length of ``grad log N(a; mean, sd)`` with respect to mean and sd, summed over dimensions: ``[...]``.

    ``|(a - mean)/sd²|² + |((a - mean)² - sd²)/sd³|²`` (arXiv 2108.08612); dimensions last.
    """
    a, m, s = (np.asarray(x, dtype=np.float64) for x in (action, mean, sd))
    z = (a - m) / s
    size: np.ndarray = (z / s) ** 2 + ((z * z - 1.0) / s) ** 2
    return np.asarray(size.sum(axis=-1))


def optimal_weights(policy: ArrayLike, norms: ArrayLike | None = None, *, floor: float = 1e-4) -> np.ndarray:
    """``x(a) ∝ pi(a) |grad log pi(a)|²``: the mean of Q under it is the baseline of least variance, ``[..., N]``.

    A probability of exactly 0 is a choice that is not available and gets weight 0; others count at least ``floor``:
    where a policy has nearly settled, the weight moves to choices that are hardly ever tried and whose Q is hardly
    known. ``norms`` are the squared lengths of the scores; ``None``: with respect to softmax logits. Where no choice
    moves the policy any baseline is as good: the weights are then the policy.
    """
    given = np.asarray(policy, dtype=np.float64)
    p = np.where(given > 0.0, np.maximum(given, floor), 0.0)
    total: np.ndarray = p.sum(axis=-1, keepdims=True)
    if not (total > 0.0).all():
        raise BadInput("nothing is available", got="a row of zeros", where="formulas.baselines.optimal_weights")
    share: np.ndarray = p / total
    x: np.ndarray = share * (score_norms(share) if norms is None else np.asarray(norms, dtype=np.float64))
    z: np.ndarray = x.sum(axis=-1, keepdims=True)
    return np.where(z > 1e-12, x / np.maximum(z, 1e-12), share)


def gaussian_optimal_baseline(
    q_of: Callable[[slice, np.ndarray], ArrayLike],
    mean_MD: ArrayLike,
    sd_MD: ArrayLike,
    rng: np.random.Generator,
    *,
    samples: int = 1000,
    chunk: int = 16_384,
) -> np.ndarray:
    """The baseline of least variance for Gaussian policies, by sampling: ``sum_k w_k Q(a_k) / sum_k w_k``, ``[M]``.

    ``q_of`` takes rows of the M decisions and actions ``[m, K, D]`` to Q ``[m, K]``; a deviation of 0 is a dimension
    the agent does not have. At most ``chunk`` actions are judged at once, which bounds the memory and fits a
    processor's cache.
    """
    mean, sd = np.asarray(mean_MD, dtype=np.float64), np.asarray(sd_MD, dtype=np.float64)
    out, step = np.empty(len(mean)), max(1, chunk // samples)
    has = sd > 0.0
    for start in range(0, len(mean), step):
        rows = slice(start, min(start + step, len(mean)))
        m, s, own = mean[rows, None], sd[rows, None], has[rows, None]
        action = m + s * rng.standard_normal((m.shape[0], samples, m.shape[2]))
        # an absent dimension gets a spread of infinity: its score is 0
        weight = gaussian_score_norms(action, m, np.where(own, s, np.inf))
        q = np.asarray(q_of(rows, action), dtype=np.float64)
        out[rows] = (weight * q).sum(axis=1) / weight.sum(axis=1)
    return out


def _grouped(x_N: ArrayLike, group: Sequence[object] | None, where: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, group number of each member, size of each group."""
    x = np.asarray(x_N, dtype=np.float64)
    if x.ndim == 0 or (group is not None and len(group) != len(x)):
        raise BadInput(
            "one group label per member",
            got=(x.shape, None if group is None else len(group)),
            expected="values [N, ...] and N labels",
            where=f"formulas.baselines.{where}",
        )
    number: dict[object, int] = {}
    names: Sequence[object] = [None] * len(x) if group is None else group
    label = np.array([number.setdefault(g, len(number)) for g in names], dtype=np.int64)
    return x, label, np.bincount(label, minlength=len(number))


def _sums(x: np.ndarray, label: np.ndarray, groups: int) -> np.ndarray:
    out = np.zeros((groups, *x.shape[1:]))
    np.add.at(out, label, x)
    return out


def _column(n: np.ndarray, x: np.ndarray) -> np.ndarray:
    return n.reshape(n.shape + (1,) * (x.ndim - 1))
