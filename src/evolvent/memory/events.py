"""Values as sums over their events: the same few lines run when an outcome is settled and when values are rebuilt."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import NamedTuple

from evolvent.formulas.causal import ArmSums, as_weighed
from evolvent.formulas.values import ema
from evolvent.memory import lift
from evolvent.memory.external import NAME
from evolvent.memory.store.engine import Connection, among, marks, newest


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
        shown = ArmSums(self.wr_shown, self.w_shown, self.w2_shown)
        return as_weighed(shown, ArmSums(self.wr_omitted, self.w_omitted, self.w2_omitted))

    def share(self, of: float, q_init: float) -> Value:
        """The value as if each outcome had counted that share of one, 0..1."""
        sums = (of * x for x in self[2:-1])  # counts become sums of shares
        rest = 1.0 - of
        return Value._make((of * self.q + rest * q_init, of * self.carry + rest, *sums, self.n_credit))


# the memory in whose name a value is kept: the first version of what was updated since, or the row of table m itself
OF_VALUE = "coalesce((SELECT u.parent FROM provenance u WHERE u.child = m.seq AND u.relation = 'updated'), m.seq)"
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


# the newest number that was given to a value event; those of erased memories stay taken
NEWEST = newest("value_event", stored_as="event_seq")
# a value event that counts, of ``value_event e JOIN memory m``: not in a range that was voided
COUNTS = (
    "NOT EXISTS (SELECT 1 FROM void x WHERE x.scope_id = m.scope_id AND x.undone_at IS NULL "
    "AND e.seq > x.event_from AND e.seq <= x.event_to)"
)


def apply(v: Value, e: Event, bounds: tuple[float, float] = (-math.inf, math.inf)) -> Value:
    """The value after an event. Pure; ``rebuild`` and ``settle`` share it, so both give the same bits.

    An event that was computed from another value than the one at hand (an outcome before it was voided, or revised)
    takes its step from there, so that the value is what it would have been. One that is no step of ``alpha`` towards
    its target (MemQ's ancestors) adds its difference, within ``bounds`` or as far outside as the values it joins were.
    """
    q_after = _stepped(v.q, e, bounds)
    if e.rule == "ancestor":
        return v._replace(q=q_after, carry=v.carry * (1.0 - e.alpha), n_credit=v.n_credit + 1)
    # what ``push_weighted`` does to either arm, written out: every settle comes here
    left_out = e.rule == "omitted" and e.weight > 0.0  # without weight: handed out and dropped
    a, b = (0.0, e.ipw) if left_out else (e.ipw, 0.0)
    d, r, d2 = e.decay, e.reward, e.decay * e.decay
    arms = (
        d * v.w_shown + a,
        d2 * v.w2_shown + a * a,
        d * v.wr_shown + a * r,
        v.n_omitted + left_out,
        d * v.w_omitted + b,
        d2 * v.w2_omitted + b * b,
        d * v.wr_omitted + b * r,
        v.n_credit,
    )
    if e.rule == "omitted":
        return Value(*v[:5], *arms)
    return Value(q_after, v.carry * (1.0 - e.alpha), v.n + 1, v.sum_r + r, v.sum_r2 + r**2, *arms)


def stepped(v: Value, e: Event, bounds: tuple[float, float] = (-math.inf, math.inf)) -> Value:
    """As ``apply`` of an event that is no omission, without the sums: what a source's realised value is made of."""
    return Value(_stepped(v.q, e, bounds), v.carry * (1.0 - e.alpha), v.n + (e.rule != "ancestor"))


def _stepped(q: float, e: Event, bounds: tuple[float, float]) -> float:
    if e.q_before == q:
        return e.q_after
    if ema(e.q_before, e.target, e.alpha) == e.q_after:
        return ema(q, e.target, e.alpha)
    joined = (q, e.q_before, e.q_after)
    return min(max(q + (e.q_after - e.q_before), min(bounds[0], *joined)), max(bounds[1], *joined))


def weighed(e: Event, weight: float) -> Event:
    """The event of an outcome that counts ``weight`` as much as others: so much of the step, and of the evidence."""
    if weight == 1.0:
        return e
    step = ema(e.q_before, e.target, e.alpha) == e.q_after
    q_after = ema(e.q_before, e.target, weight * e.alpha) if step else ema(e.q_before, e.q_after, weight)
    return e._replace(alpha=weight * e.alpha, weight=weight * e.weight, ipw=weight * e.ipw, q_after=q_after)


def source_change(before: Value, after: Value, q_init: float) -> tuple[int, float]:
    """What an event adds to its source: number of tried memories, and the sum of their realised values."""
    had = lift.realised(before.q, before.carry, q_init) if before.n and before.carry < 1.0 else None
    has = lift.realised(after.q, after.carry, q_init) if after.n and after.carry < 1.0 else None
    return (has is not None) - (had is not None), (has or 0.0) - (had or 0.0)


def uncertainty(v: Value, reward_range: tuple[float, float], step: float = 0.0) -> float:
    """Standard error of a value: the spread of its outcomes, over the root of how many it rests on.

    A running mean with steps of ``step`` or more rests on the newest ``(2 - step) / step`` outcomes, however many there
    were; 0: a plain mean. One pseudo-outcome at each end of the range keeps the spread above zero.
    """
    lo, hi = reward_range
    n = v.n + 2
    mean = (v.sum_r + lo + hi) / n
    spread = max(0.0, (v.sum_r2 + lo * lo + hi * hi) / n - mean * mean)
    return math.sqrt(spread / (min(n, (2.0 - step) / step) if step > 0.0 else n))


class Loaded(NamedTuple):
    """A memory's value with what it started from: ``q_given`` when the caller chose that start.

    ``key`` is the hash of its key: equal for memories under one key.
    """

    value: Value
    q_init: float
    q_given: bool
    source: str
    key: str
    name: str | None = None  # the caller's id, of what is kept elsewhere


_ASK = (
    f"SELECT m.seq, m.q_init, m.q_given, m.source, m.key_hash, {NAME}, {JOINED} FROM memory m LEFT JOIN value v "
    f"ON v.memory_id = {OF_VALUE} AND v.objective = ? AND v.stage = ? WHERE m.seq IN ({{}})"
)


def ask(db: Connection, seqs: Iterable[int], objective: str, stage: str) -> Iterable[tuple]:
    """Ask for values, for ``loaded`` to read."""
    return among(db, _ASK, seqs, objective, stage)


def loaded(rows: Iterable[tuple]) -> dict[int, Loaded]:
    """Values by memory; memories without events are at their start."""
    return {row[0]: Loaded(Value(*row[6:]), row[1], bool(row[2]), row[3], row[4], row[5]) for row in rows}


_EVENT = (
    f"INSERT INTO value_event(seq, memory_id, {', '.join(Event._fields[1:])}, outcome_id, recall_id, created_at) "
    f"VALUES({marks(17)})"
)
_VALUE = (
    f"INSERT INTO value(memory_id, objective, stage, {COLUMNS}, updated_seq) VALUES({marks(17)}) "
    "ON CONFLICT(memory_id, objective, stage) DO UPDATE SET "
    + ", ".join(f"{c}=excluded.{c}" for c in [*COLUMNS.split(", "), "updated_seq"])
)
_SOURCE = (
    "INSERT INTO source_value VALUES(?,?,?,?,?,?) "
    "ON CONFLICT(scope_id, source, objective, stage) DO UPDATE SET n = source_value.n + excluded.n, "
    "sum_r = source_value.sum_r + excluded.sum_r"
)


class Entries:
    """Events of the transaction at hand: entered one after the other, written together.

    Args:
        scope_id: the scope.
        newest: the newest value event there is.
    """

    def __init__(self, scope_id: int, newest: int) -> None:
        self._scope_id, self._newest, self._now = scope_id, newest, time.time()
        self._events: list[tuple] = []
        self._values: dict[tuple[int, str, str], tuple] = {}
        self._sources: list[tuple] = []

    def add(self, outcome_id: int, recall_seq: int, events: Iterable[Event], values: dict[int, Loaded]) -> None:
        """Enter events of one outcome and bring ``values`` up to date."""
        for e in events:
            self._newest += 1
            self._events.append((self._newest, *e, outcome_id, recall_seq, self._now))
            old = values[e.memory]
            after = apply(old.value, e)
            values[e.memory] = Loaded(after, *old[1:])  # ``_replace`` takes three times as long
            self._values[e.memory, e.objective, e.stage] = (*after, self._newest)
            change = source_change(old.value, after, old.q_init)
            if change != (0, 0.0):
                self._sources.append((self._scope_id, old.source, e.objective, e.stage, *change))

    def append(self, db: Connection) -> None:
        """Append the events alone, where values are rebuilt afterwards."""
        db.executemany(_EVENT, self._events)

    def write(self, db: Connection) -> None:
        """Append the events and bring ``value`` and ``source_value`` up to date."""
        self.append(db)
        db.executemany(_VALUE, [(*key, *row) for key, row in self._values.items()])
        if self._sources:
            # one by one: the order of a sum decides its last bits, and a replay adds in this one
            db.executemany(_SOURCE, self._sources)
