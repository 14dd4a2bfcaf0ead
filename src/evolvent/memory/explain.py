"""The verb explain: who paid whom, when and why; and the health of a scope in numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.memory import events, lift
from evolvent.memory.bank import Bank
from evolvent.memory.items import Explanation, Item, memory_id, receipt_id
from evolvent.memory.policies import start_value

_HISTORY = 200  # events told per memory; all of them are in the store


def items(
    bank: Bank, condition: str, args: Sequence[Any], objective: str | None = None, stage: str = "solve"
) -> list[Item]:
    """Stored memories that meet a condition on table m, with their value under one objective and stage."""
    objective = objective or bank.policy.objective
    rows = bank.store.rows(
        "SELECT m.seq, k.body, b.body, m.kind, m.polarity, m.source, m.status, m.superseded_by, m.content_version, m.merged, "
        "m.created_at, (SELECT group_concat(parent) FROM (SELECT DISTINCT parent FROM provenance p WHERE p.child = m.seq "
        f"AND relation <> 'revised' ORDER BY parent)), {events.JOINED} "
        "FROM memory m JOIN text_blob k ON k.hash = m.key_hash JOIN text_blob b ON b.hash = m.body_hash "
        "LEFT JOIN value v ON v.memory_id = m.seq AND v.objective = ? AND v.stage = ? "
        f"WHERE m.scope_id = ? AND {condition} ORDER BY m.seq",
        (objective, stage, bank.scope_id, *args),
    )
    found = []
    for row in rows:
        v = events.Value(*row[12:])
        effect = lift.marginal(v.evidence, bank.reward_range)
        found.append(
            Item(
                id=memory_id(row[0]), key=row[1], body=row[2], kind=row[3], polarity=row[4], source=row[5], status=row[6],
                value=v.q, n=v.n, uncertainty=events.uncertainty(v, bank.reward_range),
                lift=effect.shrunk if effect.confidence > 0 else None, n_omitted=v.n_omitted,
                parents=tuple(memory_id(int(p)) for p in row[11].split(",")) if row[11] else (),
                superseded_by=memory_id(row[7]) if row[7] else None, content_version=row[8], merged=row[9], created_at=row[10],
            )
        )  # fmt: skip
    return found


def of_memory(bank: Bank, seq: int) -> Explanation:
    """Everything about one memory: values by objective and stage, the events that made them, relatives, showings."""
    id_ = memory_id(seq)
    item = items(bank, "m.seq = ?", (seq,))[0]
    values = []
    for objective, stage in bank.store.rows(
        "SELECT objective, stage FROM value WHERE memory_id=? ORDER BY objective, stage", (seq,)
    ):
        v, q_init, _ = events.load(bank.store, [seq], objective, stage)[seq]
        effect = lift.marginal(v.evidence, bank.reward_range)
        values.append(
            {"objective": objective, "stage": stage, "q_init": q_init, **v._asdict(),
             "uncertainty": events.uncertainty(v, bank.reward_range),
             "effect": {"raw": effect.raw, "confidence": effect.confidence, "spread": effect.spread}}
        )  # fmt: skip
    history = [
        {"event": e[0], "receipt": receipt_id(e[1]), "rule": e[2], "depth": e[3], "weight": e[4], "reward": e[5],
         "q_before": e[6], "q_after": e[7], "source": e[8], "objective": e[9], "stage": e[10], "at": e[11], "task": e[12]}
        for e in bank.store.rows(
            "SELECT e.seq, e.recall_id, e.rule, e.depth, e.weight, e.reward, e.q_before, e.q_after, o.source, e.objective, e.stage, "
            "e.created_at, t.body FROM value_event e JOIN outcome o USING(outcome_id) JOIN recall r ON r.seq = e.recall_id "
            "JOIN text_blob t ON t.hash = r.query_hash WHERE e.memory_id=? ORDER BY e.seq DESC LIMIT ?",
            (seq, _HISTORY),
        )
    ]  # fmt: skip
    relatives = {
        name: [{"id": memory_id(m), "relation": relation} for m, relation in bank.store.rows(sql, (seq,))]
        for name, sql in (
            ("parents", "SELECT parent, relation FROM provenance WHERE child=? ORDER BY parent"),
            ("children", "SELECT child, relation FROM provenance WHERE parent=? ORDER BY child"),
        )
    }
    counts = bank.store.row(
        "SELECT count(*), coalesce(sum(selected), 0), coalesce(sum(shown), 0), coalesce(sum(omitted), 0) FROM recall_item WHERE memory_id=?",
        (seq,),
    )
    log = [
        {"verb": verb, "at": at, **json.loads(detail)}
        for verb, detail, at in bank.store.rows(
            "SELECT verb, detail, created_at FROM audit WHERE scope_id=? AND target=? ORDER BY seq",
            (bank.scope_id, id_),
        )
    ]
    told = dict(zip(("considered", "selected", "shown", "omitted"), counts or (0, 0, 0, 0), strict=True))
    made = bank.store.row("SELECT made_in, q_init FROM memory WHERE seq=?", (seq,)) or (None, 0.0)
    data: dict[str, Any] = {
        "id": id_, "key": item.key, "body": item.body, "kind": item.kind, "polarity": item.polarity, "source": item.source,
        "status": item.status, "superseded_by": item.superseded_by, "content_version": item.content_version,
        "merged": item.merged, "made_in": receipt_id(made[0]) if made[0] else None, "q_init": made[1],
        "created_at": item.created_at, "values": values, "recalls": told, **relatives, "audit": log, "history": history,
    }  # fmt: skip
    return Explanation(id_, data, _memory_text(data))


def _memory_text(d: dict[str, Any]) -> str:
    lines = [
        f"{d['id']} ({d['kind']}, {d['polarity']}, from {d['source']}, {d['status']})",
        f"  key   {_short(d['key'])}",
    ]
    lines.append(f"  body  {_short(d['body'])}")
    for v in d["values"]:
        text = f"  value {v['q']:.3f} ± {v['uncertainty']:.3f} after {v['n']} outcomes (start {v['q_init']:g})"
        if v["effect"]["confidence"] > 0:
            text += f"; adds {v['effect']['raw']:+.3f} ({v['n_omitted']} outcomes without it)"
        lines.append(text + f"  [{v['objective']}/{v['stage']}]")
    if not d["values"]:
        lines.append(f"  value {d['q_init']:.3f}: no outcome yet")
    r = d["recalls"]
    lines.append(
        f"  was a candidate {r['considered']} times, selected {r['selected']}, shown {r['shown']}, left out {r['omitted']}"
    )
    for name in ("parents", "children"):
        if d[name]:
            lines.append(f"  {name} " + ", ".join(f"{x['id']} ({x['relation']})" for x in d[name][:12]))
    lines += [
        f"  {a['verb']}: " + ", ".join(f"{k} {v}" for k, v in a.items() if k not in ("verb", "at"))
        for a in d["audit"][-5:]
    ]
    for e in d["history"][:8]:
        how = {"shown": "shown", "omitted": "left out", "ancestor": f"ancestor, {e['depth']} back"}[e["rule"]]
        lines.append(
            f"  {e['receipt']:>6} reward {e['reward']:g} ({e['source']}): {how}, "
            f"{e['q_before']:.3f} → {e['q_after']:.3f}   {_short(e['task'], 60)}"
        )
    return "\n".join(lines)


def of_recall(bank: Bank, number: int) -> Explanation:
    """Everything about one receipt: the query, every candidate with its score, what was shown, and what it earned."""
    row = bank.store.row(
        "SELECT t.body, r.stage, r.policy, r.params, r.rng_seed, r.frozen, r.is_test, r.explored, r.store_seq, r.event_seq, "
        "r.n_scanned, r.n_pool, r.created_at FROM recall r JOIN text_blob t ON t.hash = r.query_hash WHERE r.seq=?",
        (number,),
    )
    assert row is not None
    names = (
        "rank",
        "sim",
        "q",
        "value",
        "n",
        "z_sim",
        "z_q",
        "bonus",
        "score",
        "selected",
        "omitted",
        "propensity",
        "shown",
    )
    pool = [
        {"id": memory_id(c[0]), "key": c[1], **dict(zip(names, c[2:], strict=True))}
        for c in bank.store.rows(
            f"SELECT i.memory_id, k.body, {', '.join('i.' + n for n in names)} FROM recall_item i "
            "JOIN memory m ON m.seq = i.memory_id JOIN text_blob k ON k.hash = m.key_hash WHERE i.recall_id=? ORDER BY i.rank",
            (number,),
        )
    ]
    outcomes = [
        {"objective": o[0], "source": o[1], "reward": o[2], "valid": bool(o[3]), "idempotency_key": o[4], "at": o[5],
         "action": o[6]}
        for o in bank.store.rows(
            "SELECT o.objective, o.source, o.reward, o.valid, o.idempotency_key, o.created_at, t.body FROM outcome o "
            "LEFT JOIN text_blob t ON t.hash = o.action_hash WHERE o.recall_id=? ORDER BY o.outcome_id",
            (number,),
        )
    ]  # fmt: skip
    changes = [
        {
            "id": memory_id(c[0]),
            **dict(zip(("objective", "rule", "depth", "weight", "q_before", "q_after"), c[1:], strict=True)),
        }
        for c in bank.store.rows(
            "SELECT memory_id, objective, rule, depth, weight, q_before, q_after FROM value_event WHERE recall_id=? ORDER BY seq",
            (number,),
        )
    ]
    keys = ("query", "stage", "policy", "params", "rng_seed", "frozen", "is_test", "explored", "store_seq", "event_seq",
            "n_scanned", "n_pool", "created_at")  # fmt: skip
    data: dict[str, Any] = {"id": receipt_id(number), **dict(zip(keys, row, strict=True))}
    data["params"] = json.loads(data["params"])
    data |= {"pool": pool, "outcomes": outcomes, "changes": changes}
    return Explanation(data["id"], data, _recall_text(data))


def _recall_text(d: dict[str, Any]) -> str:
    flags = "".join(f", {name}" for name in ("frozen", "is_test", "explored") if d[name])
    lines = [f"{d['id']} ({d['policy']}, stage {d['stage']}{flags})", f"  task  {_short(d['query'])}"]
    lines.append(f"  looked at {d['n_scanned']} memories, {d['n_pool']} passed the gate {d['params']['gate']:g}")
    for c in d["pool"]:
        fate = "shown" if c["shown"] else "left out" if c["omitted"] else "dropped" if c["selected"] else "not selected"
        lines.append(
            f"  {c['rank'] + 1:>3}. {c['id']:>5} similar {c['sim']:.2f}  value {c['value']:.2f} (n {c['n']})  score {c['score']:+.2f}"
            f"  {fate}  {_short(c['key'], 50)}"
        )
    for o in d["outcomes"]:
        reward = "no reward" if o["reward"] is None else f"reward {o['reward']:g}"
        lines.append(f"  outcome {reward} from {o['source']}" + ("" if o["valid"] else " (invalid: no credit)"))
    lines += [f"    {c['id']} {c['rule']}: {c['q_before']:.3f} → {c['q_after']:.3f}" for c in d["changes"]]
    return "\n".join(lines) + ("" if d["outcomes"] else "\n  not settled")


def health(bank: Bank) -> dict[str, Any]:
    """Numbers that show whether values are learning; ``warnings`` says in words what looks wrong."""
    active = items(bank, "m.status = 'active'", ())
    total = max(1, len(active))
    start = start_value(bank.policy, bank.reward_range)
    one = (
        bank.store.row(
            "SELECT (SELECT count(*) FROM recall WHERE scope_id=?1), (SELECT count(*) FROM recall WHERE scope_id=?1 AND is_test), "
            "(SELECT count(DISTINCT recall_id) FROM outcome WHERE scope_id=?1 AND valid), "
            "(SELECT count(*) FROM outcome WHERE scope_id=?1 AND NOT valid), "
            "(SELECT coalesce(sum(merged), 0) FROM memory WHERE scope_id=?1), "
            "(SELECT count(*) FROM recall WHERE scope_id=?1 AND n_pool = 0)",
            (bank.scope_id,),
        )
        or (0,) * 6
    )
    data: dict[str, Any] = {
        "items": len(active),
        "by_status": dict(bank.store.rows("SELECT status, count(*) FROM memory WHERE scope_id=? GROUP BY status", (bank.scope_id,))),
        "coverage": sum(i.n > 0 for i in active) / total,
        "nonzero": sum(i.value != start for i in active) / total,
        "updates_per_item": sum(i.n for i in active) / total,
        "never_shown": sum(i.n == 0 for i in active),
        "recalls": one[0], "test_recalls": one[1], "settled": one[2], "invalid_outcomes": one[3], "merged": one[4],
        "empty_recalls": one[5],
        "sources": {
            name: {"items": n, "tried": tried, "mean_value": mean}
            for name, n, tried, mean in bank.store.rows(
                "SELECT m.source, count(*), count(v.q), avg(v.q) FROM memory m LEFT JOIN value v ON v.memory_id = m.seq "
                "AND v.objective = ? AND v.stage = 'solve' AND v.n > 0 WHERE m.scope_id = ? GROUP BY m.source ORDER BY m.source",
                (bank.policy.objective, bank.scope_id),
            )
        },
        "gate": bank.policy.gate,
        "gate_top_fifth": _gate_of_top_fifth(bank),
    }  # fmt: skip
    warnings = []
    if data["settled"] >= 50 and data["coverage"] < 0.05:
        warnings.append(
            "fewer than 5 % of the memories ever had an outcome: is shown() or settle() called with every task?"
        )
    if data["recalls"] - data["test_recalls"] >= 50 and data["settled"] < 0.1 * (
        data["recalls"] - data["test_recalls"]
    ):
        warnings.append("fewer than 10 % of the recalls were settled: values learn from settled recalls only")
    if data["recalls"] >= 50 and data["items"] >= 10 and data["empty_recalls"] > 0.5 * data["recalls"]:
        warnings.append("more than half of the recalls found nothing above the gate: it may not suit this embedder")
    data["warnings"] = warnings
    return data


def _gate_of_top_fifth(bank: Bank, most: int = 300) -> float | None:
    """The similarity above which the top 20 % of pairs of keys lie (how MemRL sets its gate), from ≤ 300 keys."""
    rows = bank.store.rows(
        "SELECT DISTINCT e.vec FROM memory m JOIN embedding e USING(emb_id) WHERE m.scope_id=? AND m.status='active' "
        "ORDER BY m.seq DESC LIMIT ?",
        (bank.scope_id, most),
    )
    if len(rows) < 3:
        return None
    vec_ND = np.stack([np.frombuffer(row[0], "<f4") for row in rows])
    sim = (vec_ND @ vec_ND.T)[np.triu_indices(len(vec_ND), 1)]
    return float(np.round(np.quantile(sim, 0.8), 3))


def _short(text: str, limit: int = 100) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
