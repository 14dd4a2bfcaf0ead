"""Erasing for good: memories, receipts, lines of the log (a person's right). Nothing of what they said stays.

A memory leaves a tombstone: its number, status "erased", when and why, and its place in the graph of provenance. Its
texts and vectors, the receipts' lines about it, its value and events go; so do the texts of queries, actions and
reasons of its scope that quote it. A receipt loses its words (``emptying``). A text that another row says too stays as
that row's. Afterwards the engine rewrites its files, so that no freed page, log or cache of vectors holds what was
erased; where something kept it from that, the next erasure does it.

A text quotes another when it holds it between the ends of words; of a short one (a body "ok" would empty half a store),
when it says nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.memory import events, external, keys, replay, user_values
from evolvent.memory.bank import Bank, parse_id
from evolvent.memory.items import Item, Recall, Recalled, Receipt, Trace, memory_id, named
from evolvent.memory.maintenance import emptying
from evolvent.memory.maintenance.act import Act, Mended, perform
from evolvent.memory.store.engine import Connection, Store, among, audit, newest, put_text
from evolvent.memory.text import listed

# bytes (UTF-8) from which on a text is looked for inside others: a shorter one stands in many that do not quote it
TELLING = 12
# what may not stand beside a quote; Chinese, Japanese and Korean words have no space between them
_WORD = r"[^\W\u2e80-\uffef]"
_COUNTED_AS = {"query_hash": "queries", "action_hash": "actions"}
# of a memory, each table after those that refer to it
OF_MEMORIES = ("value_event", "value", "recall_item")
_PENDING = "files_to_rewrite"  # in meta, from the transaction that took rows out until no file holds them
_EXPECTED = "memories (m3), receipts (r7), lines of the log (a2), or what find(text) found"

What = str | Recall | Recalled | Item | Receipt | Trace


@dataclass
class _Named:
    """What is to go, as rows."""

    label: str
    memories: list[int] = field(default_factory=list[int])  # with all their versions and keys
    receipts: list[int] = field(default_factory=list[int])
    lines: list[int] = field(default_factory=list[int])
    user_values: list[str] = field(default_factory=list[str])


def erase(bank: Bank, what: What | Iterable[What], reason: str, *, dry_run: bool = False) -> Mended:
    """Erase all of these in one pass, for good. Not inside a transaction: files are rewritten at its end.

    Erasing once more changes nothing, and finishes the rewriting where something kept it from being done.
    """
    alone(bank.store, "erase")
    things = _named(bank, what)

    def change(act: Act) -> None:
        if not things.label:
            return
        gone = [seq for seq, status in _statuses(bank, things.memories) if status != "erased"]
        with bank.store.write() as db, bank.store.unguarded():
            with emptying.indexed(db, len(gone) + len(things.receipts)):
                put_text(db, emptying.NOTHING, "")
                said = emptying.receipts_emptied(db, bank, act, things.receipts)
                if gone:
                    said |= _memories_erased(db, bank, act, gone)
                emptying.lines_emptied(db, bank, act, things.lines)
                act.count("kept", sum(user_values.remove(bank, name) for name in things.user_values))
                for table, n in emptying.unused_removed(db, said - {emptying.NOTHING}).items():
                    act.removed[table] = act.removed.get(table, 0) + n
            to_rewrite(bank.store)

    done = perform(bank, "erase", things.label, reason, change, dry_run)
    if not dry_run:
        bank.forget()
        rewritten(bank.store)
    return done


def rewritten(store: Store) -> None:
    """Rewrite the files of a store that rows were taken out of, so that nothing of them is left."""
    if unfinished(store):
        store.shrink(whole=True)
        with store.write() as db:
            db.execute("DELETE FROM meta WHERE name = ?", (_PENDING,))


def unfinished(store: Store) -> bool:
    """Whether rows were taken out, and something kept the files from being rewritten."""
    return bool(store.meta_get(_PENDING))


def to_rewrite(store: Store) -> None:
    """Note, in the transaction that takes rows out, that the files are to be rewritten."""
    store.meta_set(_PENDING, True)


def alone(store: Store, where: str) -> None:
    """``BadInput`` inside a transaction."""
    if store.writing():
        do = "call it outside: the files are rewritten when its own transaction is committed"
        raise BadInput(f"{where} inside a transaction", where=where, do=do, code="inside_transaction")


def numbers_stay_taken(store: Store) -> None:
    """Receipts and voids name events by number: those that go must not be given again."""
    row = store.row(f"SELECT {events.NEWEST}")
    store.meta_set("event_seq", row[0] if row else 0)


# ------------------------------------------------------------------------------------------------ what is named
def _named(bank: Bank, what: Any) -> _Named:
    """Rows of what is to go; ``BadInput`` for what never was."""
    things = [what] if isinstance(what, What) else listed(what, what="what to erase", expected=_EXPECTED, where="erase")
    letters = {"m": "memory", "r": "receipt", "a": "line of the log"}
    by: dict[str, dict[int, None]] = {letter: {} for letter in letters}
    found, ids = _Named(""), dict[str, None]()
    for id_ in map(named, things):
        elsewhere = external.sequences(bank.store, bank.scope_id, id_)
        if elsewhere:  # all texts that were under that id
            by["m"] |= dict.fromkeys(elsewhere)
            ids[", ".join(map(memory_id, elsewhere[:5]))] = None  # the log must not say what goes
            continue
        if not isinstance(id_, str) or (id_[:1] not in by and not id_.startswith("kept:")):
            raise BadInput("not an id", got=id_, expected=_EXPECTED, where="erase", code="not_an_id")
        if id_.startswith("kept:"):
            found.user_values.append(id_.removeprefix("kept:"))
        else:
            by[id_[0]][parse_id(id_, id_[0], letters[id_[0]], "erase")] = None
        ids[id_] = None
    names = list(ids)
    found.label = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    with bank.store.session() as db, bank.store.translated("reading"):
        found.memories = _versions(db, bank, list(by["m"]))
        found.receipts = _there(db, bank, "r", list(by["r"]))
        found.lines = _there(db, bank, "a", list(by["a"]))
    return found


def _there(db: Connection, bank: Bank, letter: str, numbers: list[int]) -> list[int]:
    """Those of these rows that are still there; ``BadInput`` for one that never was, or is another scope's."""
    table = "recall" if letter == "r" else "audit"
    scopes = dict(among(db, f"SELECT seq, scope_id FROM {table} WHERE seq IN ({{}})", numbers))
    last = db.execute(f"SELECT {newest(table)}").fetchone()[0] if numbers else 0
    for number in numbers:
        if number > last or scopes.get(number, bank.scope_id) != bank.scope_id:
            if letter == "r":
                bank.receipt_seq(f"r{number}", "erase")  # it raises
            raise BadInput(
                "unknown line of the log",
                got=f"a{number}",
                expected=f"one of scope {bank.scope!r}",
                where="erase",
                code="unknown_line",
            )
    return [number for number in numbers if number in scopes]


def _versions(db: Connection, bank: Bank, seqs: list[int]) -> list[int]:
    """These memories with all their versions (of ``update``) and all their keys."""
    whose = (
        "SELECT m.seq, coalesce(a.parent, m.seq) FROM memory m LEFT JOIN provenance a ON a.child = m.seq "
        "AND a.relation = 'key' WHERE m.scope_id = ? AND m.seq IN ({})"
    )
    owner = dict(among(db, whose, seqs, bank.scope_id))
    for seq in seqs:
        if seq not in owner:
            bank.memory_seq(memory_id(seq), "erase")
    every = sorted(set(owner.values()))
    first = dict(among(db, "SELECT child, parent FROM provenance WHERE relation = 'updated' AND child IN ({})", every))
    every = sorted({first.get(seq, seq) for seq in every})
    for relation in ("updated", "key"):
        more = f"SELECT child FROM provenance WHERE relation = '{relation}' AND parent IN ({{}})"
        every = sorted({*every, *(child for (child,) in among(db, more, every))})
    return every


def _statuses(bank: Bank, seqs: list[int]) -> list[tuple]:
    return bank.store.rows_among("SELECT seq, status FROM memory WHERE seq IN ({}) ORDER BY seq", seqs)


# ------------------------------------------------------------------------------------------------ memories
def _memories_erased(db: Connection, bank: Bank, act: Act, seqs: list[int]) -> set[str]:
    """Erase memories with what quotes them; returns the hashes of texts that they and others no longer say."""
    said = _texts_of(db, seqs)
    gone = {*said, *_quotes_removed(db, act, said.values())}
    numbers_stay_taken(bank.store)
    earned = set(
        among(
            db,
            "SELECT DISTINCT m.source, e.objective, e.stage FROM value_event e JOIN memory m ON m.seq = e.memory_id "
            "WHERE e.memory_id IN ({})",
            seqs,
        )
    )
    rows = [(seq,) for seq in seqs]
    db.executemany(
        "UPDATE recall SET n_pool = n_pool - 1 WHERE seq IN (SELECT recall_id FROM recall_item WHERE memory_id = ?)",
        rows,
    )
    for seq, status in _statuses(bank, seqs):
        act.statuses.append((seq, status, "erased"))
        act.lines.append(audit(db, bank.scope_id, "erase", memory_id(seq), {"reason": act.reason}))
    db.executemany("DELETE FROM audit WHERE target = ? AND verb <> 'erase'", [(memory_id(seq),) for seq in seqs])
    for table in OF_MEMORIES:
        db.executemany(f"DELETE FROM {table} WHERE memory_id = ?", rows)
    db.executemany(
        "UPDATE memory SET kind = 'erased', polarity = 'neutral', key_hash = ?, body_hash = ?, emb_id = NULL, "
        "source = 'erased', q_init = 0.0, q_given = ?, status = 'erased', merged = 0, meta = NULL, "
        "expires_at = NULL, text_hash = NULL WHERE seq = ?",
        [(emptying.NOTHING, emptying.NOTHING, False, seq) for seq in seqs],
    )
    replay.summed(bank.store, bank.scope_id, sorted(earned))
    return gone


def _texts_of(db: Connection, seqs: list[int]) -> dict[str, str]:
    """What memories said, by hash: keys, bodies, and keys that were merged without being kept as keys."""
    names = [memory_id(seq) for seq in seqs]
    rows = list(among(db, "SELECT key_hash, body_hash FROM memory WHERE seq IN ({})", seqs))
    hashes = {digest for row in rows for digest in row} - {emptying.NOTHING}
    hashes |= keys.merged(among(db, "SELECT detail FROM audit WHERE verb = 'merge' AND target IN ({})", names))
    return dict(among(db, "SELECT hash, body FROM text_blob WHERE hash IN ({})", sorted(hashes)))


class _Quotes:
    """Whether a text quotes one of some others."""

    def __init__(self, said: Iterable[str]) -> None:
        every = {text.strip() for text in said}
        self._whole = every
        self._inside = [text for text in every if len(text.encode()) >= TELLING]

    def __call__(self, text: str) -> bool:
        if text.strip() in self._whole:
            return True
        # a text that is in there is looked at once more: it must end where words do
        return any(
            part in text and re.search(rf"(?<!{_WORD}){re.escape(part)}(?!{_WORD})", text) for part in self._inside
        )


def _quotes_removed(db: Connection, act: Act, said: Iterable[str]) -> set[str]:
    """Take queries, actions and reasons of the scope that quote one of these texts out; returns hashes of the texts."""
    bank, quotes = act.bank, _Quotes(said)
    found: set[str] = set()
    for table, column, also in (("recall", "query_hash", ", emb_id = NULL"), ("outcome", "action_hash", "")):
        hashes = [
            digest
            for piece in bank.store.chunks(
                f"SELECT DISTINCT t.hash, t.body FROM {table} x JOIN text_blob t ON t.hash = x.{column} "
                "WHERE x.scope_id = ? AND t.hash <> ?",
                (bank.scope_id, emptying.NOTHING),
                size=256,
            )
            for digest, body in piece
            if quotes(body)
        ]
        sql = f"UPDATE {table} SET {column} = ?{also} WHERE scope_id = ? AND {column} = ? RETURNING 1"
        emptied = sum(len(db.execute(sql, (emptying.NOTHING, bank.scope_id, digest)).fetchall()) for digest in hashes)
        act.count(_COUNTED_AS[column], emptied)
        found |= set(hashes)
    lines = [
        seq
        for seq, detail in bank.store.rows("SELECT seq, detail FROM audit WHERE scope_id = ?", (bank.scope_id,))
        if any(quotes(word) for word in emptying.of_line(json.loads(detail)))
    ]
    emptying.lines_emptied(db, bank, act, lines)
    if quotes(act.reason):  # that of this very act
        act.reason = ""
        act.count("reasons", 1)
    return found
