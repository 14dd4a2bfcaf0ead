"""Whether the learning is alive, in numbers that are cheap enough to look at after every task."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from evolvent.memory.bank import Bank
from evolvent.memory.embedders import gate_of
from evolvent.memory.events import OF_VALUE
from evolvent.memory.keys import OWN
from evolvent.memory.rule import rule_of

# values of a memory under the policy's objective: a row for each stage
EVERY_STAGE = f"LEFT JOIN value v ON v.memory_id = {OF_VALUE} AND v.objective = ?"
# one row a memory: of the stage with the most outcomes, of equal ones the stage that solves
MAIN_STAGE = (
    f"{EVERY_STAGE} AND v.stage = (SELECT w.stage FROM value w WHERE w.memory_id = v.memory_id "
    "AND w.objective = v.objective ORDER BY w.n DESC, CASE WHEN w.stage = 'solve' THEN 0 ELSE 1 END, w.stage LIMIT 1)"
)
# status of a memory at the time that is its argument
STATUS = "CASE WHEN m.status = 'active' AND m.expires_at <= ? THEN 'expired' ELSE m.status END"


def health(bank: Bank) -> dict[str, Any]:
    """Numbers that show whether values are learning; ``warnings`` says in words what looks wrong."""
    bank.check_scope()
    store, scope = bank.store, bank.scope_id
    groups = store.records(
        f"SELECT {STATUS} AS status, m.source, count(DISTINCT m.seq) AS items, "
        "count(DISTINCT m.seq) FILTER (WHERE v.n > 0) AS tried, count(*) FILTER (WHERE v.n > 0) AS known, "
        "count(DISTINCT m.seq) FILTER (WHERE v.q <> m.q_init) AS moved, "
        "CAST(coalesce(sum(v.n), 0) AS BIGINT) AS updates, coalesce(sum(v.q) FILTER (WHERE v.n > 0), 0.0) AS worth, "
        "count(DISTINCT m.seq) FILTER (WHERE m.status = 'active' "
        "AND NOT EXISTS (SELECT 1 FROM recall_item i WHERE i.memory_id = m.seq AND i.shown)) AS never_shown "
        f"FROM memory m {EVERY_STAGE} WHERE m.scope_id = ? AND {OWN} GROUP BY 1, 2 ORDER BY 2, 1",
        (time.time(), bank.policy.objective, scope),
    )
    active = {
        name: sum(row[name] for row in groups if row["status"] == "active")
        for name in ("items", "tried", "moved", "updates", "never_shown")
    }
    by_status, sources, known = dict[str, int](), dict[str, dict[str, Any]](), dict[str, int]()
    for row in groups:
        by_status[row["status"]] = by_status.get(row["status"], 0) + row["items"]
        totals = sources.setdefault(row["source"], {"items": 0, "tried": 0, "mean_value": 0.0})
        totals["items"], totals["tried"] = totals["items"] + row["items"], totals["tried"] + row["tried"]
        totals["mean_value"] += row["worth"]
        known[row["source"]] = known.get(row["source"], 0) + row["known"]
    for name, totals in sources.items():
        # rounded: engines add in another order
        totals["mean_value"] = round(totals["mean_value"] / known[name], 9) if known[name] else None
    total = max(1, active["items"])
    bank.index.catch_up()
    data: dict[str, Any] = {
        "items": active["items"],
        "by_status": dict(sorted(by_status.items())),
        "coverage": active["tried"] / total,
        "nonzero": active["moved"] / total,
        "updates_per_item": active["updates"] / total,
        "never_shown": active["never_shown"],
        "stages": _stages(bank),
        **store.records(
            "SELECT (SELECT count(*) FROM recall WHERE scope_id = s.scope_id) AS recalls, "
            "(SELECT count(*) FROM recall WHERE scope_id = s.scope_id AND is_test) AS test_recalls, "
            "(SELECT count(*) FROM recall WHERE scope_id = s.scope_id AND n_pool = 0) AS empty_recalls, "
            "(SELECT count(DISTINCT recall_id) FROM outcome WHERE scope_id = s.scope_id AND valid "
            "AND replaced_by IS NULL) AS settled, "
            "(SELECT count(*) FROM outcome WHERE scope_id = s.scope_id AND NOT valid) AS invalid_outcomes, "
            "(SELECT CAST(coalesce(sum(merged), 0) AS BIGINT) FROM memory WHERE scope_id = s.scope_id) AS merged "
            "FROM scope s WHERE s.scope_id = ?",
            (scope,),
        )[0],
        "sources": sources,
        "gate": gate_of(bank.embedder) if bank.policy.gate is None else bank.policy.gate,
        "gate_top_fifth": _gate_of_top_fifth(bank),
        "index": bank.index.about(),
    }
    data["warnings"] = _of_health(data, learns=rule_of(bank.policy).credit is not None)
    return data


def _stages(bank: Bank) -> dict[str, dict[str, Any]]:
    """By stage: active memories with an outcome there, their outcomes, and their mean value."""
    rows = bank.store.rows(
        f"SELECT v.stage, count(*), CAST(sum(v.n) AS BIGINT), sum(v.q) FROM memory m {EVERY_STAGE} WHERE "
        f"m.scope_id = ? AND m.status = 'active' AND {OWN} AND v.n > 0 GROUP BY v.stage ORDER BY v.stage",
        (bank.policy.objective, bank.scope_id),
    )
    return {
        stage: {"tried": n, "updates": updates, "mean_value": round(worth / n, 9)} for stage, n, updates, worth in rows
    }


def _of_health(d: dict[str, Any], *, learns: bool) -> list[str]:
    found = []
    learning = d["recalls"] - d["test_recalls"]
    # of a store that holds the notes of others alone, nothing is its own
    if learns and d["items"] and d["settled"] >= 50 and d["coverage"] < 0.05:
        found.append("fewer than 5 % of the memories ever had an outcome: is settle() called for every task?")
    if learning >= 50 and d["settled"] < 0.1 * learning:
        found.append("fewer than 10 % of the recalls were settled: values learn from settled recalls only")
    if d["recalls"] >= 50 and d["items"] >= 10 and d["empty_recalls"] > 0.5 * d["recalls"]:
        found.append("more than half of the recalls found nothing above the gate: it may not suit this embedder")
    if d["index"]["trouble"]:
        found.append(f"recalls of this large store are slower than they could be: {d['index']['trouble']}")
    return found


def _gate_of_top_fifth(bank: Bank, most: int = 300) -> float | None:
    """The cosine above which the top 20 % of pairs of keys lie (how MemRL sets its gate), from the newest 300 keys."""
    rows = bank.store.rows(
        "SELECT DISTINCT e.emb_id, e.vec FROM (SELECT emb_id FROM memory WHERE +scope_id = ? AND status = 'active' "
        "ORDER BY seq DESC LIMIT ?) m JOIN embedding e ON e.emb_id = m.emb_id ORDER BY e.emb_id",
        (bank.scope_id, most),
    )
    if len(rows) < 3:
        return None
    vec_ND = np.stack([np.frombuffer(vec, "<f4") for _, vec in rows])
    sim = (vec_ND @ vec_ND.T)[np.triu_indices(len(vec_ND), 1)]
    return float(np.round(np.quantile(sim, 0.8), 3))
