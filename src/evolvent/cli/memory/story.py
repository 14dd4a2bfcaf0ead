"""What a page about a memory shows: values over time, provenance, and what was shown when. Plain data, bounded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from evolvent.cli.memory.audit import audit
from evolvent.memory import events
from evolvent.memory.bank import Bank
from evolvent.memory.events import OF_VALUE
from evolvent.memory.health import MAIN_STAGE
from evolvent.memory.items import memory_id, receipt_id
from evolvent.memory.memory import Memory
from evolvent.memory.store.engine import marks
from evolvent.memory.text import short

_CHARTS, _POINTS = 6, 240  # memories of each kind, events of each
_NODES = 48
_ROWS, _COLUMNS = 36, 96  # memories by columns of receipts


def story(memory: Memory, *, untrusted: Sequence[str] = (), near: float = 0.95) -> dict[str, Any]:
    """The audit with pictures' worth of data.

    Args:
        memory: the memory; its scope alone is shown.
        untrusted: see ``audit``.
        near: see ``audit``.

    Returns:
        ``scope``, ``store``, ``reward_range``, ``audit``; ``charts``: values over time; ``graph``: nodes and edges
        of provenance around quarantined memories and those with the most credit; ``strip``: memories by receipts. Its
        size does not grow with the store.
    """
    bank = memory.bank
    with bank.store.snapshot():
        audited = audit(memory, top=20, untrusted=untrusted, near=near)
        good = [row["id"] for row in audited["most_valuable"]][:_CHARTS]
        harmful = list(dict.fromkeys(row["id"] for row in audited["harmful"]["worst"]))
        bad = [id_ for id_ in [*harmful, *(row["id"] for row in audited["least_valuable"])] if id_ not in good]
        bad = list(dict.fromkeys(bad))[:_CHARTS]
        return {
            "scope": bank.scope,
            "store": bank.store.where,
            "reward_range": list(bank.reward_range),
            "policy": bank.policy.name,
            "audit": audited,
            "charts": {
                "most valuable": [_chart(bank, int(id_[1:])) for id_ in good],
                "harmful or least valuable": [_chart(bank, int(id_[1:])) for id_ in bad],
            },
            "graph": _graph(bank, [*_quarantined(bank), *_most_credited(bank)]),
            "strip": _strip(bank, [int(id_[1:]) for id_ in harmful[:8]]),
        }


def _chart(bank: Bank, seq: int) -> dict[str, Any]:
    """Value of one memory, with its earlier versions, after each event, evenly thinned out; voided ones are marked."""
    at = (seq, bank.policy.objective)
    rows = bank.store.rows(
        f"SELECT e.recall_id, e.rule, e.reward, e.q_after, {events.COUNTS} FROM value_event e "
        f"JOIN memory m ON e.memory_id = {OF_VALUE} WHERE m.seq = ? AND e.objective = ? AND e.stage = 'solve' "
        "ORDER BY e.seq",
        at,
    )
    about = _about(bank, [seq])[0]
    step = max(1, -(-len(rows) // _POINTS))
    chosen = [row for i, row in enumerate(rows) if (len(rows) - 1 - i) % step == 0]
    points = [[number, rule, reward, q, bool(counts)] for number, rule, reward, q, counts in chosen]
    return {**about, "events": len(rows), "points": points}


def _about(bank: Bank, seqs: Sequence[int]) -> list[dict[str, Any]]:
    """Id, key, source, status, value and start of memories, in the order given."""
    found: dict[int, dict[str, Any]] = {}
    for seq, key, source, status, start, q, n in bank.store.rows(
        "SELECT m.seq, k.body, m.source, m.status, m.q_init, v.q, v.n FROM memory m "
        f"JOIN text_blob k ON k.hash = m.key_hash {MAIN_STAGE} WHERE m.seq IN ({marks(len(seqs))})",
        (bank.policy.objective, *seqs),
    ):
        value = start if q is None else q
        found[seq] = {
            "id": memory_id(seq),
            "key": short(key, 120),
            "source": source,
            "status": status,
            "start": start,
            "value": value,
            "n": n or 0,
        }
    return [found[seq] for seq in seqs if seq in found]


# ---------------------------------------------------------------------------------------------------- provenance
def _most_credited(bank: Bank) -> list[int]:
    """Memories with relatives whose values moved most."""
    rows = bank.store.rows(
        "SELECT e.memory_id, sum(abs(e.q_after - e.q_before)) AS moved FROM value_event e "
        f"JOIN memory m ON m.seq = e.memory_id WHERE m.scope_id = ? AND {events.COUNTS} AND ("
        "EXISTS (SELECT 1 FROM provenance p WHERE p.child = e.memory_id) OR "
        "EXISTS (SELECT 1 FROM provenance p WHERE p.parent = e.memory_id)) "
        "GROUP BY e.memory_id ORDER BY moved DESC, e.memory_id LIMIT 8",
        (bank.scope_id,),
    )
    found = [row[0] for row in rows]
    return found or [
        row[0]
        for row in bank.store.rows(
            "SELECT p.parent FROM provenance p JOIN memory m ON m.seq = p.parent WHERE m.scope_id = ? "
            "GROUP BY p.parent ORDER BY count(*) DESC, p.parent LIMIT 8",
            (bank.scope_id,),
        )
    ]


def _quarantined(bank: Bank) -> list[int]:
    """The quarantined memories with most relatives."""
    rows = bank.store.rows(
        "SELECT m.seq, count(*) FROM memory m JOIN provenance p ON p.parent = m.seq WHERE m.scope_id = ? "
        "AND m.status = 'quarantined' GROUP BY m.seq ORDER BY count(*) DESC, m.seq LIMIT 3",
        (bank.scope_id,),
    )
    return [row[0] for row in rows]


def _graph(bank: Bank, seeds: Sequence[int]) -> dict[str, Any]:
    """Relatives of some memories, nearest first, at most 48; ``more`` says how many were left out."""
    if not seeds:
        return {"nodes": [], "edges": [], "more": 0}
    chosen, edge, more = dict.fromkeys(seeds), list(seeds), 0
    while edge:
        fresh = [seq for seq in _relatives(bank, edge) if seq not in chosen]
        room = _NODES - len(chosen)
        more += max(0, len(fresh) - room)
        edge = fresh[: max(0, room)]
        chosen |= dict.fromkeys(edge)
    seqs = sorted(chosen)
    links = bank.store.rows(
        f"SELECT parent, child, relation FROM provenance WHERE parent IN ({marks(len(seqs))}) "
        f"AND child IN ({marks(len(seqs))}) ORDER BY child, parent, relation",
        (*seqs, *seqs),
    )
    edges = [[memory_id(parent), memory_id(child), relation] for parent, child, relation in links]
    return {"nodes": _about(bank, seqs), "edges": edges, "more": more}


def _relatives(bank: Bank, seqs: Sequence[int]) -> Iterable[int]:
    part = list(seqs)[:_NODES]
    rows = bank.store.rows(
        f"SELECT child FROM provenance WHERE parent IN ({marks(len(part))}) UNION "
        f"SELECT parent FROM provenance WHERE child IN ({marks(len(part))}) ORDER BY 1",
        (*part, *part),
    )
    return [row[0] for row in rows]


# ---------------------------------------------------------------------------------------------------- what was shown
def _strip(bank: Bank, harmful: Sequence[int]) -> dict[str, Any]:
    """Which memories were shown in which receipts, and what came of it; receipts are put together to 96 columns.

    ``cells``: ``[row, column, mean reward or None, shown, left out]``.
    """
    scope = bank.scope_id
    numbers = [
        row[0]
        for row in bank.store.rows(
            "SELECT seq FROM recall WHERE scope_id = ? AND NOT is_test AND n_pool > 0 ORDER BY seq", (scope,)
        )
    ]
    most = bank.store.rows(
        "SELECT i.memory_id, count(*) FROM recall_item i JOIN recall r ON r.seq = i.recall_id WHERE r.scope_id = ? "
        "AND NOT r.is_test AND i.shown GROUP BY i.memory_id ORDER BY count(*) DESC, i.memory_id LIMIT ?",
        (scope, _ROWS),
    )
    chosen = list(dict.fromkeys([*harmful, *(row[0] for row in most)]))[:_ROWS]
    if not numbers or not chosen:
        return {"rows": [], "columns": [], "cells": []}
    n, width = len(numbers), min(len(numbers), _COLUMNS)
    place = {number: i * width // n for i, number in enumerate(numbers)}
    row_of = {seq: i for i, seq in enumerate(sorted(chosen))}
    sums: dict[tuple[int, int], list[float]] = {}
    for number, seq, shown, omitted, reward in bank.store.rows(
        "SELECT i.recall_id, i.memory_id, i.shown, i.omitted, o.reward FROM recall_item i "
        "JOIN recall r ON r.seq = i.recall_id LEFT JOIN outcome o ON o.recall_id = i.recall_id AND o.valid "
        "AND o.replaced_by IS NULL "
        f"AND o.objective = ? WHERE NOT r.is_test AND i.memory_id IN ({marks(len(chosen))}) AND (i.shown OR i.omitted)",
        (bank.policy.objective, *chosen),
    ):
        cell = sums.setdefault((row_of[seq], place[number]), [0.0, 0, 0, 0])
        cell[2] += bool(shown)
        cell[3] += bool(omitted)
        if shown and reward is not None:
            cell[0] += reward
            cell[1] += 1
    first = [numbers[-(-column * n // width)] for column in range(width)]
    return {
        "rows": _about(bank, sorted(chosen)),
        "columns": [receipt_id(number) for number in first],
        "cells": [
            [row, column, total / count if count else None, int(shown), int(left)]
            for (row, column), (total, count, shown, left) in sorted(sums.items())
        ],
    }
