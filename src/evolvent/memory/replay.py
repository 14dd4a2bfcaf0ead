"""Values recomputed from their events: what they must be, were at any moment, and would be without some of them."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from evolvent.memory.events import COLUMNS, OF_VALUE, Event, Value, apply, source_change, stepped
from evolvent.memory.keys import OWN
from evolvent.memory.store.engine import Store, marks


def voids_at(store: Store, scope_id: int, audit_seq: int) -> set[int]:
    """Voids that held when ``audit_seq`` was the newest line of the log: what its acts switched on, and not off.

    Version 0.1.0 had ``undo`` beside rollback; what it switched holds. A revised outcome voids what it had given.
    """
    held: set[int] = set()
    for (detail,) in store.rows(
        "SELECT detail FROM audit WHERE scope_id = ? AND seq <= ? AND verb IN ('rollback', 'revise', 'undo') "
        "ORDER BY seq",
        (scope_id, audit_seq),
    ):
        details = json.loads(detail)
        held |= set(details.get("on", ()))
        held -= set(details.get("off", ()))
    return held


def skipped(
    store: Store, scope_id: int, voids: set[int] | None = None, of: Literal["event", "outcome"] = "event"
) -> list[tuple[int, int]]:
    """Ranges ``(from, to]`` of events that do not count, merged, in order; ``None``: those that hold now.

    ``of`` outcomes: by their own numbers, as what has no value event is told apart.
    """
    rows = store.rows(
        f"SELECT seq, {of}_from, {of}_to, undone_at IS NULL FROM void WHERE scope_id = ? ORDER BY {of}_from",
        (scope_id,),
    )
    merged: list[tuple[int, int]] = []
    for seq, start, end, live in rows:
        if live if voids is None else seq in voids:
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
    return merged


def holds(ranges: Sequence[tuple[int, int]], seq: int) -> bool:
    """Whether one of these ranges, in order, has the event."""
    at = bisect_left(ranges, (seq,)) - 1
    return at >= 0 and seq <= ranges[at][1]


def less(ranges: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is in ``ranges`` and not in ``others``; both in order, and without overlaps."""
    left: list[tuple[int, int]] = []
    first = 0
    for start, end in ranges:
        while first < len(others) and others[first][1] <= start:
            first += 1
        place = first
        while place < len(others) and others[place][0] < end:
            if others[place][0] > start:
                left.append((start, others[place][0]))
            start, place = others[place][1], place + 1
        if start < end:
            left.append((start, end))
    return left


def within(store: Store, scope_id: int, ranges: Iterable[tuple[int, int]]) -> int:
    """How many events of a scope are in these ranges."""
    sql = (
        "SELECT count(*) FROM value_event e JOIN memory m ON m.seq = e.memory_id "
        "WHERE m.scope_id = ? AND e.seq > ? AND e.seq <= ?"
    )
    return sum(store.rows(sql, (scope_id, *each))[0][0] for each in ranges)


def _bounds(store: Store, scope_id: int) -> tuple[float, float]:
    row = store.row("SELECT name FROM scope WHERE scope_id = ?", (scope_id,))
    lo, hi = store.meta_get(f"reward_range:{row[0]}") or (-math.inf, math.inf) if row else (-math.inf, math.inf)
    return lo, hi


# (memory, objective, stage): (*Value, the last event)
Values = Mapping[tuple, tuple]
NO_EVENT = 1 << 62
_ASKED = "e.seq, m.q_init, m.source, " + ", ".join(f"e.{name}" for name in ("memory_id", *Event._fields[1:]))
_PIECE = 500  # memories that are asked for at once


def value_in(values: Values, key: tuple, q_init: float) -> Value:
    """A value that ``replay`` gave; without events the memory's start."""
    return Value(*values[key][:-1]) if key in values else Value(q_init)


def _in_order(store: Store, scope_id: int, last: int, only: str, args: Sequence[Any]) -> Iterator[tuple[int, tuple]]:
    """``(place, event)`` of a scope, ``only`` those of a condition.

    By number, but what a revised outcome gives takes the place of what it gave.
    """
    sql = (
        f"SELECT coalesce(o.place, e.seq) AS place, {_ASKED} FROM value_event e JOIN memory m ON m.seq = e.memory_id "
        f"JOIN outcome o ON o.outcome_id = e.outcome_id WHERE m.scope_id = ? AND e.seq <= ? {only} "
        "ORDER BY place, e.seq"
    )
    for piece in store.chunks(sql, (scope_id, last, *args)):
        for place, *row in piece:
            yield place, tuple(row)


def replay(
    store: Store, scope_id: int, *, upto: int | None = None, voids: set[int] | None = None
) -> tuple[dict[tuple, tuple], dict[tuple, tuple]]:
    """What ``value`` and ``source_value`` of a scope must hold, from the events that count. Reads only.

    Args:
        store: the store.
        scope_id: the scope.
        upto: the last event that counts; default: the newest.
        voids: ranges that are left out; default: those that hold now.

    Returns:
        ``({(memory, objective, stage): (*Value, updated_seq)}, {(scope, source, objective, stage): (n, sum_r)})``.
    """
    values: dict[tuple, tuple] = {}
    sources: dict[tuple, tuple] = {}
    last = NO_EVENT if upto is None else upto
    for _, seq, q_init, source, e, old, new in _applied(store, scope_id, values, last=last, voids=voids):
        values[e.memory, e.objective, e.stage] = (*new, seq)
        n, total = source_change(old, new, q_init)
        if (n, total) != (0, 0.0):
            had = sources.get((scope_id, source, e.objective, e.stage), (0.0, 0.0))
            sources[scope_id, source, e.objective, e.stage] = (had[0] + n, had[1] + total)
    return values, sources


def moves(store: Store, scope_id: int, memory: int) -> dict[int, tuple[float, float]]:
    """By event of one memory that counts: the value before and after it, as the events that count now make it.

    They are what was written with the event, unless outcomes before it were revised or rolled back since. Reads only.
    """
    values: dict[tuple, tuple] = {}
    made: dict[int, tuple[float, float]] = {}
    for _, seq, _, _, e, old, new in _applied(store, scope_id, values, "AND e.memory_id = ?", (memory,)):
        values[e.memory, e.objective, e.stage] = (*new, seq)
        made[seq] = (old.q, new.q)
    return made


def values_of(store: Store, scope_id: int, memories: Iterable[int], before: int = NO_EVENT) -> dict[tuple, tuple]:
    """What ``value`` must hold of some memories, from their events alone. Reads only.

    Args:
        store: the store.
        scope_id: the scope.
        memories: their rows; what others earned makes no difference to them.
        before: only events whose place is before this one.
    """
    values: dict[tuple, tuple] = {}
    every = sorted(memories)
    for start in range(0, len(every), _PIECE):
        piece = every[start : start + _PIECE]
        only = f"AND e.memory_id IN ({marks(len(piece))})"
        for place, seq, _, _, e, _, new in _applied(store, scope_id, values, only, piece):
            if place >= before:
                break
            values[e.memory, e.objective, e.stage] = (*new, seq)
    return values


def _source_of(store: Store, scope_id: int, source: str, objective: str, stage: str) -> tuple[float, float] | None:
    """What ``source_value`` must hold of a source: a sum in the order of all its events, whose order its bits keep."""
    values: dict[tuple, tuple] = {}
    sums: tuple[float, float] | None = None
    only, args = (
        "AND m.source = ? AND e.objective = ? AND e.stage = ? AND e.rule <> 'omitted'",
        (
            source,
            objective,
            stage,
        ),
    )
    for _, seq, q_init, _, e, old, new in _applied(store, scope_id, values, only, args, how=stepped):
        values[e.memory, e.objective, e.stage] = (*new, seq)
        n, total = source_change(old, new, q_init)
        if (n, total) != (0, 0.0):
            sums = (n, total) if sums is None else (sums[0] + n, sums[1] + total)
    return sums


def _applied(
    store: Store,
    scope_id: int,
    values: Values,
    only: str = "",
    args: Sequence[Any] = (),
    *,
    last: int = NO_EVENT,
    voids: set[int] | None = None,
    how: Callable[[Value, Event, tuple[float, float]], Value] = apply,
) -> Iterator[tuple[int, int, float, str, Event, Value, Value]]:
    """``(place, number, start, source, event, value before, value after)`` of what counts; the caller keeps values."""
    out, bounds = skipped(store, scope_id, voids), _bounds(store, scope_id)
    for place, (seq, q_init, source, *columns) in _in_order(store, scope_id, last, only, args):
        if holds(out, seq):
            continue
        e = Event(*columns)
        old = value_in(values, (e.memory, e.objective, e.stage), q_init)
        yield place, seq, q_init, source, e, old, how(old, e, bounds)


def differing(store: Store, scope_id: int) -> set[tuple]:
    """Rows of ``value`` and ``source_value`` that should be and are not, or are and should not be. Reads only."""
    return _differing(store, scope_id, *replay(store, scope_id))


def _differing(store: Store, scope_id: int, values: dict[tuple, tuple], sources: dict[tuple, tuple]) -> set[tuple]:
    expected = {(*key, *row) for key, row in values.items()} | {(*key, *row) for key, row in sources.items()}
    return expected ^ _snapshot(store, scope_id)


_INSERT = f"INSERT INTO value(memory_id, objective, stage, {COLUMNS}, updated_seq) VALUES({marks(17)})"
_INSERT_SOURCE = "INSERT INTO source_value(scope_id, source, objective, stage, n, sum_r) VALUES(?,?,?,?,?,?)"


def rebuild(store: Store, scope_id: int) -> int:
    """Recompute every value of a scope from its events; returns how many rows were wrong."""
    with store.write() as db:
        values, sources = replay(store, scope_id)
        wrong = _differing(store, scope_id, values, sources)
        if wrong:
            db.execute("DELETE FROM value WHERE memory_id IN (SELECT seq FROM memory WHERE scope_id = ?)", (scope_id,))
            db.execute("DELETE FROM source_value WHERE scope_id = ?", (scope_id,))
            db.executemany(_INSERT, [(*key, *row) for key, row in values.items()])
            db.executemany(_INSERT_SOURCE, [(*key, *row) for key, row in sources.items()])
    return len(wrong)


def _snapshot(store: Store, scope_id: int) -> set[tuple]:
    values = store.rows(
        f"SELECT v.memory_id, v.objective, v.stage, {', '.join('v.' + c for c in COLUMNS.split(', '))}, v.updated_seq "
        "FROM value v JOIN memory m ON m.seq = v.memory_id WHERE m.scope_id = ?",
        (scope_id,),
    )
    return set(values) | set(
        store.rows(
            "SELECT scope_id, source, objective, stage, n, sum_r FROM source_value WHERE scope_id = ?", (scope_id,)
        )
    )


def rebuilt(store: Store, scope_id: int) -> dict[tuple[int, str, str], tuple[float, float]]:
    """``rebuild``, and what it changed: ``{(memory, objective, stage): (q before, q after)}``."""
    sql = (
        "SELECT v.memory_id, v.objective, v.stage, v.q, m.q_init FROM value v JOIN memory m ON m.seq = v.memory_id "
        "WHERE m.scope_id = ?"
    )
    with store.write():
        before = {row[:3]: row[3:] for row in store.rows(sql, (scope_id,))}
        rebuild(store, scope_id)
        after = {row[:3]: row[3:] for row in store.rows(sql, (scope_id,))}
    changed: dict[tuple[int, str, str], tuple[float, float]] = {}
    for key in before.keys() | after.keys():
        start = (before.get(key) or after[key])[1]  # a value without events is at its start
        was, now = before.get(key, (start,))[0], after.get(key, (start,))[0]
        if was != now:
            changed[key] = (was, now)
    return changed


def mended(store: Store, scope_id: int, memories: Iterable[int]) -> dict[tuple[int, str, str], tuple[float, float]]:
    """``rebuilt`` after a change of events of these memories alone: costs what their events cost.

    A source's sum is one of floats in the order of its events: where a value of it changed, that sum goes through them.
    """
    named = sorted(memories)
    with store.write() as db:
        values = values_of(store, scope_id, named)
        sql = f"SELECT memory_id, objective, stage, {COLUMNS}, updated_seq FROM value WHERE memory_id IN ({{}})"
        had = {row[:3]: row[3:] for row in store.rows_among(sql, named)}
        about = {
            seq: facts
            for seq, *facts in store.rows_among("SELECT seq, q_init, source FROM memory WHERE seq IN ({})", named)
        }
        differ = sorted(key for key in had.keys() | values.keys() if had.get(key) != values.get(key))
        db.executemany("DELETE FROM value WHERE memory_id = ? AND objective = ? AND stage = ?", differ)
        db.executemany(_INSERT, [(*key, *values[key]) for key in differ if key in values])
        summed(store, scope_id, sorted({(about[seq][1], *at) for seq, *at in differ}))
    moved = {key: tuple(row.get(key, about[key[0]])[0] for row in (had, values)) for key in differ}
    return {key: (was, now) for key, (was, now) in moved.items() if was != now}


def summed(store: Store, scope_id: int, sources: Iterable[tuple[str, str, str]]) -> None:
    """Add up anew what some sources earned, ``(source, objective, stage)``, from all their events."""
    with store.write() as db:
        for at in sources:
            db.execute(
                "DELETE FROM source_value WHERE scope_id = ? AND source = ? AND objective = ? AND stage = ?",
                (scope_id, *at),
            )
            if (sums := _source_of(store, scope_id, *at)) is not None:
                db.execute(_INSERT_SOURCE, (scope_id, *at, *sums))


class Point(NamedTuple):
    """The newest memory, value event, line of the log and outcome that a moment could see; ``label``: which moment."""

    label: str
    memory: int
    event: int
    audit: int
    outcome: int


def as_of(store: Store, scope_id: int, seen: Point, objective: str, stage: str) -> dict[int, float]:
    """Values as a moment saw them, of the memories it could see; those without an event by then are at their start."""
    values, _ = replay(store, scope_id, upto=seen.event, voids=voids_at(store, scope_id, seen.audit))
    rows = store.rows(
        f"SELECT m.seq, m.q_init, {OF_VALUE} FROM memory m WHERE scope_id = ? AND seq <= ? AND {OWN} ORDER BY seq",
        (scope_id, seen.memory),
    )
    return {seq: values.get((root, objective, stage), (start,))[0] for seq, start, root in rows}
