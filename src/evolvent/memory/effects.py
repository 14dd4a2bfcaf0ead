"""What the memory adds, and each of its memories: read from receipts and outcomes, where chance decided.

Two questions, each with its own draws. Does the memory help: attempts that were held out against the others. What does
a memory add beside what else was handed out: recalls that left it out against those that did not. Held-out attempts do
not enter the second: what comes with a memory is missing there too, and it would get the credit of its companions.
Nothing is kept: each reading goes through the receipts, so what was revised, voided or erased needs no repair.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from evolvent.core.strict_json import unescape
from evolvent.formulas.effect import Estimate, Row, estimate
from evolvent.memory import holdout, replay
from evolvent.memory.bank import Bank
from evolvent.memory.events import OF_VALUE
from evolvent.memory.store.engine import Connection
from evolvent.memory.text import content_hash, in_units

MARGIN = 0.05  # a difference within it is none
_NOTHING = content_hash("")


class Told(NamedTuple):
    """The outcome of a receipt that counts: its number, the reward on 0..1, its weight and when it was told."""

    number: int
    outcome: float
    weight: float
    at: float


@dataclass(frozen=True)
class Asked:
    """A receipt whose rule selected something, by which something can be measured.

    Attributes:
        rate: probability with which nothing of it would be handed out.
        omits: its policy's chances are those of leaving out, and its draw was its own.
    """

    number: int
    at: float
    stage: str
    attempt: str
    task: str
    rate: float
    held_out: bool
    omits: bool
    told: Told | None


class Note(NamedTuple):
    """A memory in a receipt that selected it: the first version of it, and whether it was left out by itself."""

    memory: int
    chance: float  # of being handed out, given that the recall was
    left_out: bool


@dataclass
class Log:
    """What was asked in a scope and told of it, oldest first, with the number of receipts that do not count."""

    asked: list[Asked] = field(default_factory=list[Asked])
    not_counted: dict[str, int] = field(default_factory=dict[str, int])
    notes: dict[int, list[Note]] = field(default_factory=dict[int, list[Note]])  # by receipt

    @property
    def drawn(self) -> list[Asked]:
        """Receipts of which chance decided whether anything was handed out."""
        return [one for one in self.asked if one.rate]


_RECALLS = (
    "SELECT r.seq, r.created_at, r.stage, r.query_hash, r.frozen, r.is_test, r.params, r.rng_seed, x.attempt, x.task, "
    "x.rate, x.held_out FROM recall r LEFT JOIN exposure x ON x.recall_id = r.seq "
    # erasing takes what was selected out of the pool; that chance decided stays
    "WHERE r.scope_id = ? AND (r.n_pool > 0 OR x.recall_id IS NOT NULL) AND r.created_at >= ? ORDER BY r.seq"
)
_OUTCOMES = (
    "SELECT recall_id, outcome_id, valid, reward, weight, created_at FROM outcome WHERE scope_id = ? AND objective = ? "
    "ORDER BY outcome_id"
)
_ITEMS = (
    "SELECT i.recall_id, coalesce(u.parent, i.memory_id), i.propensity, i.omitted FROM recall_item i "
    "JOIN recall r ON r.seq = i.recall_id JOIN memory m ON m.seq = i.memory_id LEFT JOIN provenance u "
    "ON u.child = i.memory_id AND u.relation = 'updated' WHERE r.scope_id = ? AND i.selected AND m.status <> 'erased' "
    "{} ORDER BY i.recall_id, i.rank"
)


def read(
    bank: Bank,
    objective: str,
    *,
    since: float = 0.0,
    notes: bool = False,
    only: int | None = None,
    scope: tuple[int, tuple[float, float]] | None = None,
) -> Log:
    """The receipts of a scope, and what was told of them.

    Args:
        bank: the memory.
        objective: of the outcomes.
        since: only receipts from this moment on, in seconds since 1970.
        notes: also which memories they selected.
        only: this memory alone.
        scope: another scope of the store, and its range of rewards.
    """
    scope_id, span = (bank.scope_id, bank.reward_range) if scope is None else scope
    store, log = bank.store, Log(not_counted={"frozen": 0, "repeated_seed": 0, "certain": 0})
    with store.snapshot():
        told = _told(bank, objective, scope_id, span)
        rows = store.rows(_RECALLS, (scope_id, since))
        if notes:
            # one version is enough: all of them are the same memory
            which = "" if only is None else f"AND {OF_VALUE} = ?"
            args = (scope_id,) if only is None else (scope_id, only)
            for number, memory, chance, left_out in store.rows(_ITEMS.format(which), args):
                found = log.notes.setdefault(number, [])
                if all(memory != note.memory for note in found):
                    found.append(Note(memory, chance, bool(left_out)))
    seeds = Counter(seed for _, _, _, _, frozen, test, _, seed, *_ in rows if not (frozen or test))
    for number, at, stage, query, frozen, test, params, seed, attempt, task, rate, held_out in rows:
        if frozen or test:
            log.not_counted["frozen"] += 1
            continue
        log.not_counted["repeated_seed"] += seeds[seed] > 1
        log.not_counted["certain"] += not rate
        log.asked.append(
            Asked(
                number=number,
                at=at,
                stage=stage,
                attempt=attempt or f"r{number}",
                task=task or (f"r{number}" if query == _NOTHING else query),
                rate=rate or 0.0,
                held_out=bool(held_out),
                omits=seeds[seed] == 1 and _omits(params),
                told=told.get(number),
            )
        )
    return log


@lru_cache(maxsize=256)
def _omits(params: str) -> bool:
    """Whether chances in receipts under these settings are of leaving out: of others, epsilon makes them."""
    settings = unescape(json.loads(params))
    return "omit" in settings or not settings.get("epsilon")


def _told(bank: Bank, objective: str, scope: int, span: tuple[float, float]) -> dict[int, Told]:
    """By receipt the outcome that counts: the newest that was not voided, if it is valid."""
    store, (low, high) = bank.store, span
    gone = replay.skipped(store, scope, of="outcome")
    voided = {
        number
        for start, end in replay.skipped(store, scope)
        for (number,) in store.rows(
            "SELECT DISTINCT e.outcome_id FROM value_event e JOIN outcome o USING(outcome_id) WHERE o.scope_id = ? "
            "AND e.seq > ? AND e.seq <= ?",
            (scope, start, end),
        )
    }
    found: dict[int, Told | None] = {}
    for receipt, number, valid, reward, weight, at in store.rows(_OUTCOMES, (scope, objective)):
        if number not in voided and not replay.holds(gone, number):
            found[receipt] = Told(number, (reward - low) / (high - low), weight, at) if valid else None
    return {receipt: told for receipt, told in found.items() if told is not None}


# ---------------------------------------------------------------------------------------------------- rows
Counted = Callable[[Asked], tuple[float, float] | None]  # outcome and weight with which a receipt counts, if it does


def as_told(one: Asked) -> tuple[float, float] | None:
    """What was told."""
    return None if one.told is None else (one.told.outcome, one.told.weight)


def overall(asked: Iterable[Asked], counted: Counted = as_told) -> list[Row]:
    """A row for each attempt of which chance decided: of its recalls the outcome that was told last."""
    last: dict[str, Asked] = {}
    for one in asked:
        before = last.get(one.attempt)
        if one.rate and (before is None or _number(one) >= _number(before)):
            last[one.attempt] = one
    rows = []
    for one in sorted(last.values(), key=lambda one: one.number):
        counts = counted(one)
        if counts is not None:
            rows.append(Row(not one.held_out, 1.0 - one.rate, *counts, one.task))
    return rows


def _number(one: Asked) -> int:
    return -1 if one.told is None else one.told.number


def own(log: Log, stage: str | None = None) -> dict[int, list[Row]]:
    """By memory: what was told where it was selected and not held out, with it and without it; ``stage``: there."""
    rows: dict[int, list[Row]] = defaultdict(list)
    for one in log.asked:
        if stage is not None and one.stage != stage:
            continue
        if one.told is None or one.held_out or not one.omits:
            continue
        for note in log.notes.get(one.number, ()):
            if 0.0 < note.chance < 1.0:
                outcome = (one.told.outcome, one.told.weight)
                rows[note.memory].append(Row(not note.left_out, note.chance, *outcome, one.task))
    return dict(rows)


def by_stage(bank: Bank, objective: str, only: int | None = None) -> dict[tuple[int, str], Estimate]:
    """By (first version of a) memory and stage: what it adds beside the rest; ``only``: of this one."""
    log = read(bank, objective, notes=True, only=only)
    stages = dict.fromkeys(one.stage for one in log.asked)
    return {(m, stage): estimate(rows) for stage in stages for m, rows in own(log, stage).items()}


def together(log: Log) -> dict[int, list[Row]]:
    """By memory: overall rows of the attempts that selected it; its merit and that of what came with it."""
    by: dict[int, list[Asked]] = defaultdict(list)
    for one in log.asked:
        for note in log.notes.get(one.number, ()):
            by[note.memory].append(one)
    return {memory: overall(asked) for memory, asked in by.items()}


# ------------------------------------------------------------------------------------------ whether all is told
class Telling(NamedTuple):
    """Whether outcomes are told alike of attempts with the memory and without it."""

    told: Estimate  # of being told
    untold_as_failed: Estimate

    @property
    def differs(self) -> bool:
        """Whether more is told of one of them."""
        e = self.told
        return e.speaks and e.lo is not None and e.hi is not None and (e.lo > 0.0 or e.hi < 0.0)


def telling(log: Log, alpha: float) -> Telling:
    """The same estimator for being told, of attempts older than nine in ten delays so far."""
    delays = sorted(one.told.at - one.at for one in log.drawn if one.told is not None)
    wait = delays[min(len(delays) - 1, int(0.9 * len(delays)))] if delays else 0.0
    old = [one for one in log.drawn if one.at <= time.time() - wait]
    return Telling(
        estimate(overall(old, lambda one: (float(one.told is not None), 1.0)), alpha),
        estimate(overall(old, lambda one: as_told(one) or (0.0, 1.0)), alpha),
    )


# ---------------------------------------------------------------------------------------------------- verdicts
def verdict(e: Estimate, margin: float = MARGIN) -> str:
    """Too early, helps, harms or no difference: whether the interval leaves out zero, or stays in the margin."""
    if not e.speaks or e.lo is None or e.hi is None:
        return "too early"
    if e.lo > 0.0:
        return "helps"
    if e.hi < 0.0:
        return "harms"
    return "no difference" if -margin <= e.lo and e.hi <= margin else "too early"


def adds(e: Estimate, span: float) -> str:
    """What a memory adds, in words: the difference with its interval, or that it is too early; rewards span ``span``.

    Nothing where it was never left out.
    """
    if e.lift is None and not e.n_without:
        return ""
    if verdict(e) not in ("helps", "harms"):
        return "what it adds: too early to say"
    found = (in_units(span * (share or 0.0), span, 2, "+") for share in (e.lift, e.lo, e.hi))
    return "adds {} [{}, {}]".format(*found)


def look_again(db: Connection, bank: Bank, outcomes: Sequence[int]) -> None:
    """After outcomes of these numbers: whether it is known by now that the memory helps, so that less is held out."""
    name = holdout.state_name(bank.scope_id)
    row = db.execute("SELECT body FROM meta WHERE name = ?", (name,)).fetchone()
    state: Mapping[str, bool] | None = None if row is None else json.loads(row[0])
    if holdout.due(state, outcomes):
        said = verdict(estimate(overall(read(bank, bank.policy.objective).drawn)))
        if said != "too early":
            bank.store.meta_set(name, {"decided": True})
