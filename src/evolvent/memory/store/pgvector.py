"""Nearest neighbours in PostgreSQL: pgvector computes, the similarities that are returned are exact.

Exact by default: the server looks at every vector. ``?index=hnsw`` keeps a graph beside them (pgvector's HNSW), asked
where a search has no filter and the store is large; what it finds is then compared exactly, but it may miss some.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper, NumericBinaryLoader

from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.index.index import SIM_DIGITS
from evolvent.memory.store.engine import ALL, Subset

if TYPE_CHECKING:
    from evolvent.memory.store.engine import Progress, Store

LARGE = 100_000  # active memories from which a graph pays
_MORE = 16  # rows fetched beyond the limit, so that near ties are decided exactly
_SLACK = 2e-6  # how far the server's float32 sums may be off
_EF_SEARCH = 400  # how many the graph looks at
_GRAPH_DIM = 2000  # more does not fit into one page


def register(conn: psycopg.Connection, oid: int) -> None:
    """Teach a connection our types: vectors are float32, arrays or little-endian bytes (there are no other bytes here),
    integers have eight bytes, and sums come back as the numbers that SQLite gives.
    """
    vector_in = type("_VectorDumper", (_VectorDumper,), {"oid": oid})
    conn.adapters.register_dumper(np.ndarray, vector_in)
    conn.adapters.register_dumper(bytes, vector_in)
    conn.adapters.register_loader(oid, _VectorLoader)
    conn.adapters.register_dumper(int, Int8BinaryDumper)
    conn.adapters.register_loader("numeric", _NumberLoader)
    conn.execute(f"SET hnsw.ef_search = {_EF_SEARCH}".encode())


class _VectorDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: np.ndarray | bytes) -> Buffer:
        vec = np.frombuffer(obj, "<f4") if isinstance(obj, bytes) else obj
        return struct.pack(">hh", vec.size, 0) + vec.astype(">f4").tobytes()


class _VectorLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return np.frombuffer(data, ">f4", offset=4).astype("<f4").tobytes()


class _NumberLoader(NumericBinaryLoader):
    def load(self, data: Buffer) -> Any:
        number = super().load(data)
        return int(number) if number == number.to_integral_value() else float(number)


@dataclass(frozen=True)
class _View:
    """What a thread knows of the scope: how many memories there are, up to which row and status change."""

    newest: int = 0
    change: int = 0
    n: int = 0
    active: dict[str, int] = field(default_factory=dict)


class PgVector:
    """The vectors of one scope; the interface of ``index.Index``, whose docstrings say what each method promises."""

    def __init__(self, store: Store, scope_id: int, *, graph_from: int | None) -> None:
        self._store, self._scope_id, self._graph_from = store, scope_id, graph_from
        self._lock = threading.Lock()
        self._committed = _View()  # shared by threads: of committed rows only
        self._local = threading.local()
        self._dim = 0
        self._graph_made = False
        self.model: object = None  # the embedder that is searched with

    # ------------------------------------------------------------------------------------------------ following
    @property
    def _view(self) -> _View:
        view: _View = getattr(self._local, "view", self._committed)
        return view

    @property
    def n(self) -> int:
        """How many memories of any status there are."""
        return self._view.n

    @property
    def newest(self) -> int:
        """Sequence number of the newest memory."""
        return self._view.newest

    def catch_up(self) -> bool:
        """Count what is new since the last call of this thread; whether memories or their status changed."""
        before = self._view
        start = self._committed
        view = self._counted(start)
        if not self._store.writing():
            with self._lock:
                if (view.newest, view.change) > (self._committed.newest, self._committed.change):
                    self._committed = view
        self._local.view = view
        if view.n and not self._dim:
            row = self._store.row(
                "SELECT vector_dims(vec) FROM memory_vector WHERE scope_id = ? LIMIT 1", (self._scope_id,)
            )
            self._dim = row[0] if row else 0
        if self._graph_from is not None and self._dim and not self._graph_made:
            self._make_graph()
        return (view.newest, view.change) != (before.newest, before.change)

    def _counted(self, start: _View) -> _View:
        # one statement, so of one state: rows that are new with the status they have now, older ones by what changed
        rows = self._store.rows(
            "SELECT 'new', kind, count(emb_id), count(*) FILTER (WHERE status = 'active'), max(seq) FROM memory "
            "WHERE scope_id = ? AND seq > ? GROUP BY kind UNION ALL "
            "SELECT 'changed', kind, 0, sum(delta), 0 FROM status_change "
            "WHERE scope_id = ? AND id > ? AND seq <= ? GROUP BY kind UNION ALL "
            "SELECT 'change', '', 0, 0, coalesce(max(id), 0) FROM status_change UNION ALL "
            "SELECT 'embedder', body, 0, 0, 0 FROM meta WHERE name = 'embedder'",
            (self._scope_id, start.newest, self._scope_id, start.change, start.newest),
        )
        active, n, newest, change = dict(start.active), start.n, start.newest, start.change
        for what, kind, more, more_active, last in rows:
            if what == "embedder":
                if json.loads(kind) != self.model:
                    self.model = self._store.same_embedder(self.model)
                continue
            active[kind] = active.get(kind, 0) + more_active
            n += more
            newest = max(newest, last) if what == "new" else newest
            change = last if what == "change" else change
        return _View(newest, change, n, active)

    def restart(self) -> None:
        """Count from the start: vectors went, or are other ones."""
        self._committed, self._local, self._dim, self._graph_made = _View(), threading.local(), 0, False

    def prepare(self, progress: Progress | None = None) -> None:
        """Make the graph, where there is to be one; from then on the server keeps it up to date."""
        self.catch_up()
        if progress is not None:
            progress(self.n, self.n, "vectors")

    def about(self) -> dict[str, Any]:
        """How it searches, for ``health``."""
        return {"search": "approximate" if self._approximate() else "exact", "vectors": self.n, "trouble": None}

    def _approximate(self) -> bool:
        return self._graph_from is not None and self.count() >= self._graph_from

    def append(self, seq: int, kind: str, vector: np.ndarray) -> None:
        """Nothing to do: a trigger did it."""

    def set_active(self, seq: int, active: bool) -> None:
        """Nothing to do: a trigger did it."""

    # ------------------------------------------------------------------------------------------------ looking
    def search(self, query: np.ndarray, *, limit: int, subset: Subset = ALL) -> tuple[np.ndarray, np.ndarray]:
        """The ``limit`` active memories most similar to ``query``, best first; see ``Index.search``."""
        if self.count(subset) == 0 or limit <= 0:
            return np.empty(0, np.int64), np.empty(0, np.float64)
        if query.size != self._dim:
            raise BadInput("query of another dimension", got=query.size, expected=self._dim, code="bad_vectors")
        rows = None
        plain = subset.kinds is None and subset.only is None
        if plain and self._approximate() and limit + _MORE <= _EF_SEARCH // 2:
            rows = self._ask_graph(query, limit, subset.without)
        if rows is None:
            rows = self._look_at_all(query, limit, subset)
        seq = np.array([row[0] for row in rows], np.int64)
        sim = _cosines(rows, query)
        order = np.lexsort((seq, -sim))[:limit]
        return seq[order], sim[order]

    def _look_at_all(self, query: np.ndarray, limit: int, subset: Subset) -> list[tuple]:
        where, args = self._filter(subset)
        more = _MORE
        while True:
            rows = self._store.rows(
                f"SELECT seq, vec, vec <#> ? FROM memory_vector WHERE {where} ORDER BY vec <#> ?, seq LIMIT ?",
                (query, *args, query, limit + more),
            )
            # so many near ties that the server's order of them could decide: fetch more of them
            if len(rows) < limit + more or rows[-1][2] > rows[limit - 1][2] + _SLACK:
                return rows
            if rows[-1][2] == rows[limit - 1][2]:
                return rows  # equal vectors: in order already
            more *= 8

    def _ask_graph(self, query: np.ndarray, limit: int, without: np.ndarray) -> list[tuple] | None:
        """The nearest by the graph, or ``None`` when too few of them may be returned."""
        kind = f"vector({self._dim})"
        rows = self._store.rows(
            f"SELECT seq, vec, scope_id FROM memory_vector WHERE active ORDER BY vec::{kind} <#> ?::{kind} LIMIT ?",
            (query, limit + _MORE),
        )
        left_out = set(without.tolist())
        mine = [row for row in rows if row[2] == self._scope_id and row[0] not in left_out]
        return mine if len(mine) >= limit else None

    def _make_graph(self) -> None:
        if self._dim > _GRAPH_DIM:
            do = "search exactly: leave out index=hnsw and search='approximate'"
            raise StoreError(
                "vectors too long for pgvector's graph",
                got=self._dim,
                expected=f"<= {_GRAPH_DIM}",
                do=do,
                code="bad_vectors",
            )
        with self._store.write() as db:
            db.execute("SET LOCAL maintenance_work_mem = '512MB'")  # a graph that does not fit is built much slower
            db.execute(
                "CREATE INDEX IF NOT EXISTS memory_vector_graph ON memory_vector "
                f"USING hnsw ((vec::vector({self._dim})) vector_ip_ops) WHERE active"
            )
        self._graph_made = not self._store.writing()  # inside a transaction it may still be undone

    def similarities(self, seqs: Sequence[int], query: np.ndarray) -> tuple[list[int], np.ndarray]:
        """Those of ``seqs`` that are active, in order, each once, and their cosines to ``query``: float64 ``[<=N]``."""
        where, args = self._filter(ALL)
        rows = self._store.rows(
            f"SELECT seq, vec FROM memory_vector WHERE {where} AND seq = ANY(?) ORDER BY seq",
            (*args, [int(s) for s in seqs]),
        )
        if not rows:
            return [], np.empty(0)
        return [row[0] for row in rows], _cosines(rows, query)

    def sample(self, limit: int, rng: np.random.Generator, subset: Subset = ALL) -> np.ndarray:
        """``limit`` active memories drawn without replacement, uniformly, whatever the query: int64 ``[<=limit]``."""
        n = self.count(subset)
        if not n:
            return np.empty(0, np.int64)
        places = rng.choice(n, size=min(limit, n), replace=False)  # the same draws as from an array of that length
        where, args = self._filter(subset)
        found = dict(
            self._store.rows(
                "SELECT place, seq FROM (SELECT seq, row_number() OVER (ORDER BY seq) - 1 AS place FROM memory_vector "
                f"WHERE {where}) AS numbered WHERE place = ANY(?)",
                (*args, places.tolist()),
            )
        )
        return np.array([found[place] for place in places.tolist() if place in found], np.int64)

    def count(self, subset: Subset = ALL) -> int:
        """How many memories a search looks at."""
        if subset.only is not None or len(subset.without):
            where, args = self._filter(subset)
            return self._store.rows(f"SELECT count(*) FROM memory_vector WHERE {where}", args)[0][0]
        active = self._view.active
        return sum(active.values()) if subset.kinds is None else sum(active.get(kind, 0) for kind in set(subset.kinds))

    def vectors(self, seqs: Sequence[int]) -> np.ndarray:
        """Vectors of known memories: float32 ``[len(seqs), D]``."""
        wanted = [int(s) for s in seqs]
        rows = self._store.rows("SELECT seq, vec FROM memory_vector WHERE seq = ANY(?)", (wanted,))
        by_seq = {seq: np.frombuffer(vec, "<f4") for seq, vec in rows}
        return np.stack([by_seq[seq] for seq in wanted]) if wanted else np.empty((0, self._dim), np.float32)

    def _filter(self, subset: Subset) -> tuple[str, tuple]:
        parts = [
            ("scope_id = ? AND active", self._scope_id),
            ("kind = ANY(?)", None if subset.kinds is None else list(subset.kinds)),
            ("seq = ANY(?)", None if subset.only is None else subset.only.tolist()),
            ("NOT seq = ANY(?)", subset.without.tolist() or None),
        ]
        asked = [part for part in parts if part[1] is not None]
        return " AND ".join(sql for sql, _ in asked), tuple(arg for _, arg in asked)


def _cosines(rows: Sequence[tuple], query: np.ndarray) -> np.ndarray:
    """Cosines of ``(seq, vector, …)`` in float64, each row for itself: the bits that ``Index`` gives."""
    vec_ND = np.frombuffer(b"".join([row[1] for row in rows]), "<f4").reshape(len(rows), query.size)
    return np.round(np.multiply(vec_ND, query.astype(np.float64)).sum(axis=1), SIM_DIGITS)
