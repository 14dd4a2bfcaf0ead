"""The words of receipts and of the log taken out for good: what learning rests on (numbers, chances, events) stays.

A receipt with an outcome keeps all but its task, its actions and the names of jobs that users gave; so it
is replayed, revised and measured by as ever. One without an outcome has nothing to keep, and goes as a whole, unless a
memory was written under it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from evolvent.memory.bank import Bank
from evolvent.memory.find import WORDS
from evolvent.memory.maintenance.act import Act
from evolvent.memory.store.engine import Connection, among, newest
from evolvent.memory.text import content_hash

NOTHING = content_hash("")
SAID = (("memory", "key_hash"), ("memory", "body_hash"), ("recall", "query_hash"), ("outcome", "action_hash"))
# what refers to texts, vectors and receipts, and has no index for that
_REFER = (
    *SAID,
    ("embedding", "text_hash"),
    ("memory", "emb_id"),
    ("recall", "emb_id"),
    ("memory", "made_in"),
    ("value_event", "recall_id"),
)
_MANY = 8


@contextmanager
def indexed(db: Connection, n: int) -> Iterator[None]:
    """Where many rows go: what refers to each of them is looked up, and not searched for row by row."""
    some = _REFER if n > _MANY else ()
    for table, column in some:
        db.execute(f"CREATE INDEX going_{table}_{column} ON {table}({column})")
    yield
    for table, column in some:
        db.execute(f"DROP INDEX going_{table}_{column}")


def receipts_emptied(db: Connection, bank: Bank, act: Act, receipts: Sequence[int]) -> set[str]:
    """Take the words of receipts out, or the receipts; returns the hashes of what they said."""
    if not receipts:
        return set()
    queries = dict(among(db, "SELECT seq, query_hash FROM recall WHERE seq IN ({})", receipts))
    settled = "SELECT DISTINCT recall_id FROM outcome WHERE recall_id IN ({})"
    made = "SELECT DISTINCT made_in FROM memory WHERE made_in IN ({})"
    stay = {seq for sql in (settled, made) for (seq,) in among(db, sql, receipts)}
    said = "SELECT outcome_id, action_hash, idempotency_key FROM outcome WHERE recall_id IN ({})"
    outcomes = list(among(db, said, receipts))
    act.count("queries", sum(seq in stay and digest != NOTHING for seq, digest in queries.items()))
    act.count("actions", sum(digest not in (None, NOTHING) for _, digest, _ in outcomes))
    jobs = [id_ for id_, _, key in outcomes if key.startswith("key:")]
    act.count("jobs", len(jobs))
    db.executemany(
        "UPDATE recall SET query_hash = ?, emb_id = NULL WHERE seq = ?",
        [(NOTHING, seq) for seq in queries if seq in stay],
    )
    db.executemany(
        "UPDATE outcome SET action_hash = ? WHERE outcome_id = ? AND action_hash IS NOT NULL",
        [(NOTHING, id_) for id_, _, _ in outcomes],
    )
    db.executemany(
        "UPDATE outcome SET idempotency_key = ? WHERE outcome_id = ?", [(f"erased:{id_}", id_) for id_ in jobs]
    )
    # names of attempts and tasks, of which hashes are kept
    named = among(db, "SELECT recall_id FROM exposure WHERE recall_id IN ({})", sorted(stay & queries.keys()))
    db.executemany(
        "UPDATE exposure SET attempt = ?, task = ? WHERE recall_id = ?",
        [(f"erased:{seq}", f"erased:{seq}", seq) for (seq,) in list(named)],
    )
    gone = [(seq,) for seq in queries if seq not in stay]
    if gone:
        bank.store.meta_set("recall_seq", db.execute(f"SELECT {newest('recall')}").fetchone()[0])  # no number twice
        items = among(db, "SELECT count(*) FROM recall_item WHERE recall_id IN ({})", [seq for (seq,) in gone])
        act.removed |= {"recall_item": sum(n for (n,) in items), "recall": len(gone)}
        db.executemany("DELETE FROM recall_item WHERE recall_id = ?", gone)
        db.executemany("DELETE FROM exposure WHERE recall_id = ?", gone)
        db.executemany("DELETE FROM recall WHERE seq = ?", gone)
    return {*queries.values(), *(digest for _, digest, _ in outcomes if digest is not None)}


def of_line(detail: dict[str, Any]) -> list[str]:
    """The words in a line of the log."""
    return [str(detail[name]) for name in WORDS if detail.get(name)]


def lines_emptied(db: Connection, bank: Bank, act: Act, lines: Iterable[int]) -> None:
    """Take the words of lines of the log out, and those of the voids that they tell of."""
    n = 0
    for seq, detail in list(among(db, "SELECT seq, detail FROM audit WHERE seq IN ({})", lines)):
        line = json.loads(detail)
        if not of_line(line):
            continue
        empty = {**line, **{name: "" for name in WORDS if name in line}}
        db.execute(
            "UPDATE audit SET detail = ? WHERE seq = ?", (json.dumps(empty, sort_keys=True, ensure_ascii=False), seq)
        )
        if line.get("reason"):
            db.execute("UPDATE void SET reason = '' WHERE scope_id = ? AND reason = ?", (bank.scope_id, line["reason"]))
        n += 1
    act.count("reasons", n)


def unused_removed(db: Connection, hashes: set[str]) -> dict[str, int]:
    """Remove those of these texts, and their vectors, that no row refers to any more."""
    every = sorted(hashes)
    used = {
        digest
        for table, column in SAID
        for (digest,) in among(db, f"SELECT DISTINCT {column} FROM {table} WHERE {column} IN ({{}})", every)
    }
    gone = [digest for digest in every if digest not in used]
    vectors = list(among(db, "SELECT emb_id FROM embedding WHERE text_hash IN ({})", gone))
    there = list(among(db, "SELECT hash FROM text_blob WHERE hash IN ({})", gone))
    db.executemany("DELETE FROM embedding WHERE emb_id = ?", vectors)
    db.executemany("DELETE FROM text_blob WHERE hash = ?", there)
    return {"embedding": len(vectors), "text_blob": len(there)}
