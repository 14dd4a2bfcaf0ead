"""The state of a scope in numbers and words: is anything learned, what does harm, what is double, who is to thank."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from evolvent.cli.memory import duplicates
from evolvent.core.errors import BadInput
from evolvent.evaluate.live import count
from evolvent.formulas.anytime import Outcomes
from evolvent.memory import effects, events, lift
from evolvent.memory.bank import Bank
from evolvent.memory.health import EVERY_STAGE, MAIN_STAGE, health
from evolvent.memory.items import memory_id, receipt_id
from evolvent.memory.keys import OWN
from evolvent.memory.maintenance.act import VERBS
from evolvent.memory.maintenance.mend import descendants_of
from evolvent.memory.memory import Memory
from evolvent.memory.secrets import MASK
from evolvent.memory.store.engine import marks
from evolvent.memory.text import finite, in_units, short
from evolvent.runs.account.memories import RANKED

_GROWTH_STEPS = 40
_NOT_MOVED = (0, 0.0, 0.0, 0.0)


def audit(memory: Memory, *, top: int = 10, untrusted: Sequence[str] = (), near: float = 0.95) -> dict[str, Any]:
    """Everything worth a look, on one snapshot of the store; lists name at most ``top``, counts count all.

    Args:
        memory: the memory; its scope alone is looked at.
        top: at most this many memories, receipts or groups are named in each list.
        untrusted: sources of memories that are not trusted.
        near: keys are near duplicates when their cosine reaches this.

    Returns:
        ``health()``, and: ``most_valuable`` and ``least_valuable`` memories; ``harmful``: active memories that are
        known to lower the reward, with the evidence; ``poisoned``:
        active descendants of memories that are quarantined, harmful or of an untrusted source; ``duplicates``;
        ``replaced_by_nothing``: superseded memories whose successor is out of recall too; ``masked``: memories in
        recall with a secret that was masked; ``unsettled`` receipts;
        ``credit`` by source of outcomes and of memories; ``growth`` over time and bytes by table; ``acts`` of mending;
        ``warnings`` in words.
    """
    if isinstance(top, bool) or not isinstance(top, int) or top < 0:
        raise BadInput("top is not a count", got=top, expected="an integer >= 0", where="audit")
    finite(near, what="near", where="audit", lo=-1.0, hi=1.0)
    bank = memory.bank
    with bank.store.snapshot():
        bank.index.catch_up()
        data = health(bank)
        adds = _adds(bank)
        worst = _harmful(bank, adds)
        data |= {
            "most_valuable": _by_worth(bank, adds, top, "DESC"),
            "least_valuable": _by_worth(bank, adds, top, "ASC"),
            "untried": _untried(bank, adds, top),
            "harmful": {"memories": len(worst), "worst": worst[:top]},
            "poisoned": _poisoned(bank, [row["id"] for row in worst], untrusted, top),
            "duplicates": duplicates.find(bank, near=near, top=top),
            "replaced_by_nothing": _replaced_by_nothing(bank, top),
            "masked": _masked(bank),
            "unsettled": _unsettled(bank, top),
            "credit": {"by_outcome": _by_outcome(bank), "by_memory": _by_memory(bank)},
            "growth": _growth(bank),
            "bytes": bank.store.sizes(),
            "acts": _acts(bank, top),
        }
    data["warnings"] = [*data["warnings"], *_warnings(data)]
    return data


def _warnings(d: dict[str, Any]) -> list[str]:
    found = []
    if d["harmful"]["memories"]:
        names = ", ".join(row["id"] for row in d["harmful"]["worst"][:5])
        found.append(f"{count(d['harmful']['memories'], 'memory seems', 'memories seem')} to do harm: {names}")
    if d["poisoned"]["memories"]:
        found.append(
            f"{count(d['poisoned']['memories'], 'memory in use descends', 'memories in use descend')} from what is "
            "quarantined, harmful or of an untrusted source"
        )
    judged = d["credit"]["by_outcome"]
    soft = sum(row["share"] for name, row in judged.items() if name in ("judge", "proxy"))
    if soft > 0.5:
        found.append(f"{soft:.0%} of the credit rests on judges and proxies: rewards of judges drift, tests do not")
    doubled = d["duplicates"]["near"]["memories"]
    if doubled > 0.05 * max(20, d["items"]):
        found.append(f"{doubled} of {d['items']} memories are near duplicates of another")
    if d["replaced_by_nothing"]:
        names = ", ".join(row["id"] for row in d["replaced_by_nothing"][:5])
        found.append(f"replaced by memories that are out of recall themselves, so that neither is shown: {names}")
    if d["masked"]:
        found.append(
            f"{count(d['masked'], 'memory in use has', 'memories in use have')} what looked like a secret masked: see "
            "whether they still say what they should; Memory(mask=False) keeps texts as they are"
        )
    return found


Adds = dict[tuple[int, str], str]  # by memory and stage, in words


def _adds(bank: Bank) -> Adds:
    """What memories add that were ever left out, under the objective that ranks them."""
    if not bank.store.rows("SELECT 1 FROM value WHERE n_omitted > 0 LIMIT 1"):
        return {}
    span = bank.reward_range[1] - bank.reward_range[0]
    found = effects.by_stage(bank, bank.policy.objective)
    words = {at: effects.adds(e, span) for at, e in found.items()}
    versions = bank.store.rows("SELECT child, parent FROM provenance WHERE relation = 'updated'")
    stages = dict.fromkeys(stage for _, stage in words)
    return words | {
        (new, stage): words[old, stage] for new, old in versions for stage in stages if (old, stage) in words
    }


_ROWS = (
    f"SELECT m.seq, m.kind, m.source, k.body, b.body, m.q_init, coalesce(v.stage, ''), {events.JOINED} "
    "FROM memory m JOIN text_blob k ON k.hash = m.key_hash JOIN text_blob b ON b.hash = m.body_hash "
)


def _rows(bank: Bank, adds: Adds, where: str, args: Sequence[Any], values: str = EVERY_STAGE) -> list[dict[str, Any]]:
    rows = []
    for seq, kind, source, key, body, start, stage, *columns in bank.store.rows(
        f"{_ROWS} {values} {where}", (bank.policy.objective, bank.scope_id, *args)
    ):
        v = events.Value(*columns)
        effect = lift.marginal(*v.arms, bank.reward_range)
        rows.append(
            {
                "id": memory_id(seq),
                "kind": kind,
                "source": source,
                "key": short(key, 200),
                "body": short(body, 200),
                "stage": stage,
                "value": v.q,
                "start": start,
                "n": v.n,
                "n_omitted": v.n_omitted,
                "lift": effect.shrunk if effect.confidence > 0 else None,
                "adds": adds.get((seq, stage), ""),
            }
        )
    return rows


def _by_worth(bank: Bank, adds: Adds, top: int, order: str) -> list[dict[str, Any]]:
    """Tried memories by value, a line a stage, the extremes drawn to the middle where few outcomes speak for them.

    Most valuable are only those above the middle of the rewards that helped at least once; least valuable only those
    below it that had ``RANKED`` outcomes.
    """
    low, middle = bank.reward_range[0], (bank.reward_range[0] + bank.reward_range[1]) / 2
    worth = f"({middle!r} + (v.q - {middle!r}) * v.n / (v.n + 2.0))"
    tried = "WHERE m.scope_id = ? AND m.status = 'active' AND v.n > 0"
    if order == "ASC":
        tried += f" AND v.n >= {RANKED} AND v.q < {middle!r}"
    else:
        tried += f" AND v.q > {middle!r} AND (v.sum_r > {low!r} * v.n OR v.n_credit > 0)"
    return _rows(bank, adds, f"{tried} ORDER BY {worth} {order}, m.seq LIMIT ?", (top,))


def _untried(bank: Bank, adds: Adds, top: int) -> list[dict[str, Any]]:
    """The newest memories without an outcome."""
    return _rows(
        bank,
        adds,
        f"WHERE m.scope_id = ? AND m.status = 'active' AND {OWN} AND coalesce(v.n, 0) = 0 ORDER BY m.seq DESC LIMIT ?",
        (top,),
        MAIN_STAGE,
    )


def _harmful(bank: Bank, known_adds: Adds) -> list[dict[str, Any]]:
    """Active memories that lower the reward, worst first, where chance or another memory shows it."""
    span = bank.reward_range
    width = span[1] - span[0]
    rows = bank.store.rows(
        f"SELECT m.seq, v.objective, v.stage, m.source, {events.JOINED} FROM value v JOIN memory m "
        "ON m.seq = v.memory_id WHERE m.scope_id = ? AND m.status = 'active' ORDER BY m.seq",
        (bank.scope_id,),
    )
    records = [
        (seq, objective, stage, source, events.Value(*columns)) for seq, objective, stage, source, *columns in rows
    ]
    known: dict[tuple[str, str], list[Outcomes]] = {}
    for _, objective, stage, _, v in records:
        known.setdefault((objective, stage), []).append(lift.outcomes(v.n, v.sum_r, span))
    best = {at: [some[i] for i in lift.best_record(some)] for at, some in known.items()}
    found = []
    for seq, objective, stage, source, v in records:
        x, some = lift.outcomes(v.n, v.sum_r, span), best[objective, stage]
        other = next((o for o in some if o != x), lift.NO_OUTCOMES)
        measured, beside = lift.harms(v.arms, span), max(1, len(known[objective, stage]) - 1)
        if not measured and not (lift.fails(v.n, v.sum_r, span) and lift.worse(x, other, beside)):
            continue
        effect = lift.marginal(*v.arms, span)
        said = known_adds.get((seq, stage), "") if objective == bank.policy.objective else ""
        said = said or "outcomes without it were better"
        adds = f"{said} (with it {v.n}, without it {v.n_omitted} outcomes)"
        mean, theirs = (in_units(span[0] + width * o.total / max(o.n, 1.0), width, 2) for o in (x, other))
        found.append(
            {
                "id": memory_id(seq),
                "objective": objective,
                "stage": stage,
                "source": source,
                "value": v.q,
                "n": v.n,
                "n_omitted": v.n_omitted,
                "lift": effect.shrunk if effect.confidence > 0 else None,
                "why": adds if measured else f"mean {mean} of {v.n} outcomes, where another memory has {theirs}",
            }
        )
    return sorted(found, key=lambda row: (row["lift"] if row["lift"] is not None else 0.0, row["value"]))


def _poisoned(bank: Bank, harmful: Iterable[str], untrusted: Sequence[str], top: int) -> dict[str, Any]:
    """Active memories that were written under the influence of one that is not to be trusted, nearest first."""
    roots: dict[int, str] = {}
    for source in untrusted:
        rows = bank.store.rows(
            f"SELECT seq FROM memory m WHERE scope_id = ? AND source = ? AND {OWN}", (bank.scope_id, source)
        )
        roots |= {seq: f"source {source}" for (seq,) in rows}
    roots |= {int(id_[1:]): "harmful" for id_ in harmful}
    rows = bank.store.rows(
        f"SELECT seq FROM memory m WHERE scope_id = ? AND status = 'quarantined' AND {OWN} ORDER BY seq",
        (bank.scope_id,),
    )
    roots |= {seq: "quarantined" for (seq,) in rows}
    below = descendants_of(bank, sorted(roots))
    active = [
        seq for (seq,) in bank.store.rows_among("SELECT seq FROM memory WHERE status = 'active' AND seq IN ({})", below)
    ]
    named = sorted((below[seq][1], seq) for seq in active)
    return {
        "roots": len(roots),
        "memories": len(active),
        "nearest": [
            {"id": memory_id(seq), "root": memory_id(below[seq][0]), "why": roots[below[seq][0]], "depth": depth}
            for depth, seq in named[:top]
        ],
    }


def _replaced_by_nothing(bank: Bank, top: int) -> list[dict[str, str]]:
    rows = bank.store.rows(
        "SELECT m.seq, s.seq, s.status FROM memory m JOIN memory s ON s.seq = m.superseded_by WHERE m.scope_id = ? "
        "AND m.status = 'superseded' AND s.status IN ('archived', 'quarantined') ORDER BY m.seq LIMIT ?",
        (bank.scope_id, top),
    )
    return [{"id": memory_id(seq), "by": memory_id(by), "which_is": status} for seq, by, status in rows]


def _masked(bank: Bank) -> int:
    held = (f"%{MASK}%",) * 3
    sql = (
        "SELECT count(*) FROM memory m JOIN text_blob k ON k.hash = m.key_hash "
        "JOIN text_blob b ON b.hash = m.body_hash "
        f"WHERE m.scope_id = ? AND m.status = 'active' AND {OWN} AND (k.body LIKE ? OR b.body LIKE ? OR m.meta LIKE ?)"
    )
    return bank.store.rows(sql, (bank.scope_id, *held))[0][0]


def _unsettled(bank: Bank, top: int) -> dict[str, Any]:
    """Receipts that showed something and never had a valid outcome, oldest first; tests of values apart."""
    open_ = (
        "FROM recall r WHERE r.scope_id = ? AND NOT r.is_test AND EXISTS (SELECT 1 FROM recall_item i "
        "WHERE i.recall_id = r.seq AND i.shown) AND NOT EXISTS (SELECT 1 FROM outcome o WHERE o.recall_id = r.seq "
        "AND o.valid AND o.replaced_by IS NULL)"
    )
    count = bank.store.rows(f"SELECT count(*) {open_}", (bank.scope_id,))[0][0]
    rows = bank.store.rows(f"SELECT r.seq, r.created_at {open_} ORDER BY r.seq LIMIT ?", (bank.scope_id, top))
    return {"receipts": count, "oldest": [{"id": receipt_id(seq), "at": at} for seq, at in rows]}


def _by_outcome(bank: Bank) -> dict[str, dict[str, Any]]:
    """Outcomes and the credit they gave, by who said so; ``share`` of all movement of values."""
    sources = {
        row.pop("source"): row
        for row in bank.store.records(
            "SELECT source, count(*) AS outcomes, count(*) FILTER (WHERE NOT valid) AS invalid, "
            "avg(reward) FILTER (WHERE valid) AS mean_reward FROM outcome WHERE scope_id = ? "
            "AND replaced_by IS NULL GROUP BY source "
            "ORDER BY source",
            (bank.scope_id,),
        )
    }
    moved = _moved(bank, "o.source")
    for source, row in sources.items():
        n, size, _, share = moved.get(source, _NOT_MOVED)
        row |= {"credits": n, "moved": size, "share": share}
    return sources


def _by_memory(bank: Bank) -> dict[str, dict[str, Any]]:
    """Memories and the credit they got, by who wrote them."""
    sources = {
        row.pop("source"): row
        for row in bank.store.records(
            "SELECT m.source, count(DISTINCT m.seq) AS memories, "
            "count(DISTINCT m.seq) FILTER (WHERE m.status = 'active') AS active, "
            "count(DISTINCT m.seq) FILTER (WHERE m.status = 'quarantined') AS quarantined, "
            "count(DISTINCT m.seq) FILTER (WHERE v.n > 0) AS tried, avg(v.q) FILTER (WHERE v.n > 0) AS mean_value "
            f"FROM memory m {EVERY_STAGE} WHERE m.scope_id = ? AND {OWN} GROUP BY m.source ORDER BY m.source",
            (bank.policy.objective, bank.scope_id),
        )
    }
    moved = _moved(bank, "m.source")
    for source, row in sources.items():
        n, _, net, share = moved.get(source, _NOT_MOVED)
        row |= {"credits": n, "net": net, "share": share}
    return sources


def _moved(bank: Bank, who: str) -> dict[str, tuple[int, float, float, float]]:
    """By a column: changes of values, how much in all, what was left of that, and its share of all movement."""
    rows = bank.store.rows(
        f"SELECT {who}, count(*), sum(abs(e.q_after - e.q_before)), sum(e.q_after - e.q_before) FROM value_event e "
        "JOIN outcome o ON o.outcome_id = e.outcome_id JOIN memory m ON m.seq = e.memory_id "
        f"WHERE m.scope_id = ? AND e.rule <> 'omitted' AND {events.COUNTS} GROUP BY {who}",
        (bank.scope_id,),
    )
    total = sum(size for _, _, size, _ in rows)
    return {name: (n, size, net, size / total if total > 0 else 0.0) for name, n, size, net in rows}


def _growth(bank: Bank) -> dict[str, list[float]]:
    """How many memories, receipts and outcomes there were at up to 40 moments, evenly from the first to the last."""
    times = {
        name: np.sort(
            np.array(
                [row[0] for row in bank.store.rows(f"SELECT created_at FROM {rows} scope_id = ?", (bank.scope_id,))]
            )
        )
        for name, rows in (
            ("memories", f"memory m WHERE {OWN} AND"),
            ("receipts", "recall WHERE"),
            ("outcomes", "outcome WHERE"),
        )
    }
    ends = [float(end) for at in times.values() if len(at) for end in (at[0], at[-1])]
    if not ends:
        return {"at": [], **{name: [] for name in times}}
    edges = np.linspace(min(ends), max(ends), _GROWTH_STEPS) if max(ends) > min(ends) else np.array([max(ends)])
    counted = {name: np.searchsorted(at, edges, side="right").tolist() for name, at in times.items()}
    return {"at": edges.tolist(), **counted}


def _acts(bank: Bank, top: int) -> list[dict[str, Any]]:
    """The latest acts of mending, newest first; archives and supersessions of single memories among them."""
    verbs = (*VERBS.values(), "rollback", "revise", "compact", "undo")  # the last: of older versions
    found: list[dict[str, Any]] = []
    lines = range(0)  # of the log that tell of single memories, and belong to an act that is listed
    for seq, verb, target, at, body in bank.store.rows(
        f"SELECT seq, verb, target, created_at, detail FROM audit WHERE scope_id = ? AND verb IN ({marks(len(verbs))}) "
        "ORDER BY seq DESC",
        (bank.scope_id, *verbs),
    ):
        if seq in lines:
            continue
        if len(found) == top:
            break
        details = json.loads(body)
        first, last = details.get("lines", (1, 0))
        lines = range(first, last + 1)
        one, of = (target != "*"), details.get("target", "") if target == "*" else target
        found.append(
            {
                "id": f"a{seq}",
                "verb": verb,
                "target": of,
                "reason": str(details.get("reason", "")),
                "at": at,
                "memories": 1 if one else len(lines),
            }
        )
    return found
