"""Erasing a whole scope: a tenant whose contract ended. Nothing of what it said or learned stays in the store.

The log keeps that a scope was dropped, when and why, and not its name.
"""

from __future__ import annotations

from evolvent.core.errors import BadInput
from evolvent.memory import keys
from evolvent.memory.bank import Bank
from evolvent.memory.holdout import state_name
from evolvent.memory.maintenance import emptying
from evolvent.memory.maintenance.erase import OF_MEMORIES, alone, numbers_stay_taken, rewritten, to_rewrite
from evolvent.memory.store.engine import Store, audit, newest
from evolvent.memory.text import clean_text, clean_word

# each table after those that refer to it
_OF_SCOPE = ("source_value", "outcome", "memory", "recall", "void", "audit", "scope")


def drop_own(bank: Bank, name: str, reason: str) -> dict[str, int]:
    """``drop_scope`` of the scope that a memory is of; ``name`` says that it is meant.

    Raises:
        BadInput: the name of another scope.
    """
    clean_word(name, what="a scope", where="drop_scope", limit=200)
    if name != bank.scope:
        do = "on the store itself: evolvent.memory.maintenance.drop.drop_scope(open_store(path), name, reason)"
        raise BadInput(
            "a memory drops its own scope alone",
            got=name,
            expected=bank.scope,
            where="drop_scope",
            do=do,
            code="other_scope",
        )
    return drop_scope(bank.store, name, reason, mask=bank.mask)


def drop_scope(store: Store, name: str, reason: str, *, mask: bool = True) -> dict[str, int]:
    """Erase any scope of an open store (``store.opening.open_store(path)``) with all it holds, for good.

    Args:
        store: the store.
        name: the scope.
        reason: for the log; secrets in it are masked.
        mask: False: they are not.

    Returns:
        How many rows went, by table.

    Raises:
        BadInput: there is no such scope, or inside a transaction.
        StoreError: another process keeps SQLite's log in use.
    """
    clean_word(name, what="a scope", where="drop_scope", limit=200)
    reason = clean_text(reason, what="the reason", where="drop_scope", limit=10_000, mask=mask)
    alone(store, "drop_scope")
    row = store.row("SELECT scope_id FROM scope WHERE name = ?", (name,))
    if row is None:
        names = ", ".join(sorted(known for (known,) in store.rows("SELECT name FROM scope")))
        raise BadInput("there is no such scope", got=name, expected=names, where="drop_scope", code="unknown_scope")
    scope_id, removed = row[0], dict[str, int]()
    mine = "IN (SELECT seq FROM memory WHERE scope_id = ?)"
    with store.write() as db, store.unguarded():
        audit(db, None, "drop_scope", "*", {"reason": reason, "scope": scope_id})  # its number keeps the log's order
        numbers_stay_taken(store)
        for table in ("memory", "recall", "void"):  # a receipt that is settled late must not meet another one
            store.meta_set(f"{table}_seq", store.rows(f"SELECT {newest(table)}")[0][0])
        # a memory that still has the scope open must not find itself in the next one that is made
        store.meta_set("scopes_dropped", max(scope_id, store.meta_get("scopes_dropped") or 0))
        hashes = {
            digest
            for table, column in emptying.SAID
            for (digest,) in store.rows(f"SELECT DISTINCT {column} FROM {table} WHERE scope_id = ?", (scope_id,))
        }
        merges = "SELECT detail FROM audit WHERE scope_id = ? AND verb = 'merge'"
        hashes |= keys.merged(store.rows(merges, (scope_id,)))
        doomed = [(table, f"memory_id {mine}") for table in OF_MEMORIES]
        doomed += [("exposure", "recall_id IN (SELECT seq FROM recall WHERE scope_id = ?)")]
        doomed += [("provenance", f"child {mine}"), *((table, "scope_id = ?") for table in store.copies)]
        for table, which in [*doomed, *((table, "scope_id = ?") for table in _OF_SCOPE)]:
            found = store.rows(f"SELECT count(*) FROM {table} WHERE {which}", (scope_id,))
            removed[table] = found[0][0]
            db.execute(f"DELETE FROM {table} WHERE {which}", (scope_id,))
        for (key,) in store.rows("SELECT name FROM meta"):
            if key in (f"reward_range:{name}", state_name(scope_id)) or key.startswith(
                (f"kept:{len(name)}:{name}:", f"user:{name}:")
            ):
                db.execute("DELETE FROM meta WHERE name = ?", (key,))
        removed |= emptying.unused_removed(db, hashes - {None})
        to_rewrite(store)
    store.forget_files(scope_id)
    rewritten(store)
    return removed
