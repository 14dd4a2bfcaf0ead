"""Is what the store holds still what was written? It finds what an engine does not notice.

A database checks its pages and its constraints; a bit that flips inside a text, a vector or a number breaks neither.
What can be checked against something else is: texts against their hashes, vectors against their norm (and, on request,
the embedder), values against their events, events against receipts and outcomes. What nothing
else is derived from (times, a receipt's similarities, free notes) cannot.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from evolvent.core.errors import StoreError
from evolvent.memory import events, policies, replay
from evolvent.memory.bank import Bank
from evolvent.memory.events import OF_VALUE
from evolvent.memory.items import memory_id, receipt_id
from evolvent.memory.keys import OWN
from evolvent.memory.maintenance import compact, erase
from evolvent.memory.memory import Memory
from evolvent.memory.store import schema
from evolvent.memory.text import content_hash

MOST = 100  # findings reported per check
NORM_TOLERANCE = 1e-5  # float32 keeps a unit norm to about 1e-7
SAME = 1e-3  # largest difference to a text embedded again; servers do not repeat themselves to the last bit
_RESTORE = "restore a backup, or export what is intact into a new store"
_REBUILD = "call rebuild_values(): the events are the truth"


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it was written: which check, where, what was found and expected, what to do."""

    check: str
    where: str
    got: str
    expected: str
    do: str = _RESTORE

    def __str__(self) -> str:
        return f"{self.check}: {self.where}: {self.got}, expected {self.expected}; {self.do}"


def verify(memory: Memory, *, embed: bool = False) -> list[Finding]:
    """Check every scope of the store against itself, on one snapshot; what is found is not as it was written.

    Finds what an engine does not notice: a flipped bit in a text, a vector or a value, credit that its outcome does
    not explain, counts that are off. Reads only; takes seconds per 100,000 memories. A healthy store gives ``[]``.

    Args:
        memory: any scope of the store.
        embed: also embed every key again and compare (needs the embedder, takes as long as writing them did).
    """
    bank, found = memory.bank, list[Finding]()
    with bank.store.snapshot():
        for name, check in {**CHECKS, **({"embedder": _embedder} if embed else {})}.items():
            try:
                findings = [Finding(name, *row) for row in islice(check(bank), MOST + 1)]
            except (StoreError, ValueError, TypeError, KeyError, ArithmeticError) as error:
                # rows that are damaged enough cannot even be read: that is a finding, and the other checks go on
                what = getattr(error, "what", type(error).__name__)
                findings = [
                    Finding(name, bank.store.where, f"{what} {getattr(error, 'got', error)}", "rows that can be read")
                ]
            if len(findings) > MOST:
                findings[MOST] = Finding(name, bank.store.where, f"more than {MOST} findings", "none")
            found += findings
    return found


Row = tuple[str, ...]  # where, got, expected, and what to do when it is not the usual


_FITS: dict[str, Callable[[Any], bool]] = {
    "TEXT": lambda cell: isinstance(cell, str),
    "INTEGER": lambda cell: isinstance(cell, int),
    "REAL": lambda cell: isinstance(cell, float) and math.isfinite(cell),
    "BOOLEAN": lambda cell: cell in (0, 1),
}


def _engine(bank: Bank) -> Iterator[Row]:
    for where, got in bank.store.damage():
        yield where, got, "ok"


def _rows(bank: Bank) -> Iterator[Row]:
    """Every cell can be read and is of the type that its column declares."""
    for table in schema.layout():
        columns = {name: kind for name, kind in table.columns.items() if kind != "BLOB" and name != "body"}
        keys = [list(columns).index(name) for name in table.key if name in columns]
        for piece in bank.store.chunks(f"SELECT {', '.join(columns)} FROM {table.name}"):
            for row in piece:
                for (name, kind), cell in zip(columns.items(), row, strict=True):
                    if cell is not None and not _FITS[kind](cell):
                        yield f"{name} of {table.name} {[row[i] for i in keys]}", repr(cell)[:60], kind


def _texts(bank: Bank) -> Iterator[Row]:
    for piece in bank.store.chunks(f"SELECT hash, {bank.store.text_bytes('body')}, n_chars FROM text_blob", size=256):
        for digest, raw, n_chars in piece:
            try:
                body = raw if isinstance(raw, str) else bytes(raw).decode("utf-8")
            except UnicodeDecodeError:
                yield f"text {digest}", "bytes that are no text", "UTF-8"
                continue
            if content_hash(body) != digest:
                yield f"text {digest}", f"hash {content_hash(body)} of {body[:60]!r}", "the hash it is stored under"
            elif len(body) != n_chars:
                yield f"text {digest}", f"{len(body)} characters", f"{n_chars}"


def _vectors(bank: Bank) -> Iterator[Row]:
    dims: dict[str, int] = {}
    for piece in bank.store.chunks("SELECT emb_id, model, dim, vec FROM embedding ORDER BY emb_id"):
        for emb_id, model, dim, blob in piece:
            where = f"vector {emb_id} of {model}"
            vec = np.frombuffer(blob, "<f4").astype(np.float64)
            norm = float(np.sqrt(vec @ vec)) if np.isfinite(vec).all() else np.nan
            if vec.size != dim or dims.setdefault(model, dim) != dim:
                yield where, f"{vec.size} numbers, dimension {dim}", f"{dims[model]} numbers"
            elif not abs(norm - 1.0) <= NORM_TOLERANCE:
                yield where, f"norm {norm}", "1"
    for seq, key_hash, text_hash in bank.store.rows(
        "SELECT m.seq, m.key_hash, e.text_hash FROM memory m JOIN embedding e ON e.emb_id = m.emb_id "
        "WHERE e.text_hash <> m.key_hash"
    ):
        yield memory_id(seq), f"the vector of text {text_hash}", f"that of its key, {key_hash}"


def _embedder(bank: Bank) -> Iterator[Row]:
    model = bank.embedder.id
    for piece in bank.store.chunks(
        "SELECT e.emb_id, t.body, e.vec FROM embedding e JOIN text_blob t ON t.hash = e.text_hash WHERE e.model = ?",
        (model,),
        size=256,
    ):
        again_ND = np.asarray(bank.embedder.embed([row[1] for row in piece]), np.float64)
        again_ND /= np.linalg.norm(again_ND, axis=1, keepdims=True)
        for (emb_id, text, blob), again in zip(piece, again_ND, strict=True):
            stored = np.frombuffer(blob, "<f4")
            off = float(np.abs(stored - again).max()) if stored.size == again.size else np.inf
            if not off <= SAME:
                yield f"vector {emb_id} of {model}", f"{off:.2g} away from {text[:60]!r} embedded again", f"<= {SAME:g}"


def _erased(bank: Bank) -> Iterator[Row]:
    if erase.unfinished(bank.store):
        do = "erase([], reason) rewrites them"
        yield bank.store.where, "files that may hold what was erased", "files written anew", do


def _memories(bank: Bank) -> Iterator[Row]:
    for seq, status, newer in bank.store.rows(
        "SELECT seq, status, superseded_by FROM memory WHERE status = 'superseded' AND superseded_by IS NULL "
        "OR superseded_by = seq"
    ):
        yield memory_id(seq), f"{status} by {newer}", "the memory that replaced it"
    for seq, owner in bank.store.rows(
        "SELECT m.seq, o.seq FROM provenance a JOIN memory m ON m.seq = a.child JOIN memory o ON o.seq = a.parent "
        "WHERE a.relation = 'key' AND ((m.scope_id, m.body_hash, m.kind, m.polarity) <> "
        f"(o.scope_id, o.body_hash, o.kind, o.polarity) OR NOT ({OWN.replace('m.', 'o.')}))"
    ):
        yield memory_id(seq), f"a key of {memory_id(owner)}, which says something else", "equal bodies"
    for name, body in bank.store.rows("SELECT name, body FROM meta"):
        try:
            json.loads(body)
        except ValueError:
            yield f"meta {name}", body[:60], "JSON"


def _receipts(bank: Bank) -> Iterator[Row]:
    for number, seq in bank.store.rows(
        "SELECT recall_id, memory_id FROM recall_item WHERE (shown OR omitted) AND NOT selected OR shown AND omitted"
    ):
        yield f"{receipt_id(number)}, {memory_id(seq)}", "shown, but left out or not selected", "one of them"
    for number, seq in bank.store.rows(
        "SELECT i.recall_id, i.memory_id FROM recall_item i JOIN recall r ON r.seq = i.recall_id "
        "JOIN memory m ON m.seq = i.memory_id WHERE i.memory_id > r.store_seq OR m.scope_id <> r.scope_id"
    ):
        yield f"{receipt_id(number)}, {memory_id(seq)}", "a memory that the recall could not see", "an older one"
    for number, seq in bank.store.rows(
        "SELECT i.recall_id, i.memory_id FROM exposure x JOIN recall_item i ON i.recall_id = x.recall_id "
        "WHERE x.held_out AND (i.shown OR i.omitted)"
    ):
        yield f"{receipt_id(number)}, {memory_id(seq)}", "shown or left out where all was held out", "neither"
    trimmed = compact.trimmed(bank.store)
    for number, scope_id, n_pool, n in bank.store.rows(
        "SELECT r.seq, r.scope_id, r.n_pool, count(i.memory_id) FROM recall r LEFT JOIN recall_item i "
        "ON i.recall_id = r.seq GROUP BY r.seq, r.scope_id, r.n_pool HAVING r.n_pool <> count(i.memory_id)"
    ):
        if n < n_pool and number <= trimmed.get(scope_id, 0):
            continue  # what was not selected was compacted away
        yield receipt_id(number), f"{n} candidates", f"{n_pool}"
    for number, params, policy in bank.store.rows(
        "SELECT min(seq), params, policy FROM recall GROUP BY params, policy"
    ):
        if not policies.intact(params, policy):
            yield receipt_id(number), params[:60], f"the settings of {policy!r}"


# the memory that is credited for a line i of a receipt
_PAID = OF_VALUE.replace("m.seq", "i.memory_id")


def _credit(bank: Bank) -> Iterator[Row]:
    for params, number, seq in bank.store.rows(
        "SELECT r.params, o.recall_id, i.memory_id FROM outcome o JOIN recall r ON r.seq = o.recall_id "
        "JOIN recall_item i ON i.recall_id = o.recall_id LEFT JOIN value_event e ON e.outcome_id = o.outcome_id "
        f"AND e.memory_id = {_PAID} AND e.rule = 'shown' WHERE o.valid AND i.shown AND NOT r.is_test "
        "AND e.seq IS NULL"
    ):
        if policies.pays_all_shown(params):
            yield f"{receipt_id(number)}, {memory_id(seq)}", "shown and settled without a value event", "one"
    for event, seq in bank.store.rows(
        "SELECT e.seq, e.memory_id FROM value_event e JOIN outcome o ON o.outcome_id = e.outcome_id "
        f"LEFT JOIN recall_item i ON i.recall_id = e.recall_id AND {_PAID} = e.memory_id AND i.selected AND (e.rule = "
        "CASE WHEN i.shown THEN 'shown' ELSE 'omitted' END OR (o.parts IS NOT NULL AND e.weight = 0)) "
        "WHERE e.rule <> 'ancestor' AND i.recall_id IS NULL"
    ):
        yield f"event {event} of {memory_id(seq)}", "credit for what was not shown", "none"
    for event, seq in bank.store.rows(
        "SELECT e.seq, e.memory_id FROM value_event e JOIN outcome o ON o.outcome_id = e.outcome_id "
        "JOIN recall r ON r.seq = e.recall_id WHERE NOT o.valid OR (o.reward <> e.reward AND o.parts IS NULL) "
        "OR o.recall_id <> e.recall_id OR o.objective <> e.objective OR r.stage <> e.stage OR r.is_test "
        "OR EXISTS (SELECT 1 FROM exposure x WHERE x.recall_id = r.seq AND x.held_out)"
    ):
        yield f"event {event} of {memory_id(seq)}", "an event that its outcome does not explain", "their agreement"


def _revisions(bank: Bank) -> Iterator[Row]:
    for number, id_, newer in bank.store.rows(
        "SELECT o.recall_id, o.outcome_id, o.replaced_by FROM outcome o JOIN outcome n ON n.outcome_id = o.replaced_by "
        "WHERE (n.recall_id, n.objective) <> (o.recall_id, o.objective) OR n.outcome_id <= o.outcome_id "
        "UNION SELECT n.recall_id, n.outcome_id, n.place FROM outcome n WHERE n.place IS NOT NULL "
        "AND NOT EXISTS (SELECT 1 FROM outcome o WHERE o.replaced_by = n.outcome_id)"
    ):
        yield f"outcome {id_} of {receipt_id(number)}", f"revised by {newer}", "a later outcome of the same receipt"


def _values(bank: Bank) -> Iterator[Row]:
    for (scope_id,) in bank.store.rows("SELECT scope_id FROM scope ORDER BY scope_id"):
        wrong = replay.differing(bank.store, scope_id)
        of_memory = {row[:3] for row in wrong if len(row) > len(events.Value._fields)}
        of_source = {row[:4] for row in wrong if len(row) <= len(events.Value._fields)}
        for seq, objective, stage in sorted(of_memory):
            yield f"value of {memory_id(seq)} ({objective}/{stage})", "differs", "the sum of its events", _REBUILD
        for _, source, objective, stage in sorted(of_source):
            yield f"track record of {source!r} ({objective}/{stage})", "differs", "the sum of its events", _REBUILD


CHECKS: dict[str, Callable[[Bank], Iterator[Row]]] = {
    "engine": _engine,
    "rows": _rows,
    "texts": _texts,
    "vectors": _vectors,
    "memories": _memories,
    "receipts": _receipts,
    "credit": _credit,
    "revisions": _revisions,
    "values": _values,
    "erased": _erased,
}
