"""What the verbs share: the store, one scope of it, its index, and vectors by content."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from evolvent.core.errors import BadInput, StoreError
from evolvent.core.protocols import Embedder
from evolvent.memory import external
from evolvent.memory.embedders import as_vectors
from evolvent.memory.holdout import NEVER, Holdout
from evolvent.memory.index.index import Index
from evolvent.memory.items import named
from evolvent.memory.metadata import Metadata
from evolvent.memory.rule import Policy
from evolvent.memory.store.engine import GONE, Connection, Search, Store, among, put_text
from evolvent.memory.text import counted

if TYPE_CHECKING:
    from evolvent.memory.store.pgvector import PgVector

EMB_ID = "(SELECT emb_id FROM embedding WHERE model=? AND text_hash=?)"
_CACHED_VECTORS = 8192


@dataclass
class Bank:
    """One scope of an open store."""

    store: Store
    scope: str
    scope_id: int
    embedder: Embedder
    policy: Policy
    reward_range: tuple[float, float]
    seed: int
    search: Search = "auto"
    mask: bool = True  # secrets in texts on their way into the store
    holdout: Holdout = NEVER
    index: Index | PgVector = field(init=False)  # ``Index`` says what each method promises
    metadata: Metadata = field(init=False)
    _vectors: OrderedDict[str, np.ndarray] = field(default_factory=OrderedDict)
    _vectors_lock: threading.Lock = field(default_factory=threading.Lock)
    _dim: int = 0  # of the vectors in the store, once there are any

    def __post_init__(self) -> None:
        self.index = self.store.index(self.scope_id, self.search)
        self.index.model = self.embedder.id
        self.metadata = Metadata(self.store, self.scope_id)

    def forget(self) -> None:
        """Drop what is known of vectors and metadata: some went, or are other ones."""
        self.store.forget_files(self.scope_id)
        self.index.restart()
        self.index.model = self.embedder.id
        self.metadata = Metadata(self.store, self.scope_id)
        with self._vectors_lock:
            self._vectors.clear()
        self._dim = 0

    def stored(self, db: Connection, digests: Iterable[str]) -> Iterable[tuple]:
        """Ask the store for the vectors of texts that are not in memory: ``(hash, vector)``."""
        with self._vectors_lock:
            missing = [digest for digest in digests if digest not in self._vectors]
        return among(
            db, "SELECT text_hash, vec FROM embedding WHERE model=? AND text_hash IN ({})", missing, self.embedder.id
        )

    def vectors(self, texts: dict[str, str], stored: Iterable[tuple] | None = None) -> dict[str, np.ndarray]:
        """Unit vectors float32 ``[D]`` by content hash, for ``{hash: text}``.

        Looked up in memory, then in the store (or in what was ``stored``); the embedder sees each text at most once in
        the life of the store.
        """
        if stored is None:
            with self.store.session() as db, self.store.translated("reading"):
                stored = list(self.stored(db, texts))
        found: dict[str, np.ndarray] = {}
        with self._vectors_lock:
            for digest in texts:
                if digest in self._vectors:
                    self._vectors.move_to_end(digest)
                    found[digest] = self._vectors[digest]
        found |= {digest: np.frombuffer(vec, "<f4") for digest, vec in stored if digest not in found}
        missing = [d for d in texts if d not in found]
        if missing:
            # outside any lock: embedding is slow, and other threads need not wait for it
            for digest, vec in zip(missing, self._embed([texts[d] for d in missing]), strict=True):
                found[digest] = vec
        with self._vectors_lock:
            for digest, vec in found.items():
                self._vectors[digest] = vec
            while len(self._vectors) > _CACHED_VECTORS:
                self._vectors.popitem(last=False)
        return found

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        vec_ND = unit_vectors(self.embedder, texts)
        if not self._dim:
            row = self.store.row("SELECT dim FROM embedding WHERE model=? LIMIT 1", (self.embedder.id,))
            self._dim = row[0] if row else 0
        if self._dim and self._dim != vec_ND.shape[1]:
            raise StoreError(
                "the store holds vectors of another dimension",
                got=vec_ND.shape[1],
                expected=self._dim,
                where=f"{self.store.where}, embedder {self.embedder.id!r}",
                do="use the model that the store was made with",
                code="other_embedder",
            )
        return vec_ND

    def put_embedding(self, db: Connection, digest: str, text: str, vec: np.ndarray) -> None:
        """Store text and vector unless they are there; ``EMB_ID`` finds the vector."""
        self.store.same_embedder(self.embedder.id)  # it may have been changed since the index looked
        put_vector(db, self.embedder.id, digest, text, vec)

    def check_scope(self) -> None:
        """``StoreError`` when another handle dropped the scope."""
        if self.store.row("SELECT 1 FROM scope WHERE scope_id=?", (self.scope_id,)) is None:
            raise StoreError(
                GONE, got=self.scope, where=self.store.where, code="unknown_scope", do="open the memory again"
            )

    def memory_seq(self, id_: object, where: str) -> int:
        """The row of a memory of this scope; of what is kept elsewhere that of its newest text, by the caller's id."""
        elsewhere = external.sequences(self.store, self.scope_id, named(id_))
        if elsewhere:
            return elsewhere[-1]
        seq = parse_id(id_, "m", "memory", where)
        if self.store.row("SELECT 1 FROM memory WHERE seq=? AND scope_id=?", (seq, self.scope_id)) is None:
            expected = f"a memory of scope {self.scope!r}"
            do = "evolvent memory list STORE --status all, or items(None), names what there is"
            raise BadInput(
                "unknown memory", got=f"m{seq}", expected=expected, where=where, do=do, code="unknown_memory"
            )
        return seq

    def owner_seq(self, id_: object, where: str) -> int:
        """The row of a memory; where a number is one more key of a memory (``memory/keys.py``), that memory's."""
        seq = self.memory_seq(id_, where)
        owner = self.store.row("SELECT parent FROM provenance WHERE child=? AND relation='key'", (seq,))
        return seq if owner is None else owner[0]

    def question_of(self, seq: int) -> str | None:
        """The hash of what a receipt of this scope was asked; None: it is none of this scope's."""
        row = self.store.row("SELECT query_hash FROM recall WHERE seq=? AND scope_id=?", (seq, self.scope_id))
        return None if row is None else row[0]

    def receipt_seq(self, recalled: object, where: str) -> int:
        """The row of a receipt of this scope."""
        seq = parse_id(recalled, "r", "receipt", where)
        if self.question_of(seq) is None:
            do = "take the Recall that recall() returned, or its id, on the same store and scope"
            expected = f"a recall of scope {self.scope!r}"
            raise BadInput(
                "unknown receipt", got=f"r{seq}", expected=expected, where=where, do=do, code="unknown_receipt"
            )
        return seq


def unit_vectors(embedder: Embedder, texts: Sequence[str]) -> np.ndarray:
    """Vectors of texts, scaled to unit length: float32 ``[N, D]``; ``BadInput`` where there are none."""
    where = f"embedder {embedder.id!r}"
    try:
        given = embedder.embed(texts)
    except Exception as error:
        error.add_note(f"where: {where}, asked for the vectors of {counted(len(texts), 'text')}")
        raise
    vec_ND = as_vectors(given, where)
    if vec_ND.ndim != 2 or len(vec_ND) != len(texts):
        raise BadInput(
            "the embedder gave the wrong shape",
            got=vec_ND.shape,
            expected=(len(texts), "D"),
            where=where,
            code="bad_vectors",
        )
    if vec_ND.shape[1] != embedder.dim:
        raise BadInput(
            "vectors of another dimension", got=vec_ND.shape[1], expected=embedder.dim, where=where, code="bad_vectors"
        )
    with np.errstate(over="ignore"):
        norm_N1 = np.linalg.norm(vec_ND, axis=1, keepdims=True)
    if not np.isfinite(norm_N1).all():
        raise BadInput(
            "the embedder gave NaN, infinite or enormous numbers",
            where=where,
            do="nothing was stored; try again",
            code="bad_vectors",
        )
    if (norm_N1 < 1e-6).any():
        raise BadInput(
            "the embedder gave a zero vector", got=texts[int(norm_N1.argmin())][:60], where=where, code="bad_vectors"
        )
    return np.ascontiguousarray(vec_ND / norm_N1)


def put_vector(db: Connection, model: str, digest: str, text: str, vec: np.ndarray) -> None:
    """Store a text and its vector under a model, unless they are there."""
    put_text(db, digest, text)
    db.execute(
        "INSERT INTO embedding(model, text_hash, dim, vec) VALUES(?,?,?,?) ON CONFLICT(model, text_hash) DO NOTHING",
        (model, digest, vec.size, np.ascontiguousarray(vec, "<f4")),
    )


def parse_id(id_: object, letter: str, what: str, where: str) -> int:
    """``"m12"`` to 12; what has an id stands for it."""
    id_ = named(id_)
    if isinstance(id_, str) and id_[:1] == letter and id_[1:].isascii() and id_[1:].isdigit() and len(id_) < 20:
        return int(id_[1:])
    expected = f"{letter!r} and a number, e.g. '{letter}12'"
    raise BadInput(f"not the id of a {what}", got=id_, expected=expected, where=where, code="not_an_id")
