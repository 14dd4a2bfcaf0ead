"""Values as sums over their events: the same few lines run when an outcome is settled and when values are rebuilt."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import NamedTuple

from evolvent.formulas.causal import ArmSums
from evolvent.memory import lift
from evolvent.memory.store import Connection, Store, marks


class Value(NamedTuple):
    """One row of the value table without its key; see the schema for the columns."""

    q: float
    carry: float = 1.0
    n: int = 0
    sum_r: float = 0.0
    sum_r2: float = 0.0
    w_shown: float = 0.0
    w2_shown: float = 0.0
    wr_shown: float = 0.0
    n_omitted: int = 0
    w_omitted: float = 0.0
    w2_omitted: float = 0.0
    wr_omitted: float = 0.0
    n_credit: int = 0

    @property
    def arms(self) -> tuple[ArmSums, ArmSums]:
        """Outcomes with it and without it, which marginal effects are estimated from."""
        return (
            ArmSums(self.wr_shown, self.w_shown, self.w2_shown),
            ArmSums(self.wr_omitted, self.w_omitted, self.w2_omitted),
        )


COLUMNS = (
    "q, carry, n, sum_r, sum_r2, w_shown, w2_shown, wr_shown, n_omitted, w_omitted, w2_omitted, sum_r_omitted, n_credit"
)
# the same columns of a LEFT JOIN v, where a memory without a row is at its start
JOINED = "coalesce(v.q, m.q_init), coalesce(v.carry, 1.0), " + ", ".join(
    f"coalesce(v.{name}, 0)" for name in COLUMNS.split(", ")[2:]
)


class Event(NamedTuple):
    """One row of value_event without its sequence number, outcome and time."""

    memory: int
    objective: str
    stage: str
    rule: str
    alpha: float
    weight: float
    ipw: float
    decay: float
    depth: int
    reward: float
    target: float
    q_before: float
    q_after: float


def apply(v: Value, e: Event) -> Value:
    """The value after an event. Pure; ``rebuild`` and ``settle`` share it, so both give the same bits."""
    if e.rule == "ancestor":
        return v._replace(q=e.q_after, carry=v.carry * (1.0 - e.alpha), n_credit=v.n_credit + 1)
    d, w = e.decay, e.ipw
    d2 = d * d
    if e.rule == "omitted":
        return v._replace(
            w_shown=d * v.w_shown, w2_shown=d2 * v.w2_shown, wr_shown=d * v.wr_shown, n_omitted=v.n_omitted + 1,
            w_omitted=d * v.w_omitted + w, w2_omitted=d2 * v.w2_omitted + w * w,
            wr_omitted=d * v.wr_omitted + w * e.reward,
        )  # fmt: skip
    return v._replace(
        q=e.q_after, carry=v.carry * (1.0 - e.alpha), n=v.n + 1, sum_r=v.sum_r + e.reward,
        sum_r2=v.sum_r2 + e.reward**2,
        w_shown=d * v.w_shown + w, w2_shown=d2 * v.w2_shown + w * w, wr_shown=d * v.wr_shown + w * e.reward,
        w_omitted=d * v.w_omitted, w2_omitted=d2 * v.w2_omitted, wr_omitted=d * v.wr_omitted,
    )  # fmt: skip


def source_change(before: Value, after: Value, q_init: float) -> tuple[int, float]:
    """What an event adds to its source: number of tried memories, and the sum of their realised values."""
    had = lift.realised(before.q, before.carry, q_init) if before.n and before.carry < 1.0 else None
    has = lift.realised(after.q, after.carry, q_init) if after.n and after.carry < 1.0 else None
    return (has is not None) - (had is not None), (has or 0.0) - (had or 0.0)


def uncertainty(v: Value, reward_range: tuple[float, float]) -> float:
    """Standard error of a value: that of the mean outcome with one pseudo-outcome at each end of the range."""
    lo, hi = reward_range
    n = v.n + 2
    mean = (v.sum_r + lo + hi) / n
    spread = max(0.0, (v.sum_r2 + lo * lo + hi * hi) / n - mean * mean)
    return math.sqrt(spread / n)


class Loaded(NamedTuple):
    """A memory's value with what it started from: ``q_given`` when the caller chose that start."""

    value: Value
    q_init: float
    q_given: bool
    source: str


def load(store: Store, seqs: Iterable[int], objective: str, stage: str) -> dict[int, Loaded]:
    """Values by memory; memories without events are at their start."""
    ids = list(seqs)
    rows = store.rows(
        f"SELECT m.seq, m.q_init, m.q_given, m.source, {JOINED} FROM memory m LEFT JOIN value v "
        f"ON v.memory_id = m.seq AND v.objective = ? AND v.stage = ? WHERE m.seq IN ({marks(len(ids))})",
        (objective, stage, *ids),
    )
    return {row[0]: Loaded(Value(*row[4:]), row[1], bool(row[2]), row[3]) for row in rows}


def record(
    db: Connection,
    scope_id: int,
    outcome_id: int,
    recall_seq: int,
    events: Iterable[Event],
    values: dict[int, Loaded],
) -> None:
    """Append events and bring ``value`` and ``source_value`` up to date, inside the transaction at hand."""
    now = time.time()
    for e in events:
        seq = db.execute(
            f"INSERT INTO value_event(memory_id, {', '.join(Event._fields[1:])}, outcome_id, "
            "recall_id, "
            f"created_at) VALUES({marks(16)}) RETURNING seq",
            (*e, outcome_id, recall_seq, now),
        ).fetchone()[0]
        old = values[e.memory]
        after = apply(old.value, e)
        values[e.memory] = old._replace(value=after)
        _put(db, scope_id, e, seq, after, old.source, source_change(old.value, after, old.q_init))


def _put(db: Connection, scope_id: int, e: Event, seq: int, v: Value, source: str, change: tuple[int, float]) -> None:
    db.execute(
        f"INSERT INTO value(memory_id, objective, stage, {COLUMNS}, updated_seq) VALUES({marks(17)}) "
        "ON CONFLICT(memory_id, objective, stage) DO UPDATE SET "
        + ", ".join(f"{c}=excluded.{c}" for c in [*COLUMNS.split(", "), "updated_seq"]),
        (e.memory, e.objective, e.stage, *v, seq),
    )
    if change != (0, 0.0):
        db.execute(
            "INSERT INTO source_value VALUES(?,?,?,?,?,?) "
            "ON CONFLICT(scope_id, source, objective, stage) DO UPDATE SET n = source_value.n + excluded.n, "
            "sum_r = source_value.sum_r + excluded.sum_r",
            (scope_id, source, e.objective, e.stage, *change),
        )


def replay(store: Store, scope_id: int) -> tuple[dict[tuple, tuple], dict[tuple, tuple]]:
    """What ``value`` and ``source_value`` of a scope must hold, from the events alone. Reads only.

    Returns:
        ``({(memory, objective, stage): (*Value, updated_seq)}, {(scope, source, objective, stage): (n, sum_r)})``.
    """
    values: dict[tuple, tuple] = {}
    sources: dict[tuple, tuple] = {}
    for piece in store.chunks(
        "SELECT e.seq, m.q_init, m.source, e.memory_id, e.objective, e.stage, e.rule, e.alpha, e.weight, e.ipw, "
        "e.decay, e.depth, e.reward, e.target, e.q_before, e.q_after FROM value_event e "
        "JOIN memory m ON m.seq = e.memory_id WHERE m.scope_id = ? ORDER BY e.seq",
        (scope_id,),
    ):
        for seq, q_init, source, *columns in piece:
            e = Event(*columns)
            key = (e.memory, e.objective, e.stage)
            old = Value(*values[key][:-1]) if key in values else Value(q_init)
            new = apply(old, e)
            values[key] = (*new, seq)
            n, total = source_change(old, new, q_init)
            if (n, total) != (0, 0.0):
                had = sources.get((scope_id, source, e.objective, e.stage), (0.0, 0.0))
                sources[scope_id, source, e.objective, e.stage] = (had[0] + n, had[1] + total)
    return values, sources


def differing(store: Store, scope_id: int) -> set[tuple]:
    """Rows of ``value`` and ``source_value`` that should be and are not, or are and should not be. Reads only."""
    values, sources = replay(store, scope_id)
    expected = {(*key, *row) for key, row in values.items()} | {(*key, *row) for key, row in sources.items()}
    return expected ^ _snapshot(store, scope_id)


def rebuild(store: Store, scope_id: int) -> int:
    """Recompute every value of a scope from its events; returns how many rows were wrong."""
    with store.write() as db:
        wrong = differing(store, scope_id)
        if wrong:
            values, sources = replay(store, scope_id)
            db.execute("DELETE FROM value WHERE memory_id IN (SELECT seq FROM memory WHERE scope_id = ?)", (scope_id,))
            db.execute("DELETE FROM source_value WHERE scope_id = ?", (scope_id,))
            db.executemany(
                f"INSERT INTO value(memory_id, objective, stage, {COLUMNS}, updated_seq) VALUES({marks(17)})",
                [(*key, *row) for key, row in values.items()],
            )
            db.executemany(
                "INSERT INTO source_value(scope_id, source, objective, stage, n, sum_r) VALUES(?,?,?,?,?,?)",
                [(*key, *row) for key, row in sources.items()],
            )
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


def as_of(store: Store, scope_id: int, store_seq: int, event_seq: int, objective: str, stage: str) -> dict[int, float]:
    """Values as a recall saw them: last event up to ``event_seq``, else the start; memories up to ``store_seq``."""
    rows = store.rows(
        "SELECT m.seq, coalesce((SELECT q_after FROM value_event e WHERE e.memory_id = m.seq AND e.objective = ? "
        "AND e.stage = ? AND e.seq <= ? AND e.rule <> 'omitted' ORDER BY e.seq DESC LIMIT 1), m.q_init) "
        "FROM memory m WHERE m.scope_id = ? AND m.seq <= ? ORDER BY m.seq",
        (objective, stage, event_seq, scope_id, store_seq),
    )
    return dict(rows)
