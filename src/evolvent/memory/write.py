"""The verb remember: new memories, merged where they say nothing new, superseded where they say it better."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.memory import keys
from evolvent.memory.bank import EMB_ID, Bank
from evolvent.memory.items import Recall, Recalled, memory_id
from evolvent.memory.metadata import expiry, stored
from evolvent.memory.rule import start_value, value_bounds
from evolvent.memory.secrets import MASK
from evolvent.memory.store.engine import Connection, audit, put_text
from evolvent.memory.text import (
    MAX_KEY_CHARS,
    among_words,
    clean_text,
    clean_word,
    content_hash,
    counted,
    each_row,
    finite,
    listed,
)
from evolvent.memory.times import time_of

_log = logging.getLogger(__name__)
POLARITIES = ("success", "failure", "mixed", "neutral")
_DEFAULTS: dict[str, Any] = {
    "kind": "case",
    "polarity": "neutral",
    "parents": (),
    "source": "self",
    "value": None,
    "merge": 0.98,
    "supersedes": None,
    "metadata": None,
    "expires": None,
    "created_at": None,
}


@dataclass(frozen=True)
class Draft:
    """One memory about to be written: checked, secrets masked."""

    key: str
    body: str
    key_hash: str
    body_hash: str
    kind: str
    polarity: str
    source: str
    value: float | None
    merge: float | None
    supersedes: int | None
    parents: tuple[int, ...]
    receipt: int | None
    meta: str | None = None
    expires_at: float | None = None
    start: tuple[float, bool] | None = None  # q_init and q_given of an earlier version
    masked: int = 0  # secrets in what was given
    created_at: float | None = None  # when it was experienced, where that was earlier


def _draft_of(bank: Bank, row: Mapping[str, Any]) -> Draft:
    """Check one row of ``remember_many``."""
    if not isinstance(row, Mapping) or not {"key", "body"} <= set(row) <= {"key", "body", *_DEFAULTS}:
        got, expected = list(row) if isinstance(row, Mapping) else row, f"key, body and any of {tuple(_DEFAULTS)}"
        raise BadInput("not a memory", got=got, expected=expected, where="remember_many", code="wrong_type")
    given, where = {**_DEFAULTS, **row}, "remember"
    parents, receipt = _parents(bank, given["parents"])
    key = clean_text(given["key"], what="the key", where=where, limit=MAX_KEY_CHARS, mask=bank.mask)
    body = clean_text(given["body"], what="the body", where=where, mask=bank.mask)
    kind = clean_word(given["kind"], what="a kind", where=where)
    source = clean_word(given["source"], what="a source", where=where)
    polarity, merge, value, old = (given[name] for name in ("polarity", "merge", "value", "supersedes"))
    if not among_words(polarity, POLARITIES):
        raise BadInput(
            "unknown polarity", got=polarity, expected=", ".join(POLARITIES), where=where, code="unknown_polarity"
        )
    if merge is not None:
        merge = finite(merge, what="merge", where=where, lo=0.0, hi=1.0)
    if value is not None:
        lo, hi = value_bounds(bank.policy, bank.reward_range)
        value = finite(value, what="value", where=where, lo=lo, hi=hi)
    if old is not None:
        old = bank.owner_seq(old, where)
    meta = stored(given["metadata"], mask=bank.mask)
    masked = _masked((given["key"], key), (given["body"], body), (given["metadata"], meta))
    return Draft(
        key,
        body,
        content_hash(key),
        content_hash(body),
        kind,
        polarity,
        source,
        value,
        merge,
        old,
        tuple(parents),
        receipt,
        meta,
        expiry(given["expires"], time.time()),
        masked=masked,
        created_at=_earlier(given["created_at"]),
    )


def _earlier(given: Any) -> float | None:
    """Seconds since 1970 of a time that is past."""
    if given is None:
        return None
    at = time_of(given, "remember(created_at=…)").timestamp()
    if at > time.time():
        raise BadInput(
            "not yet", got=given, expected="a time that is past", where="remember(created_at=…)", code="out_of_range"
        )
    return at


def _parents(bank: Bank, parents: Recall | str | Sequence[str | Recalled]) -> tuple[Iterable[int], int | None]:
    """Rows of the parents, each once, and the receipt where one was given."""
    where = "remember(parents=…)"
    if isinstance(parents, Recall) or (isinstance(parents, str) and parents.startswith("r")):
        number = bank.receipt_seq(parents, where)
        rows = bank.store.rows("SELECT memory_id FROM recall_item WHERE recall_id=? AND shown ORDER BY rank", (number,))
        return [row[0] for row in rows], number
    expected = "a Recall, a receipt's id or a sequence of memories (ids or items)"
    ids = listed(parents, what="parents", expected=expected, where=where)
    return dict.fromkeys(bank.owner_seq(p, where) for p in ids), None


def remember(bank: Bank, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Check, embed and write rows of ``remember_many`` (one transaction)."""
    rows = listed(rows, what="rows", expected="a sequence of mappings", where="remember_many")
    with bank.store.session():
        drafts = each_row(rows, partial(_draft_of, bank), "rows")
    vectors = bank.vectors({d.key_hash: d.key for d in drafts})
    with bank.store.session():
        bank.index.catch_up()
        with bank.store.write() as db:
            bank.index.catch_up()  # what others committed before we got the lock
            ids = [memory_id(_write(db, bank, d, vectors[d.key_hash])) for d in drafts]
    for id_, draft in zip(ids, drafts, strict=True):
        _tell_masked(id_, draft.masked)
    return ids


def _masked(*texts: tuple[Any, Any]) -> int:
    """How many secrets were masked in texts, ``(as they were given, as they are stored)``."""
    return sum(str(now).count(MASK) - str(was).count(MASK) for was, now in texts if now is not None)


def _tell_masked(id_: str, n: int) -> None:
    if n:
        _log.warning(
            "%s: %s in it stored as %s; Memory(mask=False) keeps texts as they are", id_, counted(n, "secret"), MASK
        )


def _write(db: Connection, bank: Bank, d: Draft, vec: np.ndarray) -> int:
    if d.supersedes is not None:
        _check_active(db, d.supersedes, "remember(supersedes=…)")
    same = _duplicate(db, bank, d, vec)
    if same is not None:
        seq = same[0]
        row = _insert(db, bank, d, vec, key_of=seq) if same[1] < keys.SAME_KEY else None
        _merge(db, bank, d, seq, row)
    else:
        seq = _insert(db, bank, d, vec)
    if d.supersedes is not None and d.supersedes != seq:
        _supersede(db, bank, d.supersedes, seq)
    return seq


def _duplicate(db: Connection, bank: Bank, d: Draft, vec: np.ndarray) -> tuple[int, float] | None:
    """The oldest active memory that says the same, and how similar the nearest of its keys is.

    It says the same when body, kind, polarity and metadata are equal, and one of its keys is equal or similar enough.
    """
    if d.merge is None:
        return None
    same = (bank.scope_id, d.body_hash, d.kind, d.polarity, d.meta or "", time.time())
    rows = db.execute(keys.WITH_BODY, same).fetchall()
    memory = {row: seq for row, seq, _ in rows}
    for _, seq, key_hash in rows:
        if key_hash == d.key_hash:
            return seq, 1.0
    near, cosine = bank.index.similarities(list(memory), vec) if rows else ([], np.empty(0))
    best, oldest = max(zip(cosine.tolist(), (-memory[row] for row in near), strict=True), default=(-2.0, 0))
    return (-oldest, best) if best >= d.merge else None


def _merge(db: Connection, bank: Bank, d: Draft, seq: int, row: int | None) -> None:
    """The same lesson again: counted, its provenance kept, its value left to what was learned; ``row``: its key.

    It expires when the later of the two does.
    """
    db.execute("UPDATE memory SET merged = merged + 1 WHERE seq=?", (seq,))
    keys.extend_expiry(db, seq, d.expires_at)
    _link(db, seq, [p for p in d.parents if p < seq], "merged")
    put_text(db, d.key_hash, d.key)
    parents = [memory_id(p) for p in d.parents]
    detail = {"key_hash": d.key_hash, "source": d.source, "receipt": d.receipt, "parents": parents}
    if row is not None:
        detail["key"] = memory_id(row)
    audit(db, bank.scope_id, "merge", memory_id(seq), detail)


def _insert(db: Connection, bank: Bank, d: Draft, vec: np.ndarray, key_of: int | None = None) -> int:
    """Write a new memory, or one more key of the memory ``key_of``."""
    bank.put_embedding(db, d.key_hash, d.key, vec)
    put_text(db, d.body_hash, d.body)
    version = 1
    if d.supersedes is not None:
        version += db.execute("SELECT content_version FROM memory WHERE seq=?", (d.supersedes,)).fetchone()[0]
    if d.start is not None:
        q_init, given = d.start
    else:
        q_init, given = start_value(bank.policy, bank.reward_range) if d.value is None else d.value, d.value is not None
    seq = db.execute(
        "INSERT INTO memory(scope_id, kind, polarity, key_hash, body_hash, emb_id, source, q_init, q_given, "
        "content_version, made_in, created_at, meta, expires_at) "
        f"VALUES(?,?,?,?,?,{EMB_ID},?,?,?,?,?,?,?,?) RETURNING seq",
        (
            bank.scope_id,
            d.kind,
            d.polarity,
            d.key_hash,
            d.body_hash,
            bank.embedder.id,
            d.key_hash,
            d.source,
            q_init,
            given,
            version,
            d.receipt,
            time.time() if d.created_at is None else d.created_at,
            d.meta,
            d.expires_at,
        ),
    ).fetchone()[0]
    if key_of is None:
        _link(db, seq, d.parents, "retrieved")
        if d.created_at is not None:  # the line has the time at which it was written
            audit(db, bank.scope_id, "dated", memory_id(seq), {"created_at": d.created_at})
    else:
        _link(db, seq, [key_of], "key")
    bank.store.dirty = True
    bank.index.append(seq, d.kind, vec)
    return seq


def _link(db: Connection, child: int, parents: Sequence[int], relation: str) -> None:
    db.executemany(
        "INSERT INTO provenance(child, parent, relation) VALUES(?,?,?) ON CONFLICT DO NOTHING",
        [(child, p, relation) for p in parents],
    )


def _check_active(db: Connection, seq: int, where: str) -> None:
    ask = "SELECT status, superseded_by FROM memory WHERE seq=?"
    status, newer = db.execute(ask, (seq,)).fetchone()
    if status == "active":
        if not db.execute("SELECT 1 FROM memory WHERE seq=? AND expires_at <= ?", (seq, time.time())).fetchall():
            return
        status = "expired"
    last = status
    while last == "superseded":  # to what stands in its place now
        by = newer
        last, newer = db.execute(ask, (by,)).fetchone()
        if last == "active":
            do = f"take {memory_id(by)} instead"
            break
    else:
        do = "write a new memory" + ("" if status in ("erased", "expired") else ", or restore this one first")
        if status == "external":
            do = "change it where it is kept: another text under its id begins anew"
    raise BadInput(
        "only an active memory can be replaced by a newer one",
        got=f"{memory_id(seq)} is {status}",
        where=where,
        do=do,
        code="erased" if status == "erased" else "not_active",
    )


def _supersede(db: Connection, bank: Bank, old: int, new: int, **more: str) -> None:
    db.execute("UPDATE memory SET status='superseded', superseded_by=? WHERE seq=?", (new, old))
    if old < new:
        _link(db, new, [old], "revised")
    audit(db, bank.scope_id, "supersede", memory_id(old), {"by": memory_id(new), **more})
    bank.store.dirty = True
    bank.index.set_active(old, False)


_OLD = (
    "SELECT m.status, m.superseded_by, k.body, b.body, m.kind, m.polarity, m.source, m.q_init, m.q_given, m.meta, "
    "m.expires_at, m.made_in FROM memory m JOIN text_blob k ON k.hash = m.key_hash "
    "JOIN text_blob b ON b.hash = m.body_hash WHERE m.seq = ?"
)


def update(
    bank: Bank, id_: str, *, key: str | None, body: str | None, metadata: Mapping[str, Any] | None, reason: str
) -> str:
    """A new version of a memory that has its value; see ``Memory.update`` (one transaction)."""
    where = "update"
    old = bank.owner_seq(id_, where)
    if key is None and body is None and metadata is None:
        raise BadInput(
            "nothing to say better",
            got=id_,
            expected="a key, a body or metadata",
            where=where,
            code="nothing_to_update",
        )
    with bank.store.session() as db, bank.store.translated("reading"):
        _, _, old_key, old_body, kind, polarity, source, q_init, given, meta, expires_at, made_in = db.execute(
            _OLD, (old,)
        ).fetchone()
        more = [text for seq, text, status in keys.of(db, old) if seq != old and status == "active"]
    said = old_key if key is None else clean_text(key, what="the key", where=where, limit=MAX_KEY_CHARS, mask=bank.mask)
    text = old_body if body is None else clean_text(body, what="the body", where=where, mask=bank.mask)
    given, meta = meta, meta if metadata is None else stored(metadata, "update(metadata=…)", mask=bank.mask)
    reason = clean_text(reason, what="the reason", where=where, limit=10_000, mask=bank.mask)
    if (said, text, meta) == (old_key, old_body, given):  # the same call once more
        with bank.store.session() as db, bank.store.translated("reading"):
            _check_active(db, old, where)
        return memory_id(old)
    draft = Draft(
        said,
        text,
        content_hash(said),
        content_hash(text),
        kind,
        polarity,
        source,
        None,
        None,
        old,
        (),
        made_in,
        meta,
        expires_at,
        (q_init, bool(given)),
    )
    texts = {content_hash(each): each for each in [said, *more]}
    vectors = bank.vectors(texts)
    with bank.store.session():
        bank.index.catch_up()
        with bank.store.write() as db:
            bank.index.catch_up()
            _check_active(db, old, where)
            seq = _insert(db, bank, draft, vectors[draft.key_hash])
            for digest in [digest for digest in texts if digest != draft.key_hash]:
                row = replace(draft, key=texts[digest], key_hash=digest)
                _insert(db, bank, row, vectors[digest], key_of=seq)
            db.execute(
                "INSERT INTO provenance SELECT ?, parent, relation FROM provenance WHERE child = ? "
                "AND relation IN ('retrieved', 'merged')",
                (seq, old),
            )
            _link(db, seq, keys.versions(db, old)[:1], "updated")
            _supersede(db, bank, old, seq, update=reason)
    _tell_masked(memory_id(seq), _masked((key or old_key, said), (body or old_body, text), (metadata or given, meta)))
    return memory_id(seq)
