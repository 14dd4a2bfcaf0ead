"""The verb settle: an outcome becomes credit for what was shown, and for its ancestors. No model, no embedder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.formulas.values import ancestor_depths
from evolvent.memory import effects, events, lift, replay
from evolvent.memory.bank import Bank
from evolvent.memory.events import Event, Loaded
from evolvent.memory.external import NAME
from evolvent.memory.items import ValueChange, memory_id, receipt_id
from evolvent.memory.outcome import Outcome, check_same, parts_of, spans
from evolvent.memory.policies import from_params
from evolvent.memory.rule import Policy, Settled, Shown, checked_changes, rule_of
from evolvent.memory.store.engine import Connection, among, marks, put_text
from evolvent.memory.text import content_hash

# the formula is typed for ids as text; rows are integers here, which it does not mind
_depths: Any = ancestor_depths


@dataclass
class _Receipt:
    """What settling needs to know of a receipt."""

    stage: str
    policy: Policy
    is_test: bool
    drawn: bool = False  # chance was to decide whether anything is handed out
    held_out: bool = False
    items: list[Shown] = field(default_factory=list)  # under the first version of each memory, which has the value
    used: list[int] = field(default_factory=list)  # those that were shown
    version: dict[int, int] = field(default_factory=dict)  # the one that it handed out
    serial: int = 0  # outcomes of any kind so far
    q: dict[int, float] = field(default_factory=dict)  # learned values when it was written
    settled: dict[str, int] = field(default_factory=dict)  # by objective: its valid outcome, or what voided that
    revised: list[int] = field(default_factory=list)  # outcomes that others replaced

    def __post_init__(self) -> None:
        self.rule = rule_of(self.policy)
        # how far credit goes back, and whether past memories of failures
        self.walk = (0, False) if self.rule.walk is None else self.rule.walk(self.policy)


_New = tuple[int, Outcome, _Receipt]  # with the number of the outcome
_Jobs = dict[tuple[str, str], list[tuple[int, bool]]]  # (objective, key): outcomes of that job, whether valid


def settle(bank: Bank, outcomes: Sequence[Outcome]) -> list[list[ValueChange]]:
    """Write outcomes in their order, and what each changes (one transaction); see ``Memory.settle``.

    All are read, then computed, then written: a server is asked as often for many as for one.
    """
    with bank.store.write() as db:
        receipts, jobs, said, children, last_outcome, last_event = read(db, bank, outcomes)
        ids: list[int] = []
        new: list[_New] = []
        rows: list[tuple] = []
        for o in outcomes:
            receipt = receipts[o.receipt]
            id_ = _earlier(receipt, jobs, said, o)
            if id_ is not None:
                check_same(o, said.get(id_), said.values())
            else:
                if o.child is not None and o.child not in children:
                    bank.memory_seq(memory_id(o.child), f"settle({receipt_id(o.receipt)!r})")
                id_ = last_outcome + 1 + len(new)
                new.append((id_, o, receipt))
                said[id_] = o
                rows.append(row_of(db, bank, id_, o, receipt.serial))
                receipt.serial += 1
                if o.valid:
                    receipt.settled[o.objective] = id_
                if o.key is not None:
                    jobs.setdefault((o.objective, o.key), []).append((id_, o.valid))
            ids.append(id_)
        changes = changes_of(db, [id_ for id_ in ids if id_ <= last_outcome])
        entries = events.Entries(bank.scope_id, last_event)
        changes |= credit(db, bank, new, entries)
        db.executemany(INSERT, rows)
        entries.write(db)
        if due := [id_ for id_, o, receipt in new if o.valid and receipt.drawn]:
            effects.look_again(db, bank, due)
    return [changes.get(id_, []) for id_ in ids]


_RECEIPTS = (
    "SELECT r.seq, r.stage, r.params, r.is_test, x.recall_id, x.held_out, "
    f"(SELECT coalesce(max(outcome_id), 0) FROM outcome), {events.NEWEST} "
    "FROM recall r LEFT JOIN exposure x ON x.recall_id = r.seq WHERE r.scope_id=? AND r.seq IN ({})"
)


def read(
    db: Connection, bank: Bank, outcomes: Sequence[Outcome]
) -> tuple[dict[int, _Receipt], _Jobs, dict[int, Outcome], set[int], int, int]:
    """The receipts, jobs and outcomes that were reported before, children that exist, the newest outcome and event."""
    numbers = sorted({o.receipt for o in outcomes})
    found = among(db, _RECEIPTS, numbers, bank.scope_id)
    items = among(
        db,
        "SELECT i.recall_id, coalesce(u.parent, i.memory_id), i.shown, i.propensity, i.omitted, i.memory_id, i.q "
        "FROM recall_item i LEFT JOIN provenance u ON u.child = i.memory_id AND u.relation = 'updated' "
        "WHERE i.recall_id IN ({}) AND i.selected ORDER BY i.recall_id, i.rank",
        numbers,
    )
    before = among(
        db,
        "SELECT o.recall_id, o.objective, o.valid, o.outcome_id, o.reward, o.source, t.body, o.child, o.weight, "
        "o.replaced_by, o.parts FROM outcome o LEFT JOIN text_blob t ON t.hash = o.action_hash "
        "WHERE o.recall_id IN ({}) ORDER BY o.outcome_id",
        numbers,
    )
    reported = [
        among(
            db,
            "SELECT objective, idempotency_key, outcome_id, valid FROM outcome WHERE scope_id=? AND objective=? AND "
            "idempotency_key IN ({}) ORDER BY outcome_id",
            [f"key:{o.key}" for o in outcomes if o.key is not None and o.objective == objective],
            bank.scope_id,
            objective,
        )
        for objective in {o.objective for o in outcomes if o.key is not None}
    ]
    children = among(
        db,
        "SELECT seq FROM memory WHERE scope_id=? AND seq IN ({})",
        [o.child for o in outcomes if o.child is not None],
        bank.scope_id,
    )
    receipts, last_outcome, last_event = dict[int, _Receipt](), 0, 0
    for seq, stage, params, is_test, drawn, held_out, last_outcome, last_event in found:  # noqa: B007
        receipts[seq] = _Receipt(stage, from_params(params), bool(is_test), drawn is not None, bool(held_out))
    for number in numbers:
        if number not in receipts:
            bank.receipt_seq(receipt_id(number), f"settle({receipt_id(number)!r})")
    for number, seq, shown, propensity, omitted, version, q in items:
        receipt = receipts[number]
        if seq not in receipt.version:  # of two versions that are both in use, the better one stands for it
            receipt.items.append(Shown(seq, bool(shown), propensity, not shown and not omitted))
            receipt.version[seq], receipt.q[seq] = version, q
            if shown:
                receipt.used.append(seq)
    said, later = dict[int, Outcome](), set[int]()
    for number, objective, valid, id_, reward, source, action, child, weight, replaced, lengths in before:
        parts = parts_of(action, lengths)
        said[id_] = Outcome(number, reward, source, bool(valid), objective, None, action, child, weight, parts)
        receipts[number].serial += 1
        if replaced is not None:
            receipts[number].revised.append(id_)
            later.add(replaced)
        elif valid or id_ in later:
            receipts[number].settled[objective] = id_
    jobs: _Jobs = {}
    for objective, key, id_, valid in chain.from_iterable(reported):
        jobs.setdefault((objective, key[len("key:") :]), []).append((id_, bool(valid)))
    return receipts, jobs, said, {seq for (seq,) in children}, last_outcome, last_event


def check(bank: Bank, o: Outcome) -> None:
    """``BadInput`` where ``settle`` would refuse the outcome; nothing is written."""
    with bank.store.session() as db, bank.store.translated("reading"):
        receipts, jobs, said, *_ = read(db, bank, [o])
        id_ = _earlier(receipts[o.receipt], jobs, said, o)
        if id_ is not None:
            check_same(o, said.get(id_), said.values())


def _earlier(receipt: _Receipt, jobs: _Jobs, said: Mapping[int, Outcome], o: Outcome) -> int | None:
    """The outcome of this objective that this one repeats: same idempotency key, or same receipt already settled."""
    for id_, valid in jobs.get((o.objective, o.key), ()) if o.key is not None else ():
        if valid >= o.valid:
            return id_
    now = receipt.settled.get(o.objective)
    for id_ in receipt.revised if now is not None else ():  # a retry that comes after the revision
        if said[id_].objective == o.objective and o.repeats(said[id_]):
            return id_
    return now


INSERT = (
    "INSERT INTO outcome(outcome_id, scope_id, recall_id, objective, source, reward, valid, idempotency_key, "
    f"action_hash, child, created_at, weight, place, parts) VALUES({marks(14)})"
)


def row_of(db: Connection, bank: Bank, id_: int, o: Outcome, serial: int, place: int | None = None) -> tuple:
    """What ``INSERT`` writes of an outcome."""
    digest = None
    if o.action is not None:
        digest = content_hash(o.action)
        put_text(db, digest, o.action)
    # an invalid outcome has a key of its own when none was given: several may precede the valid one
    automatic = f"receipt:{receipt_id(o.receipt)}/{o.objective}" + ("" if o.valid else f"/{serial}")
    key = f"key:{o.key}" if o.key else automatic
    return (
        id_,
        bank.scope_id,
        o.receipt,
        o.objective,
        o.source,
        o.reward,
        o.valid,
        key,
        digest,
        o.child,
        time.time(),
        o.weight,
        place,
        spans(o.parts),
    )


def credit(
    db: Connection,
    bank: Bank,
    new: Sequence[_New],
    entries: events.Entries,
    then: Callable[[Iterable[int]], replay.Values] | None = None,
) -> dict[int, list[ValueChange]]:
    """Enter what valid outcomes change; returns it by outcome.

    ``then`` tells which values memories had when the outcomes met them, if not those of now.
    """
    paid = [(id_, o, r) for id_, o, r in new if o.valid and not r.is_test and not r.held_out]
    due = [(id_, o, r) for id_, o, r in paid if r.rule.credit is not None]
    for _, o, r in due:
        if o.parts and r.walk[0]:
            do = "settle the whole answer, or recall under another policy"
            raise BadInput(
                "outcomes of parts under a rule that pays ancestors", got=r.policy.name, do=do, code="conflicting"
            )
    graphs = _graphs(db, [r for _, _, r in due])
    acted: set[int] = set()
    depths: list[dict[int, dict[int, int]]] = []
    wanted: dict[tuple[str, str], set[int]] = {}
    for _, o, r in due:
        if o.parts or (o.action is not None and r.rule.bodies):
            acted.update(r.version[m] for m in r.used)
        reach = r.walk[0]
        near = {m: _depths(graphs[r.walk], m, reach) if reach else {m: 0} for m in r.used}
        depths.append(near)
        ids = wanted.setdefault((o.objective, r.stage), set())
        ids.update(r.version, *near.values(), () if o.child is None else (o.child,))
    bodies = among(
        db, "SELECT m.seq, b.body FROM memory m JOIN text_blob b ON b.hash = m.body_hash WHERE m.seq IN ({})", acted
    )
    asked = {at: events.ask(db, ids, *at) for at, ids in wanted.items()}
    values = {at: events.loaded(rows) for at, rows in asked.items()}
    if then is not None:
        met = then(set().union(*wanted.values()))
        values = {
            at: {m: known._replace(value=replay.value_in(met, (m, *at), known.q_init)) for m, known in rows.items()}
            for at, rows in values.items()
        }
    texts: dict[int, str] = dict(bodies)
    changes = {}
    for (id_, o, r), near in zip(due, depths, strict=True):
        at = (o.objective, r.stage)
        made = _events(bank, at, o, r, near, values[at], texts)
        entries.add(id_, o.receipt, made, values[at])
        changes[id_] = [_change(e, values[at][e.memory].name) for e in made]
    return changes


def _events(
    bank: Bank,
    at: tuple[str, str],
    o: Outcome,
    receipt: _Receipt,
    depths: Mapping[int, Mapping[int, int]],
    values: Mapping[int, Loaded],
    texts: Mapping[int, str],
) -> list[Event]:
    """What one outcome changes, by the rule of the receipt's policy."""
    used, reward, child = receipt.used, o.reward, 0.0
    assert reward is not None and receipt.rule.credit is not None
    # a "new" memory that was merged into one that is credited here is no consequence of itself
    if o.child is not None and o.child not in {item.id for item in receipt.items}.union(*depths.values()):
        child = values[o.child].value.q - bank.reward_range[0]
    weights, parts, bodies = dict.fromkeys(used, 1.0), dict[float, list[Shown]](), list[str]()
    if o.parts or receipt.rule.bodies:
        bodies = [texts.get(receipt.version[m], "") for m in used]  # read where there is an action to compare with
    if receipt.rule.bodies:
        weights = dict(zip(used, lift.use_weights(bodies, o.action), strict=True))
    if used and o.parts:
        rewards = dict(zip(used, lift.part_rewards(bodies, o.parts), strict=True))
        for item in receipt.items:
            parts.setdefault(rewards.get(item.id, reward), []).append(item)
    made = []
    for each, items in (parts or {reward: receipt.items}).items():
        first = used[0] if used else None
        settled = Settled(each, items, values, depths, child, weights, bank.reward_range, first, receipt.q)
        changes = checked_changes(receipt.rule.credit(receipt.policy, settled), values, receipt.policy.name)
        # what a memory adds is a difference of whole outcomes: which part took after it is no chance
        changes = [change._replace(ipw=0.0) if parts and change.rule == "shown" else change for change in changes]
        made += [change.event(*at, each) for change in changes]
    if parts:
        whole = [item._replace(shown=False, dropped=True) for item in receipt.items if item.shown]
        settled = Settled(reward, whole, values, depths, child, weights, bank.reward_range)
        changes = checked_changes(receipt.rule.credit(receipt.policy, settled), values, receipt.policy.name)
        made += [change.event(*at, reward) for change in changes]
    return made if o.weight == 1.0 else [events.weighed(event, o.weight) for event in made]


def _graphs(db: Connection, receipts: Sequence[_Receipt]) -> dict[tuple[int, bool], dict[int, list[int]]]:
    """Parents of what was shown and of its ancestors, as far as credit walks, for each way of walking."""
    graphs: dict[tuple[int, bool], dict[int, list[int]]] = {}
    for reach, failures in {r.walk for r in receipts}:
        graph = graphs[reach, failures] = {}
        todo = {m for r in receipts if r.walk == (reach, failures) for m in r.used}
        for _ in range(reach):
            graph |= {m: [] for m in todo}
            # relation "revised" is left out: what a memory replaced earns nothing from its success; for lift neither
            # does what was shown when the attempt failed and the lesson came from elsewhere (a correction)
            for child, parent in among(
                db,
                "SELECT DISTINCT p.child, coalesce(u.parent, p.parent) AS first FROM provenance p "
                "JOIN memory c ON c.seq = p.child "
                "LEFT JOIN provenance u ON u.child = p.parent AND u.relation = 'updated' WHERE "
                "(c.polarity = 'success' OR ?) AND p.relation IN ('retrieved', 'merged') AND p.child IN ({}) "
                "ORDER BY p.child, first",
                sorted(todo),
                failures,
            ):
                graph[child].append(parent)
            todo = {parent for m in todo for parent in graph[m]} - graph.keys()
            if not todo:
                break
    return graphs


def _change(e: Event, name: str | None) -> ValueChange:
    return ValueChange(
        memory_id(e.memory, name),
        e.objective,
        e.stage,
        e.rule,
        e.depth,
        float(e.weight),
        float(e.reward),
        float(e.q_before),
        float(e.q_after),
    )


def changes_of(db: Connection, outcomes: Sequence[int]) -> dict[int, list[ValueChange]]:
    """What each outcome changed, in the order in which it was written; outcomes that changed nothing are left out."""
    changes: dict[int, list[ValueChange]] = {}
    for id_, memory, name, *columns in among(
        db,
        f"SELECT e.outcome_id, e.memory_id, {NAME}, e.objective, e.stage, e.rule, e.depth, e.weight, e.reward, "
        "e.q_before, e.q_after FROM value_event e JOIN memory m ON m.seq = e.memory_id "
        "WHERE e.outcome_id IN ({}) ORDER BY e.seq",
        outcomes,
    ):
        changes.setdefault(id_, []).append(ValueChange(memory_id(memory, name), *columns))
    return changes
