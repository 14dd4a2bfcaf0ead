"""Values of single things (a memory, a baseline, an arm): averages, credit back along a graph."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

Number = TypeVar("Number", float, np.ndarray)
Parents = Mapping[str, Sequence[str]] | Callable[[str], Sequence[str]]


def ema(q: Number, r: Number, alpha: float) -> Number:
    """Exponential moving average ``q + alpha (r - q)``: the update of MemRL (arXiv 2601.03192, single-step form).

    Scalars or arrays of one shape. From ``q_0`` on a constant mean, the expectation closes in by ``(1 - alpha)`` a
    step; on noise of variance s² it keeps wandering with variance ``ema_variance_factor(alpha) s²``.
    """
    return q + alpha * (r - q)


def ancestor_depths(parents: Parents, start: str, max_depth: int = 64) -> dict[str, int]:
    """Shortest number of parent links from ``start`` to itself (0) and to each ancestor, breadth first.

    ``parents`` is a mapping (absent = no parents) or a function (for a store that looks them up); at most ``max_depth``
    links are followed. A cycle ends by itself: every id is visited once.
    """
    look: Callable[[str], Sequence[str]] = parents if callable(parents) else lambda id_: parents.get(id_, ())
    depths, todo = {start: 0}, deque([start])
    while todo:
        here = todo.popleft()
        if depths[here] >= max_depth:
            continue
        for parent in look(here):
            if parent not in depths:
                depths[parent] = depths[here] + 1
                todo.append(parent)
    return depths


def spread_back(
    errors: Mapping[Any, float], depths: Mapping[Any, Mapping[Any, int]], *, alpha: float, decay: float
) -> dict[Any, float]:
    """Changes ``alpha decay^depth error``, summed over the sources: MemQ's credit back along provenance.

    By source, ``errors`` is what its value misses and ``depths`` its links to itself (0) and to each ancestor
    (``ancestor_depths``); ``decay = gamma trace`` is what a link leaves.
    """
    changes: dict[Any, float] = {}
    for source, error in errors.items():
        for id_, depth in depths[source].items():
            changes[id_] = changes.get(id_, 0.0) + alpha * decay**depth * error
    return changes


def closeness(similarity: ArrayLike, gate: float) -> np.ndarray:
    """A kernel ``max(0, (similarity - gate) / (1 - gate))^2``: 1 where two are the same, 0 at the gate and below."""
    return np.maximum(0.0, (np.asarray(similarity, np.float64) - gate) / (1.0 - gate)) ** 2


def kernel_mean(weight: ArrayLike, value_M: ArrayLike, start: float, *, prior: float = 0.5) -> np.ndarray:
    """Kernel-averaged value ``(sum w q + prior start) / (sum w + prior)`` (Memento, arXiv 2508.16153, with a start).

    The weight of each of M experiences, ``[M]`` or ``[..., M]``, is closeness times outcomes; ``prior`` outcomes count
    for ``start``, what is thought where there is none.
    """
    w, q_M = np.asarray(weight, np.float64), np.asarray(value_M, np.float64)
    return (w @ q_M + prior * start) / (w.sum(-1) + prior)


def mean_since_change(
    won: float, n: float, counts: Sequence[float], shares: Sequence[float], hazards: Sequence[float]
) -> float:
    """Posterior mean of a success rate that may have changed within its newest outcomes.

    The run length posterior of Adams and MacKay (arXiv 0710.3742) over the newest change alone: outcomes since then
    have one rate, those before it another. When it was is judged under uniform priors on both (under a start that is
    sure of success, failures would be taken for those of an earlier rate); the mean since then has the prior's outcomes
    beside its own: ``n`` above 0, of which ``won`` succeeded.

    Newest first, each outcome counts ``counts`` (a likelihood is raised to it, so it need not be whole) and succeeded
    to a share 0 to 1; ``hazards`` are the probabilities, below 1, that the rate has changed just before it. Where all
    are 0, all count alike.
    """
    if not counts:
        return won / n
    good = list(accumulate((c * x for c, x in zip(counts, shares, strict=True)), initial=0.0))
    bad = list(accumulate((c * (1.0 - x) for c, x in zip(counts, shares, strict=True)), initial=0.0))
    logp: list[float] = []
    same = 0.0
    for r, hazard in enumerate(hazards[:-1], 1):
        before = _log_evidence(good[-1] - good[r], bad[-1] - bad[r])
        changed = math.log(hazard) + before + _log_evidence(good[r], bad[r]) if hazard > 0.0 else -math.inf
        logp.append(same + changed)
        same += math.log1p(-hazard)
    logp.append(same + _log_evidence(good[-1], bad[-1]))
    top = max(logp)
    weight = [math.exp(x - top) for x in logp]
    means = [(won + g) / (n + g + b) for g, b in zip(good[1:], bad[1:], strict=True)]
    return sum(w * mean for w, mean in zip(weight, means, strict=True)) / sum(weight)


def _log_evidence(good: float, bad: float) -> float:
    """``log ∫ p^good (1-p)^bad dp``."""
    return math.lgamma(1.0 + good) + math.lgamma(1.0 + bad) - math.lgamma(2.0 + good + bad)
