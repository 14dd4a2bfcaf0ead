"""Another embedder for a store: new vectors beside the old ones, then one transaction in which all keys change over.

Until then everything goes on with the old embedder, also in other processes. What is done is in the store: a process
that dies is followed by one that goes on where it stopped. Afterwards the old vectors are gone; receipts made before
keep their numbers and no longer tell the cosine of each candidate.
"""

from __future__ import annotations

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Embedder
from evolvent.memory.bank import put_vector, unit_vectors
from evolvent.memory.opening import as_embedder
from evolvent.memory.store.engine import Progress, Store, audit
from evolvent.memory.text import callback

_BATCH = 256
_KEYS = "SELECT DISTINCT key_hash FROM memory WHERE emb_id IS NOT NULL"
_THERE = "EXISTS (SELECT 1 FROM embedding e WHERE e.model = ? AND e.text_hash = m.key_hash)"


def reembed(store: Store, embedder: str | Embedder, *, progress: Progress | None = None) -> int:
    """``Memory.reembed`` of an open store: every key of every scope gets a vector of ``embedder``.

    Raises:
        BadInput: not an embedder, or it gave no vectors; inside a transaction. The store is as it was.
    """
    callback(progress, "reembed")
    new, made = as_embedder(embedder), 0
    if store.writing():
        raise BadInput("reembed inside a transaction", where="reembed", code="inside_transaction")
    if store.meta_get("embedder") == new.id:
        return 0
    while not _switched(store, new.id):
        made += _embedded(store, new, progress)
    for (scope_id,) in store.rows("SELECT scope_id FROM scope"):
        store.forget_files(scope_id)
    store.shrink()
    return made


def _embedded(store: Store, new: Embedder, progress: Progress | None) -> int:
    """Embed what lacks a vector, in batches, each a transaction of its own."""
    made, last = 0, 0
    total = store.rows(f"SELECT count(*) FROM ({_KEYS}) keys")[0][0]
    done = store.rows(f"SELECT count(*) FROM ({_KEYS} AND {_THERE.replace('m.', 'memory.')}) keys", (new.id,))[0][0]
    while True:
        rows = store.rows(
            "SELECT m.seq, m.key_hash, t.body FROM memory m JOIN text_blob t ON t.hash = m.key_hash WHERE m.seq > ? "
            f"AND m.emb_id IS NOT NULL AND NOT {_THERE} ORDER BY m.seq LIMIT ?",
            (last, new.id, _BATCH),
        )
        if not rows:
            return made
        texts, last = {digest: body for _, digest, body in rows}, rows[-1][0]
        vec_ND = unit_vectors(new, list(texts.values()))  # outside any lock: others go on meanwhile
        with store.write() as db:
            for (digest, text), vec in zip(texts.items(), vec_ND, strict=True):
                put_vector(db, new.id, digest, text, vec)
        made += len(texts)
        if progress is not None:
            progress(done + made, max(total, done + made), "vectors")


def _switched(store: Store, model: str) -> bool:
    """Change over, unless a key still lacks its new vector."""
    with store.write() as db, store.unguarded():
        if store.row(f"SELECT 1 FROM memory m WHERE m.emb_id IS NOT NULL AND NOT {_THERE} LIMIT 1", (model,)):
            return False
        was = store.meta_get("embedder")
        db.execute("DROP INDEX IF EXISTS memory_vector_graph")  # PostgreSQL's, of vectors of another length
        db.execute("UPDATE recall SET emb_id = NULL WHERE emb_id IS NOT NULL")
        db.execute(
            "UPDATE memory SET emb_id = (SELECT e.emb_id FROM embedding e WHERE e.model = ? "
            "AND e.text_hash = memory.key_hash) WHERE emb_id IS NOT NULL",
            (model,),
        )
        db.execute("DELETE FROM embedding WHERE model <> ?", (model,))
        store.meta_set("embedder", model)
        audit(db, None, "reembed", "*", {"was": was, "now": model})
    return True
