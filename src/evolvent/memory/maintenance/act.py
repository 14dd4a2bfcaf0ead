"""One act of mending: a transaction that changes statuses, voids or rows, and its lines in the log.

The log gets one line for each memory whose status changed, and one for the act itself, which names those lines and the
ranges of value events that stopped or began to count: what a rollback to an earlier or a later moment reads. Voided
events stay in the store and in the history of their memories.

A dry run does the same in a transaction that is undone at its end, so what it tells is exactly what would happen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from evolvent.memory import external, replay
from evolvent.memory.bank import Bank
from evolvent.memory.items import memory_id
from evolvent.memory.replay import Point
from evolvent.memory.store.engine import audit
from evolvent.memory.text import clean_text, flag

# the line of the log that says what a memory became; the index follows the log by these words
VERBS = {
    "active": "restore",
    "external": "restore",
    "archived": "archive",
    "quarantined": "quarantine",
    "superseded": "supersede",
}


class StatusChange(NamedTuple):
    """One memory whose status changed: ``"active"`` → ``"quarantined"``."""

    id: str
    was: str
    now: str


class ValueMove(NamedTuple):
    """One value that changed without an outcome: by voiding events, or by counting them again."""

    id: str
    objective: str
    stage: str
    was: float
    now: float


@dataclass(frozen=True)
class Mended:
    """What one act changed; of a dry run: what it would change.

    Attributes:
        verb: archive, quarantine, restore, rollback, revise, erase or compact.
        act: its line in the log ("a17"); ``None`` of a dry run, or when nothing was to do.
        target: what it was asked to do it to.
        statuses: memories whose status changed, oldest first.
        values: values that changed, by memory.
        events: value events that stopped to count; negative: that count again.
        removed: rows taken out of the store (compact, erase), by table.
        kept: memories that a rollback left in quarantine, although they were in use at that moment.
        emptied: texts that were taken out of rows which stay: queries, actions, reasons of the log, and where they
            were named, jobs (idempotency keys) and kept values.
    """

    verb: str
    act: str | None
    target: str
    statuses: tuple[StatusChange, ...] = ()
    values: tuple[ValueMove, ...] = ()
    events: int = 0
    removed: dict[str, int] = field(default_factory=dict[str, int])
    kept: tuple[str, ...] = ()
    emptied: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def nothing(self) -> bool:
        """Whether there was nothing to change."""
        counts = (*self.removed.values(), *self.emptied.values())
        return not (self.statuses or self.values or self.events or any(counts))


class Act:
    """One act under way: changes the store, and remembers what it changed."""

    def __init__(self, bank: Bank, reason: str) -> None:
        self.bank, self.reason = bank, reason
        self.statuses: list[tuple[int, str, str]] = []
        self.lines: list[int] = []  # of the log
        self.on: list[int] = []  # voids that now hold
        self.off: list[int] = []  # voids that hold no longer
        self.quarantined: list[int] = []
        self.removed: dict[str, int] = {}
        self.emptied: dict[str, int] = {}
        self.extra: dict[str, Any] = {}
        self.touched: set[int] | None = None  # memories whose events stopped or began to count; None: any
        self._out: list[tuple[int, int]] | None = None  # events that did not count when this began

    def rows(self, sql: str, *args: Any) -> list[tuple]:
        """Rows of a query whose first mark is the scope."""
        return self.bank.store.rows(sql, (self.bank.scope_id, *args))

    def count(self, what: str, n: int) -> None:
        """Texts that were emptied."""
        if n or what in ("queries", "actions", "reasons"):
            self.emptied[what] = self.emptied.get(what, 0) + n

    def status(self, seq: int) -> str:
        """What a memory is at this moment."""
        row = self.bank.store.row("SELECT status FROM memory WHERE seq = ?", (seq,))
        return "" if row is None else row[0]

    def set_status(self, seqs: Iterable[int], now: str, by: int | None = None) -> None:
        """Change the status of memories, ``by`` naming the successor of superseded ones; one line of the log each."""
        bank, store = self.bank, self.bank.store
        with store.write() as db:
            for seq in seqs:
                row = store.row("SELECT status, superseded_by FROM memory WHERE seq = ?", (seq,))
                assert row is not None
                was, successor = row
                if was == "erased":
                    continue  # nothing brings that back
                # only what is replaced names its successor; an archived one keeps the name for its history
                by_seq = None if now == "active" else by if by is not None else successor
                db.execute("UPDATE memory SET status = ?, superseded_by = ? WHERE seq = ?", (now, by_seq, seq))
                detail: dict[str, Any] = {"was": was, "reason": self.reason}
                if successor is not None:
                    detail["was_by"] = memory_id(successor)
                if now == "superseded" and by_seq is not None:
                    detail["by"] = memory_id(by_seq)
                self.lines.append(audit(db, bank.scope_id, VERBS.get(now, "archive"), memory_id(seq), detail))
                self.statuses.append((seq, was, now))

    def void_after(self, point: Point) -> None:
        """Let the events and outcomes count that a moment saw, and no later ones."""
        scope = self.bank.scope_id
        then = replay.voids_at(self.bank.store, scope, point.audit)
        ranges = self.rows(
            "SELECT seq, event_from, outcome_from, outcome_to, undone_at IS NULL FROM void WHERE scope_id = ?"
        )
        early = [
            (seq, bool(live))
            for seq, start, told_from, told_to, live in ranges
            if start < point.event or told_from < min(told_to, point.outcome)
        ]
        self.switch_voids(
            on=[seq for seq, live in early if seq in then and not live],
            off=[seq for seq, live in early if seq not in then and live],
        )
        out = replay.skipped(self.bank.store, scope)
        later = self.rows(
            "SELECT e.seq FROM value_event e JOIN memory m ON m.seq = e.memory_id WHERE m.scope_id = ? AND e.seq > ? "
            "ORDER BY e.seq DESC",
            point.event,
        )
        last = next((seq for (seq,) in later if not replay.holds(out, seq)), None)
        gone = replay.skipped(self.bank.store, scope, of="outcome")
        told = self.rows(
            "SELECT o.outcome_id FROM outcome o JOIN exposure x ON x.recall_id = o.recall_id WHERE o.scope_id = ? "
            "AND o.outcome_id > ? ORDER BY o.outcome_id DESC",
            point.outcome,
        )
        last_told = next((number for (number,) in told if not replay.holds(gone, number)), None)
        if last is not None or last_told is not None:
            self.void(point.event, last or point.event, (point.outcome, last_told or point.outcome))

    def void(self, start: int, end: int, outcomes: tuple[int, int]) -> None:
        """Let the events of the scope that come after ``start``, up to ``end``, count no longer; and ``outcomes``."""
        self._look()
        with self.bank.store.write() as db:
            made = db.execute(
                "INSERT INTO void(scope_id, event_from, event_to, reason, created_at, outcome_from, outcome_to) "
                "VALUES(?,?,?,?,?,?,?) RETURNING seq",
                (self.bank.scope_id, start, end, self.reason, time.time(), *outcomes),
            ).fetchone()
        self.on.append(int(made[0]))

    def switch_voids(self, *, on: Sequence[int], off: Sequence[int]) -> None:
        """Let ranges of events stop to count, or count again."""
        self._look()
        with self.bank.store.write() as db:
            db.executemany("UPDATE void SET undone_at = NULL WHERE seq = ?", [(seq,) for seq in on])
            db.executemany("UPDATE void SET undone_at = ? WHERE seq = ?", [(time.time(), seq) for seq in off])
        self.on += on
        self.off += off

    def _look(self) -> None:
        """Before the first change: which events do not count, and none that comes later."""
        if self._out is None:
            row = self.bank.store.row("SELECT coalesce(max(seq), 0) FROM value_event")
            assert row is not None
            self._out = [*replay.skipped(self.bank.store, self.bank.scope_id), (row[0], replay.NO_EVENT)]

    def stopped(self) -> int:
        """How many events stopped to count so far, less those that count now and did not."""
        store, scope, was = self.bank.store, self.bank.scope_id, self._out or []
        out = replay.skipped(store, scope)
        return replay.within(store, scope, replay.less(out, was)) - replay.within(store, scope, replay.less(was, out))


class _Rehearsed(Exception):
    """Ends the transaction of a dry run."""


def perform(bank: Bank, verb: str, target: str, reason: str, change: Callable[[Act], None], dry_run: bool) -> Mended:
    """Run one act: its changes, the values that follow from them, and its line in the log, all or none."""
    reason = clean_text(reason, what="the reason", where=verb, limit=10_000, mask=bank.mask)
    dry_run = flag(dry_run, what="dry_run", where=verb)
    store, act = bank.store, Act(bank, reason)
    done: Mended | None = None
    try:
        with store.session(), store.transaction():
            bank.index.catch_up()
            change(act)
            values, voided = [], 0
            if act.on or act.off or act.touched:
                some = act.touched
                moved = (
                    replay.rebuilt(store, bank.scope_id) if some is None else replay.mended(store, bank.scope_id, some)
                )
                values = [
                    ValueMove(memory_id(seq), objective, stage, *q)
                    for (seq, objective, stage), q in sorted(moved.items())
                ]
                voided = act.stopped() if act.on or act.off else 0
            # of what was erased no name is left
            name = external.names(store, [seq for seq, *_ in act.statuses] + act.quarantined).get
            done = Mended(
                verb,
                None,
                target,
                tuple(StatusChange(memory_id(s, name(s)), was, now) for s, was, now in act.statuses),
                tuple(values),
                voided,
                act.removed,
                tuple(memory_id(seq, name(seq)) for seq in act.quarantined),
                act.emptied,
            )
            if dry_run:
                raise _Rehearsed
            if act.on or act.off or act.touched or not done.nothing:
                done = replace(done, act=f"a{_conclude(act, verb, target)}")
    except _Rehearsed:
        pass
    assert done is not None
    return done


def _conclude(act: Act, verb: str, target: str) -> int:
    """The line of the act itself, and the index brought along; returns the number of that line."""
    bank = act.bank
    changed = {seq: now for seq, _, now in act.statuses}
    if changed:
        bank.store.dirty = True
        for seq, now in changed.items():
            bank.index.set_active(seq, now == "active")
    if len(act.lines) == 1 and verb in VERBS.values():
        return act.lines[0]  # one memory: its own line says all
    row = bank.store.row("SELECT coalesce(max(seq), 0) FROM recall WHERE scope_id = ?", (bank.scope_id,))
    detail: dict[str, Any] = {"reason": act.reason, "target": target, "receipt": row[0] if row else 0, **act.extra}
    if act.lines:
        detail["lines"] = [act.lines[0], act.lines[-1]]
    detail |= {name: seqs for name, seqs in (("on", act.on), ("off", act.off)) if seqs}
    with bank.store.write() as db:
        return audit(db, bank.scope_id, verb, "*", detail)
