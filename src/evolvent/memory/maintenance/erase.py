"""Erasing for good: one memory (a person's right), or a whole scope. Nothing of what they said stays in the store.

A memory leaves a tombstone: its number, status "erased", when and why, and its place in the graph of provenance. Its
texts and vectors, the receipts' lines about it, its value and events go; so do the texts of queries, actions and
reasons of its scope that quote it. A text that another row says too stays as that row's. Afterwards the engine
rewrites its files, so that no freed page, log or cache of vectors holds what was erased.

A text quotes another when it holds it between the ends of words; of a short one (a body "ok" would empty half a store),
when it says nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from evolvent.core.errors import BadInput
from evolvent.memory import events, keys, replay
from evolvent.memory.bank import Bank
from evolvent.memory.items import memory_id
from evolvent.memory.maintenance.act import Act, Mended, perform
from evolvent.memory.store.engine import Connection, among, audit, marks, newest, put_text
from evolvent.memory.text import clean_text, clean_word, content_hash

_NOTHING = content_hash("")
# bytes (UTF-8) from which on a text is looked for inside others: a shorter one stands in many that do not quote it
TELLING = 12
# what may not stand beside a quote; Chinese, Japanese and Korean words have no space between them
_WORD = r"[^\W\u2e80-\uffef]"
_SAID = (("memory", "key_hash"), ("memory", "body_hash"), ("recall", "query_hash"), ("outcome", "action_hash"))
_TOLD_AS = {"query_hash": "queries", "action_hash": "actions"}
# of a scope, each table after those that refer to it
_OF_MEMORIES = ("value_event", "value", "recall_item")
_OF_SCOPE = ("source_value", "outcome", "memory", "recall", "void", "audit", "scope")


def erase(bank: Bank, id_: str, reason: str, *, dry_run: bool = False) -> Mended:
    """Erase one memory with all its keys, for good. Not inside a transaction: files are rewritten at its end.

    Erasing it once more changes nothing, and finishes the rewriting where something kept it from being done.
    """
    seqs = _rows_of(bank, id_)
    _alone(bank, "erase")

    def change(act: Act) -> None:
        if all(act.status(seq) == "erased" for seq in seqs):
            return
        with bank.store.write() as db, bank.store.unguarded():
            said = _texts_of(db, seqs)
            gone = {*said, *_quotes_removed(db, act, said.values())}
            _numbers_stay_taken(bank)
            db.execute("UPDATE recall SET n_pool = n_pool - 1 WHERE seq IN (SELECT recall_id FROM recall_item "
                       f"WHERE memory_id IN ({marks(len(seqs))}))", seqs)  # fmt: skip
            for seq in seqs:
                act.statuses.append((seq, act.status(seq), "erased"))
                act.lines.append(audit(db, bank.scope_id, "erase", memory_id(seq), {"reason": act.reason}))
                db.execute("DELETE FROM audit WHERE target = ? AND verb <> 'erase'", (memory_id(seq),))
                for table in _OF_MEMORIES:
                    db.execute(f"DELETE FROM {table} WHERE memory_id = ?", (seq,))
            put_text(db, _NOTHING, "")
            db.execute(
                "UPDATE memory SET kind = 'erased', polarity = 'neutral', key_hash = ?, body_hash = ?, emb_id = NULL, "
                "source = 'erased', q_init = 0.0, q_given = ?, status = 'erased', merged = 0, meta = NULL, "
                f"expires_at = NULL WHERE seq IN ({marks(len(seqs))})",
                (_NOTHING, _NOTHING, False, *seqs),
            )
            act.removed |= _unused_removed(db, gone - {_NOTHING})
        replay.rebuild(bank.store, bank.scope_id)

    done = perform(bank, "erase", id_, reason, change, dry_run)
    if not dry_run:
        bank.forget()
        bank.store.shrink(whole=True)
    return done


def drop_scope(bank: Bank, name: str, reason: str) -> dict[str, int]:
    """Erase a scope with all it holds, for good; returns how many rows went, by table. See ``erase``.

    The log keeps that a scope was dropped, when and why, and not its name.
    """
    clean_word(name, what="a scope", where="drop_scope", limit=200)
    reason = clean_text(reason, what="the reason", where="drop_scope", limit=10_000, mask=bank.mask)
    _alone(bank, "drop_scope")
    row = bank.store.row("SELECT scope_id FROM scope WHERE name = ?", (name,))
    if row is None:
        names = ", ".join(sorted(known for (known,) in bank.store.rows("SELECT name FROM scope")))
        raise BadInput("there is no such scope", got=name, expected=names, where="drop_scope", code="unknown_scope")
    scope_id, removed = row[0], dict[str, int]()
    mine = "IN (SELECT seq FROM memory WHERE scope_id = ?)"
    with bank.store.write() as db, bank.store.unguarded():
        audit(db, None, "drop_scope", "*", {"reason": reason, "scope": scope_id})  # its number keeps the log's order
        _numbers_stay_taken(bank)
        for table in ("memory", "recall", "void"):  # a receipt that is settled late must not meet another one
            bank.store.meta_set(f"{table}_seq", bank.store.rows(f"SELECT {newest(table)}")[0][0])
        # a memory that still has the scope open must not find itself in the next one that is made
        bank.store.meta_set("scopes_dropped", max(scope_id, bank.store.meta_get("scopes_dropped") or 0))
        hashes = {
            digest
            for table, column in _SAID
            for (digest,) in bank.store.rows(f"SELECT DISTINCT {column} FROM {table} WHERE scope_id = ?", (scope_id,))
        }
        merges = "SELECT detail FROM audit WHERE scope_id = ? AND verb = 'merge'"
        hashes |= keys.merged(bank.store.rows(merges, (scope_id,)))
        doomed = [(table, f"memory_id {mine}") for table in _OF_MEMORIES]
        doomed += [("provenance", f"child {mine}"), *((table, "scope_id = ?") for table in bank.store.copies)]
        for table, which in [*doomed, *((table, "scope_id = ?") for table in _OF_SCOPE)]:
            found = bank.store.rows(f"SELECT count(*) FROM {table} WHERE {which}", (scope_id,))
            removed[table] = found[0][0]
            db.execute(f"DELETE FROM {table} WHERE {which}", (scope_id,))
        for (kept,) in bank.store.rows("SELECT name FROM meta"):
            if kept == f"reward_range:{name}" or kept.startswith((f"kept:{len(name)}:{name}:", f"user:{name}:")):
                db.execute("DELETE FROM meta WHERE name = ?", (kept,))
        removed |= _unused_removed(db, hashes - {None})
    bank.store.forget_files(scope_id)
    bank.store.shrink(whole=True)
    return removed


def _rows_of(bank: Bank, id_: str) -> list[int]:
    """A memory with all its versions (of ``update``) and all their keys; the first version first."""
    seq = bank.owner_seq(id_, "erase")
    with bank.store.session() as db, bank.store.translated("reading"):
        rows = keys.versions(db, seq)
        more = "SELECT child FROM provenance WHERE relation = 'key' AND parent IN ({}) ORDER BY child"
        return [*rows, *(child for (child,) in among(db, more, rows))]


def _alone(bank: Bank, where: str) -> None:
    if bank.store.writing():
        do = "call it outside: the files are rewritten when its own transaction is committed"
        raise BadInput(f"{where} inside a transaction", where=where, do=do, code="inside_transaction")


def _texts_of(db: Connection, seqs: list[int]) -> dict[str, str]:
    """What a memory said, by hash: its keys, its body, and keys that were merged without being kept as keys."""
    names = [memory_id(seq) for seq in seqs]
    rows = list(among(db, "SELECT key_hash, body_hash FROM memory WHERE seq IN ({})", seqs))
    hashes = {digest for row in rows for digest in row} - {_NOTHING}
    hashes |= keys.merged(among(db, "SELECT detail FROM audit WHERE verb = 'merge' AND target IN ({})", names))
    return dict(among(db, "SELECT hash, body FROM text_blob WHERE hash IN ({})", sorted(hashes)))


def _quotes_removed(db: Connection, act: Act, said: Iterable[str]) -> set[str]:
    """Take queries, actions and reasons of the scope that quote one of these texts out; returns hashes of the texts."""
    bank, held = act.bank, re.compile("|".join(map(_quoted, said)))
    found: set[str] = set()
    for table, column, also in (("recall", "query_hash", ", emb_id = NULL"), ("outcome", "action_hash", "")):
        hashes = [
            digest
            for piece in bank.store.chunks(
                f"SELECT DISTINCT t.hash, t.body FROM {table} x JOIN text_blob t ON t.hash = x.{column} "
                "WHERE x.scope_id = ?", (bank.scope_id,), size=256,
            )
            for digest, body in piece
            if held.search(body)
        ]  # fmt: skip
        put_text(db, _NOTHING, "")
        sql = f"UPDATE {table} SET {column} = ?{also} WHERE scope_id = ? AND {column} = ? RETURNING 1"
        act.emptied[_TOLD_AS[column]] = sum(
            len(db.execute(sql, (_NOTHING, bank.scope_id, digest)).fetchall()) for digest in hashes
        )
        found |= set(hashes)
    reasons = 0
    for seq, detail in bank.store.rows("SELECT seq, detail FROM audit WHERE scope_id = ?", (bank.scope_id,)):
        told = json.loads(detail)
        if held.search(str(told.get("reason", ""))):
            db.execute("UPDATE audit SET detail = ? WHERE seq = ?", (json.dumps({**told, "reason": ""}), seq))
            reasons += 1
    for seq, reason in bank.store.rows("SELECT seq, reason FROM void WHERE scope_id = ?", (bank.scope_id,)):
        if held.search(reason):
            db.execute("UPDATE void SET reason = '' WHERE seq = ?", (seq,))
    if held.search(act.reason):  # that of this very act
        act.reason, reasons = "", reasons + 1
    act.emptied["reasons"] = reasons  # a void has that of its line in the log
    return found


def _quoted(text: str) -> str:
    """A pattern for texts that quote this one."""
    text = text.strip()
    around = (rf"(?<!{_WORD})", rf"(?!{_WORD})") if len(text.encode()) >= TELLING else (r"\A\s*", r"\s*\Z")
    return re.escape(text).join(around)


def _numbers_stay_taken(bank: Bank) -> None:
    """Receipts and voids name events by number: those that go must not be given again."""
    row = bank.store.row(f"SELECT {events.NEWEST}")
    bank.store.meta_set("event_seq", row[0] if row else 0)


def _unused_removed(db: Connection, hashes: set[str]) -> dict[str, int]:
    """Remove those of these texts, and their vectors, that no row refers to any more."""
    removed = {"embedding": 0, "text_blob": 0}
    for digest in sorted(hashes):
        unused = " AND ".join(f"NOT EXISTS (SELECT 1 FROM {t} x WHERE x.{c} = e.hash)" for t, c in _SAID)
        if not db.execute(f"SELECT 1 FROM text_blob e WHERE e.hash = ? AND {unused}", (digest,)).fetchall():
            continue  # another row says the same
        rows = db.execute("DELETE FROM embedding WHERE text_hash = ? RETURNING emb_id", (digest,)).fetchall()
        removed["embedding"] += len(rows)
        db.execute("DELETE FROM text_blob WHERE hash = ?", (digest,))
        removed["text_blob"] += 1
    return removed
