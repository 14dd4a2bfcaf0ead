"""Success rates with intervals from the lines of ``metrics.jsonl``, by phase, by pass, by block of tasks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any, TypeVar

from evolvent.formulas.statistics import mcnemar, paired_rates_interval, student_interval, wilson

Row = dict[str, Any]
T = TypeVar("T")
PHASES = {
    "before": "before: held-out tasks, nothing learned yet",
    "stream": "stream: tasks it learned from",
    "after": "after: the same held-out tasks",
    "control": "control: tasks of the stream, no memory",
}


@dataclass(frozen=True)
class Rate:
    """A success rate over ``n`` tasks with its 95 % interval."""

    name: str
    n: int
    successes: int
    lo: float
    hi: float

    @property
    def value(self) -> float:
        """Successes over tasks, 0..1."""
        return self.successes / self.n

    @property
    def ci95(self) -> tuple[float, float]:
        """The interval as a pair."""
        return self.lo, self.hi


@dataclass(frozen=True)
class Paired:
    """Two outcomes of the same tasks: difference ``a - b`` with its interval, exact McNemar p."""

    n: int
    only_a: int
    only_b: int
    difference: float
    lo: float
    hi: float
    p: float


def rate(name: str, rows: Sequence[Row]) -> Rate | None:
    """The success rate of ``rows`` with its Wilson interval; ``None`` for no rows."""
    if not rows:
        return None
    successes = sum(int(row["success"]) for row in rows)
    return Rate(name, len(rows), successes, *wilson(successes, len(rows)))


def valid(rows: Iterable[Row]) -> list[Row]:
    """The lines that are valid outcomes of tasks; where the harness failed there is nothing to judge."""
    return [row for row in rows if row.get("success") is not None and row.get("valid", 1)]


def by_key(rows: Iterable[T], key: Callable[[T], Hashable]) -> dict[Any, list[T]]:
    """Rows grouped by ``key`` in order of first appearance."""
    groups: dict[Any, list[T]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def phases(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by phase, in order of appearance."""
    return by_key(valid(rows), lambda row: str(row.get("phase", "stream")))


def passes(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """Rows of one phase by pass over the tasks, in order."""
    groups = by_key(valid(rows), lambda row: int(row.get("pass", 1)))
    return dict(sorted(groups.items()))


def blocks(rows: Sequence[Row], count: int = 6) -> list[tuple[str, list[Row]]]:
    """Rows in order, cut into ``count`` blocks of nearly equal size, named by the tasks they span."""
    edges = [round(len(rows) * i / count) for i in range(count + 1)]
    spans = [(a, b) for a, b in pairwise(edges) if b > a]
    return [(f"{a + 1}–{b}" if b > a + 1 else f"{b}", list(rows[a:b])) for a, b in spans]


def paired(a: Iterable[Row], b: Iterable[Row], *, cluster: str = "task") -> Paired | None:
    """The outcomes of the tasks that stand in both, matched by ``(run, task, pass)`` where those are given.

    Args:
        a: lines with ``task`` and ``success``.
        b: the lines to compare with.
        cluster: the field whose values are independent ("task", or "run" over several seeds): where several pairs
            share one, the interval is at least as wide as Student's t over the means of each.

    Returns:
        ``None`` where they share no task.
    """

    def key(row: Row) -> tuple[Hashable, ...]:
        return row.get("run"), row.get("task"), int(row.get("pass", 1))

    left, right = {key(row): row for row in valid(a)}, {key(row): row for row in valid(b)}
    common = [name for name in left if name in right]
    if not common:
        return None
    x = [int(left[name]["success"]) for name in common]
    y = [int(right[name]["success"]) for name in common]
    difference, lo, hi = paired_rates_interval(x, y)
    groups = by_key(zip(common, x, y, strict=True), lambda pair: left[pair[0]].get(cluster))
    if 1 < len(groups) < len(common):
        ends = student_interval([fmean(p - q for _, p, q in members) for members in groups.values()])
        lo, hi = max(-1.0, min(lo, ends[0])), min(1.0, max(hi, ends[1]))
    only_a = sum(p > q for p, q in zip(x, y, strict=True))
    only_b = sum(p < q for p, q in zip(x, y, strict=True))
    return Paired(len(common), only_a, only_b, difference, lo, hi, mcnemar(x, y))
