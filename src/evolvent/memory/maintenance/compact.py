"""Compacting: rows that nothing needs leave the store for good.

What nothing needs: candidates of old receipts that were not selected (they were never shown, never credited, and only
explain what the recall looked at), texts and vectors that no row refers to, and, when it is said from which age on,
receipts that got no outcome.
"""

from __future__ import annotations

import json
import time
from datetime import timedelta

from evolvent.memory import keys
from evolvent.memory.bank import Bank
from evolvent.memory.maintenance import emptying, erase
from evolvent.memory.maintenance.act import Act, Mended, perform
from evolvent.memory.store.engine import Store, put_text
from evolvent.memory.text import finite, whole

# (table, key, which rows), each after those that refer to it
_UNUSED = (
    (
        "embedding",
        "emb_id",
        "SELECT emb_id FROM embedding EXCEPT SELECT emb_id FROM memory EXCEPT SELECT emb_id FROM recall",
    ),
    (
        "text_blob",
        "hash",
        "SELECT hash FROM text_blob EXCEPT SELECT key_hash FROM memory EXCEPT SELECT body_hash FROM memory EXCEPT "
        "SELECT query_hash FROM recall EXCEPT SELECT action_hash FROM outcome EXCEPT SELECT text_hash FROM embedding",
    ),
)
_EXPIRED = "SELECT seq FROM memory WHERE scope_id = ? AND status = 'active' AND expires_at <= ? ORDER BY seq"
_NOT_SELECTED = (
    "FROM recall_item WHERE NOT selected AND recall_id IN (SELECT seq FROM recall WHERE scope_id = ? AND seq <= ?)"
)


def compact(bank: Bank, *, keep: int, unsettled: timedelta | float | None = None, dry_run: bool) -> Mended:
    """``Memory.compact``: one scope is trimmed; texts and vectors that nothing refers to go from the whole store."""
    whole(keep, what="keep", where="compact")
    before = None if unsettled is None else time.time() - _age(unsettled)
    if before is not None:
        erase.alone(bank.store, "compact(unsettled=…)")
    newest = bank.store.rows(
        "SELECT seq FROM recall WHERE scope_id = ? ORDER BY seq DESC LIMIT 1 OFFSET ?",
        (bank.scope_id, min(keep, 1 << 62)),
    )
    last = newest[0][0] if newest else 0

    def change(act: Act) -> None:
        # keys that only the log of merges refers to stay
        merged = keys.merged(bank.store.rows("SELECT detail FROM audit WHERE verb = 'merge'"))
        at = (bank.scope_id, last)
        if before is not None:
            _unsettled_removed(bank, act, before)
        with bank.store.write() as db:
            act.removed.setdefault("recall_item", 0)
            act.removed["recall_item"] += bank.store.rows(f"SELECT count(*) {_NOT_SELECTED}", at)[0][0]
            db.execute(f"DELETE {_NOT_SELECTED}", at)
            for table, key, unused in _UNUSED:
                gone = [row for row in bank.store.rows(unused) if row[0] not in merged]
                db.executemany(f"DELETE FROM {table} WHERE {key} = ?", gone)
                act.removed[table] = act.removed.get(table, 0) + len(gone)
        act.set_status([seq for (seq,) in act.rows(_EXPIRED, time.time())], "archived")
        act.extra["until"] = last

    done = perform(bank, "compact", bank.scope, "compact", change, dry_run)
    if done.act is not None:
        bank.store.shrink()
    if before is not None and not dry_run:
        erase.rewritten(bank.store)
    return done


def _age(unsettled: timedelta | float) -> float:
    seconds = unsettled.total_seconds() if isinstance(unsettled, timedelta) else unsettled
    return finite(seconds, what="the age of receipts", where="compact(unsettled=…)", lo=0.0)


def _unsettled_removed(bank: Bank, act: Act, before: float) -> None:
    """Receipts of the scope that are older than a time, and for which nobody reported anything."""
    found = act.rows(
        "SELECT r.seq FROM recall r WHERE r.scope_id = ? AND r.created_at < ? AND NOT EXISTS "
        "(SELECT 1 FROM outcome o WHERE o.recall_id = r.seq) ORDER BY r.seq",
        before,
    )
    if found:
        with bank.store.write() as db, emptying.indexed(db, len(found)):
            put_text(db, emptying.NOTHING, "")
            emptying.receipts_emptied(db, bank, act, [seq for (seq,) in found])
            erase.to_rewrite(bank.store)


def trimmed(store: Store) -> dict[int, int]:
    """By scope, the last receipt that a compaction looked at: up to it, candidates that were not selected may lack."""
    found: dict[int, int] = {}
    for scope_id, detail in store.rows("SELECT scope_id, detail FROM audit WHERE verb = 'compact'"):
        found[scope_id] = max(found.get(scope_id, 0), json.loads(detail).get("until", 0))
    return found
