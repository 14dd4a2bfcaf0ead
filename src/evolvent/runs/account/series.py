"""Success rates with intervals from the lines of ``metrics.jsonl``, by phase, by pass, by block of tasks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from evolvent.formulas.statistics import wilson

Row = dict[str, Any]
T = TypeVar("T")


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
