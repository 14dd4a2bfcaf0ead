"""The verb settle: an outcome becomes credit for what was shown, and for its ancestors. No model, no embedder."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.formulas.values import ancestor_depths, backward_credit, ema
from evolvent.memory import events, lift
from evolvent.memory.bank import Bank
from evolvent.memory.events import Event, Loaded
from evolvent.memory.items import ValueChange, memory_id, receipt_id
from evolvent.memory.policies import Policy, value_bounds
from evolvent.memory.store import Connection, marks, put_text
from evolvent.memory.text import clean_text, clean_word, content_hash, finite

SOURCES = ("env", "tests", "judge", "human", "proxy")
# credit below this share of the first step is not walked back any further
_NEGLIGIBLE = 1e-4
# the formulas are typed for ids as text; rows are integers here, which they do not mind
_depths: Any = ancestor_depths
_backward: Any = backward_credit


@dataclass(frozen=True)
class Outcome:
    """The arguments of one settle."""

    reward: float | None
    source: str
    valid: bool
    objective: str
    idempotency_key: str | None
    action: str | None
    child: str | None


@dataclass(frozen=True)
class _Shown:
    """One row of the receipt."""

    seq: int
    shown: bool
    omitted: bool
    propensity: float


def settle(bank: Bank, number: int, outcome: Outcome) -> list[ValueChange]:
    """Write an outcome and what it changes (one transaction); see ``Memory.settle``."""
    where = f"settle({receipt_id(number)!r})"
    reward = _checked(bank, outcome, where)
    action = clean_text(outcome.action, what="the action", where=where, empty=True) if outcome.action else None
    key = outcome.idempotency_key
    if key is not None:
        clean_word(key, what="an idempotency key", where=where, limit=500)
    with bank.store.write() as db:
        earlier = _earlier(db, bank, number, outcome)
        if earlier is not None:
            return changes_of(db, earlier)
        child = bank.memory_seq(outcome.child, where) if outcome.child is not None else None
        digest = None
        if action is not None:
            digest = content_hash(action)
            put_text(db, digest, action)
        # an invalid outcome has a key of its own when none was given: several may precede the valid one
        serial = db.execute("SELECT count(*) FROM outcome WHERE recall_id=?", (number,)).fetchone()[0]
        automatic = f"receipt:{receipt_id(number)}/{outcome.objective}" + ("" if outcome.valid else f"/{serial}")
        outcome_id = db.execute(
            "INSERT INTO outcome(scope_id, recall_id, objective, source, reward, valid, idempotency_key, "
            "action_hash, child, "
            "created_at) VALUES(?,?,?,?,?,?,?,?,?,?) RETURNING outcome_id",
            (bank.scope_id, number, outcome.objective, outcome.source, reward, outcome.valid,
             f"key:{key}" if key else automatic, digest,
             child, time.time()),
        ).fetchone()[0]  # fmt: skip
        if outcome.valid and reward is not None:
            _credit(db, bank, number, outcome_id, outcome, reward, action, child)
        return changes_of(db, outcome_id)


def _checked(bank: Bank, outcome: Outcome, where: str) -> float | None:
    if outcome.source not in SOURCES:
        raise BadInput("unknown source of an outcome", got=outcome.source, expected=", ".join(SOURCES), where=where)
    clean_word(outcome.objective, what="an objective", where=where)
    lo, hi = bank.reward_range
    if outcome.valid:
        return finite(
            outcome.reward if outcome.reward is not None else math.nan, what="reward", where=where, lo=lo, hi=hi
        )
    # what an invalid outcome reports is kept only when it is a number; nothing is learned from it
    r = outcome.reward
    return float(r) if isinstance(r, (int, float)) and math.isfinite(r) else None


def _earlier(db: Connection, bank: Bank, number: int, outcome: Outcome) -> int | None:
    """The outcome of this objective that this one repeats: same idempotency key, or same receipt already settled."""
    if outcome.idempotency_key is not None:
        row = db.execute(
            "SELECT outcome_id FROM outcome WHERE scope_id=? AND objective=? AND idempotency_key=? AND valid >= ? "
            "ORDER BY outcome_id",
            (bank.scope_id, outcome.objective, f"key:{outcome.idempotency_key}", outcome.valid),
        ).fetchone()
        if row:
            return int(row[0])
    row = db.execute(
        "SELECT outcome_id FROM outcome WHERE recall_id=? AND objective=? AND valid", (number, outcome.objective)
    ).fetchone()
    return int(row[0]) if row else None


def _credit(
    db: Connection, bank: Bank, number: int, outcome_id: int, outcome: Outcome, reward: float,
    action: str | None, child: int | None,
) -> None:  # fmt: skip
    stage, params, is_test = db.execute("SELECT stage, params, is_test FROM recall WHERE seq=?", (number,)).fetchone()
    policy = _policy(params)
    if is_test or policy.update == "none":
        return
    items = [
        _Shown(seq, bool(s), bool(o), p)
        for seq, s, o, p in db.execute(
            "SELECT memory_id, shown, omitted, propensity FROM recall_item WHERE recall_id=? AND (shown OR "
            "omitted) ORDER BY rank",
            (number,),
        )
    ]
    used = [item.seq for item in items if item.shown]
    graph, depths = _ancestors(db, used, policy)
    ids = {i.seq for i in items} | {m for d in depths.values() for m in d}
    if not ids:
        return
    if child is not None and child in ids:
        child = None  # the "new" memory was merged into one that is credited here: it is no consequence of itself
    values = events.load(bank.store, [*ids, *([child] if child is not None else [])], outcome.objective, stage)
    at = (outcome.objective, stage)
    if policy.update == "ema":
        made = _ema(at, used, values, reward, policy)
    elif policy.update == "provenance":
        q_new = values[child].value.q if child is not None else 0.0
        made = _provenance(
            at, used, graph, depths, values, reward, q_new, policy, value_bounds(policy, bank.reward_range)
        )
    else:
        made = _lift(at, items, depths, values, reward, policy, _weights(db, used, action))
    events.record(db, bank.scope_id, outcome_id, number, made, values)


@lru_cache(maxsize=256)
def _policy(params: str) -> Policy:
    return Policy(**json.loads(params))


def _ancestors(
    db: Connection, used: Sequence[int], policy: Policy
) -> tuple[dict[int, list[int]], dict[int, dict[int, int]]]:
    """The provenance graph above the shown memories, and ``{shown: {itself or ancestor: shortest depth}}``."""
    decay = policy.gamma * policy.trace
    if policy.update not in ("provenance", "lift") or decay <= 0.0:
        return {}, {m: {m: 0} for m in used}
    limit = 64 if decay >= 0.9 else int(math.log(_NEGLIGIBLE) / math.log(decay))
    graph: dict[int, list[int]] = {}

    def parents(m: int) -> list[int]:
        if m not in graph:
            # relation "revised" is left out: what a memory replaced earns nothing from its success; for lift neither
            # does what was shown when the attempt failed and the lesson came from elsewhere (a correction)
            rows = db.execute(
                "SELECT DISTINCT p.parent FROM provenance p JOIN memory c ON c.seq = p.child WHERE p.child=? AND "
                "p.relation IN ('retrieved', 'merged') AND (c.polarity = 'success' OR ?) ORDER BY p.parent",
                (m, policy.update == "provenance"),
            )
            graph[m] = [row[0] for row in rows]
        return graph[m]

    return graph, {m: _depths(parents, m, limit) for m in used}


def _ema(
    at: tuple[str, str], used: Sequence[int], values: Mapping[int, Loaded], r: float, policy: Policy
) -> list[Event]:
    """MemRL: every shown memory moves towards the reward by the same step."""
    made = []
    for m in used:
        q = values[m].value.q
        made.append(Event(m, *at, "shown", policy.alpha, 1.0, 1.0, 1.0, 0, r, r, q, ema(q, r, policy.alpha)))
    return made


def _provenance(
    at: tuple[str, str], used: Sequence[int], graph: dict[int, list[int]], depths: Mapping[int, Mapping[int, int]],
    values: Mapping[int, Loaded], r: float, q_new: float, policy: Policy, bounds: tuple[float, float],
) -> list[Event]:  # fmt: skip
    """MemQ: the error of each shown memory, spread back over the graph; all from the values before the task."""
    decay = policy.gamma * policy.trace
    before = {m: values[m].value.q for m in used}
    changes: dict[int, float] = _backward(
        before, graph, used, q_new, r, alpha=policy.alpha, gamma=policy.gamma, trace=policy.trace
    )
    target = r + policy.gamma * q_new
    made = []
    for m, change in changes.items():
        depth = min((d[m] for d in depths.values() if m in d), default=0)
        if m not in used and (change == 0.0 or m not in values):
            continue
        q = values[m].value.q
        # a start outside the bounds stays allowed, leaving them further is not
        q_after = min(max(q + change, min(bounds[0], q)), max(bounds[1], q))
        if m in used:
            made.append(Event(m, *at, "shown", policy.alpha, 1.0, 1.0, 1.0, 0, r, target, q, q_after))
        else:
            # a sum of other memories' errors is no step towards a target of its own: alpha 0
            made.append(Event(m, *at, "ancestor", 0.0, decay**depth, 0.0, 1.0, depth, r, target, q, q_after))
    return made


def _lift(
    at: tuple[str, str], items: Sequence[_Shown], depths: Mapping[int, Mapping[int, int]],
    values: Mapping[int, Loaded], r: float, policy: Policy, weights: Mapping[int, float],
) -> list[Event]:  # fmt: skip
    """Ours: shown memories by how much they were used, omitted ones to their statistics, ancestors by distance.

    An outcome of a memory ``d`` links younger counts ``(gamma trace)^d`` of an outcome of one's own: the ancestor
    steps towards the reward, once per outcome, from its nearest shown descendant.
    """
    made, decay = [], policy.gamma * policy.trace
    for item in items:
        v = values[item.seq].value
        if item.shown:
            w = weights[item.seq]
            step = w * lift.step_size(v.n, policy.alpha)
            # only where it might have been left out is there anything to compare with: an outcome under a propensity
            # of 1 (best of its pool, alone, frozen) says nothing about the effect, and would bias it if it counted
            ipw = 1.0 / item.propensity if 0.0 < item.propensity < 1.0 else 0.0
            made.append(Event(item.seq, *at, "shown", step, w, ipw, policy.decay, 0, r, r, v.q, ema(v.q, r, step)))
        elif item.propensity > 0.0:
            # left out by chance; what was withheld for certain has no counterpart to be compared with
            ipw = 1.0 / (1.0 - item.propensity)
            made.append(Event(item.seq, *at, "omitted", 0.0, 1.0, ipw, policy.decay, 0, r, r, v.q, v.q))
    touched = {item.seq for item in items}
    near: dict[int, tuple[int, float]] = {}
    for m, reach in depths.items():
        for ancestor, depth in reach.items():
            if ancestor not in touched and (ancestor not in near or depth < near[ancestor][0]):
                near[ancestor] = (depth, weights[m])
    for m, (depth, w) in near.items():
        v = values[m].value
        share = w * decay**depth
        step = share * lift.step_size(v.n + v.n_credit, policy.alpha)
        made.append(Event(m, *at, "ancestor", step, share, 0.0, 1.0, depth, r, r, v.q, ema(v.q, r, step)))
    return made


def _weights(db: Connection, used: Sequence[int], action: str | None) -> dict[int, float]:
    if action is None or not used:
        return dict.fromkeys(used, 1.0)
    bodies = dict(
        db.execute(
            "SELECT m.seq, b.body FROM memory m JOIN text_blob b ON b.hash = m.body_hash WHERE m.seq IN "
            f"({marks(len(used))})",
            list(used),
        )
    )
    return dict(zip(used, lift.use_weights([bodies[m] for m in used], action), strict=True))


def changes_of(db: Connection, outcome_id: int) -> list[ValueChange]:
    """What an outcome changed, in the order in which it was written."""
    rows = db.execute(
        "SELECT memory_id, objective, stage, rule, depth, weight, reward, q_before, q_after FROM value_event "
        "WHERE outcome_id=? ORDER BY seq",
        (outcome_id,),
    )
    return [ValueChange(memory_id(row[0]), *row[1:]) for row in rows]
