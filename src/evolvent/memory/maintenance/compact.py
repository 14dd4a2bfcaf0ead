"""Compacting: rows that nothing needs leave the store for good.

What nothing needs: candidates of old receipts that were not selected (they were never shown, never credited, and only
explain what the recall looked at), and texts and vectors that no row refers to.
"""

from __future__ import annotations

import json
import time

from evolvent.memory import keys
from evolvent.memory.bank import Bank
from evolvent.memory.maintenance.act import Act, Mended, perform
from evolvent.memory.store.engine import Store
from evolvent.memory.text import whole

# (table, key, which rows), each after those that refer to it
_UNUSED = (
    ("embedding", "emb_id",
     "SELECT emb_id FROM embedding EXCEPT SELECT emb_id FROM memory EXCEPT SELECT emb_id FROM recall"),
    ("text_blob", "hash",
     "SELECT hash FROM text_blob EXCEPT SELECT key_hash FROM memory EXCEPT SELECT body_hash FROM memory EXCEPT "
     "SELECT query_hash FROM recall EXCEPT SELECT action_hash FROM outcome EXCEPT SELECT text_hash FROM embedding"),
)  # fmt: skip
_EXPIRED = "SELECT seq FROM memory WHERE scope_id = ? AND status = 'active' AND expires_at <= ? ORDER BY seq"
_NOT_SELECTED = (
    "FROM recall_item WHERE NOT selected AND recall_id IN (SELECT seq FROM recall WHERE scope_id = ? AND seq <= ?)"
)


def compact(bank: Bank, *, keep: int, dry_run: bool) -> Mended:
    """``Memory.compact``: one scope is trimmed; texts and vectors that nothing refers to go from the whole store."""
    whole(keep, what="keep", where="compact")
    newest = bank.store.rows(
        "SELECT seq FROM recall WHERE scope_id = ? ORDER BY seq DESC LIMIT 1 OFFSET ?",
        (bank.scope_id, min(keep, 1 << 62)),
    )
    last = newest[0][0] if newest else 0

    def change(act: Act) -> None:
        # keys that only the log of merges refers to stay
        merged = keys.merged(bank.store.rows("SELECT detail FROM audit WHERE verb = 'merge'"))
        at = (bank.scope_id, last)
        with bank.store.write() as db:
            act.removed["recall_item"] = bank.store.rows(f"SELECT count(*) {_NOT_SELECTED}", at)[0][0]
            db.execute(f"DELETE {_NOT_SELECTED}", at)
            for table, key, unused in _UNUSED:
                gone = [row for row in bank.store.rows(unused) if row[0] not in merged]
                db.executemany(f"DELETE FROM {table} WHERE {key} = ?", gone)
                act.removed[table] = len(gone)
        act.set_status([seq for (seq,) in act.rows(_EXPIRED, time.time())], "archived")
        act.extra["until"] = last

    done = perform(bank, "compact", bank.scope, "compact", change, dry_run)
    if done.act is not None:
        bank.store.shrink()
    return done


def trimmed(store: Store) -> dict[int, int]:
    """By scope, the last receipt that a compaction looked at: up to it, candidates that were not selected may lack."""
    found: dict[int, int] = {}
    for scope_id, detail in store.rows("SELECT scope_id, detail FROM audit WHERE verb = 'compact'"):
        found[scope_id] = max(found.get(scope_id, 0), json.loads(detail).get("until", 0))
    return found
