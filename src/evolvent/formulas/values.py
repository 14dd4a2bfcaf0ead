"""Values of single things (a memory, a baseline, an arm): averages, temporal differences, credit back along a graph."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from evolvent.core.errors import BadInput

Number = TypeVar("Number", float, np.ndarray)
Parents = Mapping[str, Sequence[str]] | Callable[[str], Sequence[str]]


def ema(q: Number, r: Number, alpha: float) -> Number:
    """Exponential moving average ``q + alpha (r - q)``: the update of MemRL (arXiv 2601.03192, single-step form).

    Scalars or arrays of one shape. From ``q_0`` on a constant mean, the expectation closes in by ``(1 - alpha)`` a
    step; on noise of variance s² it keeps wandering with variance ``ema_variance_factor(alpha) s²``.
    """
    return q + alpha * (r - q)


def td(q: Number, r: Number, alpha: float, gamma: float = 0.0, q_next: Any = 0.0) -> Number:
    """One temporal-difference step ``q + alpha (r + gamma q_next - q)``; ``gamma = 0`` is ``ema``."""
    return q + alpha * (r + gamma * q_next - q)


def ema_variance_factor(alpha: float) -> float:
    """Limiting variance of an EMA as a multiple of the reward variance: ``alpha / (2 - alpha)``."""
    return alpha / (2.0 - alpha)


def shrunk_mean(sum_r: Number, n: Any, prior: float = 0.0, strength: float = 5.0) -> Number:
    """Mean of ``n`` rewards pulled towards ``prior`` as if ``strength`` rewards of that size had been seen before.

    The posterior mean of a normal mean with prior weight ``strength``; ``n = 0`` gives the prior.
    """
    return (prior * strength + sum_r) / (strength + n)


def ancestor_depths(parents: Parents, start: str, max_depth: int = 64) -> dict[str, int]:
    """Shortest number of parent links from ``start`` to itself (0) and to each ancestor, breadth first.

    Args:
        parents: id to parent ids, as a mapping (absent = no parents) or a function (for a store that looks them up).
        start: where to begin.
        max_depth: links followed at most; 0 gives ``{start: 0}``. A cycle ends by itself: every id is visited once.
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


def backward_credit(
    q: Mapping[str, float],
    parents: Parents,
    used: Iterable[str],
    new_q: float,
    reward: float,
    *,
    alpha: float,
    gamma: float,
    trace: float,
    max_depth: int = 64,
) -> dict[str, float]:
    """Changes of value after one task, spread back over the provenance graph (MemQ, arXiv 2605.08374).

    Every retrieved memory m0 has the error ``d = reward + gamma new_q - q[m0]``; m0 and each ancestor m receive
    ``alpha (gamma trace)^depth(m0, m) d``. All errors use the values before the task (synchronous); an ancestor that
    several paths reach counts once per retrieved memory, at its shortest depth; contributions of different retrieved
    memories add up. ``gamma = 0`` is MemRL (0⁰ = 1), ``trace = 0`` one-step TD on what was retrieved.

    Args:
        q: value by id; must hold the retrieved ids (``BadInput`` otherwise), ancestors are only changed, not read.
        parents: id to parent ids (mapping or function).
        used: ids retrieved for the task; repeats count once.
        new_q: value of the memory the task created, 0.0 where it created none.
        reward: outcome of the task, finite.
        alpha: step size.
        gamma: discount.
        trace: decay of the trace (lambda of the paper).
        max_depth: ancestors further away get nothing.

    Returns:
        Change by id, for the retrieved and all their reachable ancestors; apply with ``q[id] += change``. Changes of
        a hub can exceed ``alpha`` times the reward range: clip where a range must hold.
    """
    if not (math.isfinite(reward) and math.isfinite(new_q)):
        raise BadInput("reward and new_q must be finite", got=(reward, new_q), where="formulas.values.backward_credit")
    decay, errors = gamma * trace, dict[str, float]()
    for source in dict.fromkeys(used):
        if source not in q:
            raise BadInput(
                "a retrieved memory has no value",
                got=source,
                expected="an id of q",
                where="formulas.values.backward_credit",
            )
        errors[source] = reward + gamma * new_q - q[source]
    # decay 0 reaches nobody but the source itself: skip the walk
    depths = {m: ancestor_depths(parents, m, max_depth) if decay else {m: 0} for m in errors}
    return spread_back(errors, depths, alpha=alpha, decay=decay)


def spread_back(
    errors: Mapping[Any, float], depths: Mapping[Any, Mapping[Any, int]], *, alpha: float, decay: float
) -> dict[Any, float]:
    """Changes ``alpha decay^depth error``, summed over the sources: the last step of ``backward_credit``.

    Args:
        errors: by source, what its value misses.
        depths: by source, links to itself (0) and to each ancestor (``ancestor_depths``).
        alpha: step size.
        decay: what a link leaves, ``gamma trace``.
    """
    changes: dict[Any, float] = {}
    for source, error in errors.items():
        for id_, depth in depths[source].items():
            changes[id_] = changes.get(id_, 0.0) + alpha * decay**depth * error
    return changes


class RunningMoments(NamedTuple):
    """State of Welford's running mean and spread: a plain tuple, changed by ``push``, read by ``normalise``."""

    n: int = 0
    mean: float = 0.0
    m2: float = 0.0


def push(state: RunningMoments, x: float) -> RunningMoments:
    """The state after one more observation (Welford 1962); ``x`` must be finite."""
    if not math.isfinite(x):
        raise BadInput("observation is not finite", got=x, where="formulas.values.push")
    n = state.n + 1
    d = x - state.mean
    mean = state.mean + d / n
    return RunningMoments(n, mean, state.m2 + d * (x - mean))


def deviation(state: RunningMoments) -> float:
    """Population standard deviation of what was pushed; 0 for fewer than two observations."""
    return math.sqrt(state.m2 / state.n) if state.n else 0.0


def normalise(state: RunningMoments, x: float, floor: float = 1e-6) -> float:
    """``(x - mean) / sd``, and 0 where sd is at most ``floor`` (the first sample, constant rewards)."""
    sd = deviation(state)
    return (x - state.mean) / sd if sd > floor else 0.0


def value_health(values: Iterable[tuple[float, int]]) -> dict[str, float]:
    """How alive learned values are: share ever updated, share non-zero, updates per item.

    Args:
        values: ``(q, n)`` per item, n = number of updates received.

    Returns:
        ``coverage``, ``nonzero``, ``updates_per_item``; all 0.0 for an empty bank.
    """
    rows = list(values)
    total = max(1, len(rows))
    return {
        "coverage": sum(n > 0 for _, n in rows) / total,
        "nonzero": sum(q != 0 for q, _ in rows) / total,
        "updates_per_item": sum(n for _, n in rows) / total,
    }
