"""Nearest neighbours among the memories of one scope of a SQLite store.

The store is the truth. A shadow of it is filled at the first use, follows its own process row by row, and notices
commits of other processes through SQLite's data version (microseconds), reading only what is new. Equal keys share one
vector. A large scope keeps its shadow in files beside the store (``cache``), so that it opens at once; a very large one
asks a search graph (``graph``) for candidates. Similarities are those of the exact vectors either way.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, EvolventError, install
from evolvent.memory.index import graph
from evolvent.memory.index.cache import Cache
from evolvent.memory.index.graph import Graph
from evolvent.memory.index.shadow import Shadow
from evolvent.memory.store.engine import ALL, Progress, Search, Store, Subset

# similarities are rounded to this, so that equal keys are equal however their products were summed
SIM_DIGITS = 6
# float32 products of the same two vectors may differ by their place in the matrix, by less than this
_SLACK = 2e-6

# memories of a scope from which its shadow is kept in files: without, opening takes a tenth of a second here, with a
# tenth of that; at 50,000 a twentieth
FILE_FROM = 20_000
# vectors of a scope from which a graph proposes candidates: below, it saves less than it takes to build
GRAPH_FROM = 100_000
_TAIL = 10_000  # memories that may be missing there
_SMALL = 0.1  # a scope with a smaller share of the store's memories is read through the index of scopes
_FEW = 0.02  # a filter that leaves a smaller share of the memories is searched exactly
_FEW_ROWS = 512  # below it two rows with one vector are compared twice
_LEAST, _SPARE = 64, 4  # candidates asked for: at least so many, and so many times the limit


class Index:
    """Vectors of one scope with top-k by cosine (unit vectors: the product).

    Args:
        store: the open store.
        scope_id: which scope of it.
        search: "exact": compare with every vector; "auto": the same up to 100,000 vectors, beyond that with candidates
            from a graph where usearch is installed; "approximate": with candidates, however few vectors there are.

    Raises:
        BadInput: approximate search of a store in memory.
        MissingExtra: approximate search without usearch.
    """

    def __init__(self, store: Store, scope_id: int, search: Search = "auto") -> None:
        self._store, self._scope_id, self._search = store, scope_id, search
        if search == "approximate":
            graph.require()
            if store.path == ":memory:":
                raise BadInput(
                    "a store in memory is searched exactly",
                    got=search,
                    expected="'auto' or 'exact'",
                    code="unknown_option",
                )
        self._cache = None if store.path == ":memory:" or os.name != "posix" else self._new_cache()
        self._known = Shadow()
        self._waiting: list[tuple[int, str, np.ndarray]] = []  # appended one by one, taken in together when needed
        self._loaded = False
        self._seen_audit = self._safe_audit = 0
        self._read_to = 0  # memories of all scopes up to this number were looked at
        self._data_version: tuple | None = None
        self._undone = store.undone
        self.model: object = None  # the embedder that is searched with
        self._progress: Progress | None = None

    def _new_cache(self) -> Cache:
        if self._search == "approximate":
            return Cache(self._store, self._scope_id, file_from=1, graph_from=1, tail=min(_TAIL, 256))
        graph_from = GRAPH_FROM if self._search == "auto" and graph.installed() else None
        return Cache(self._store, self._scope_id, file_from=FILE_FROM, graph_from=graph_from, tail=_TAIL)

    @property
    def _shadow(self) -> Shadow:
        """What is known, with what was appended."""
        # + before scope_id, here and below: without it SQLite reads the index of all bodies of the scope at every call
        if self._waiting:
            torn, self._known.torn = self._known.torn, True
            waiting, self._waiting = self._waiting, []
            emb = dict(
                self._store.rows(
                    "SELECT seq, emb_id FROM memory WHERE +scope_id = ? AND seq >= ?", (self._scope_id, waiting[0][0])
                )
            )
            there = [it for it in waiting if emb.get(it[0]) is not None]  # not erased meanwhile, nor its scope dropped
            if there:
                self._known.extend([(seq, kind, "active", emb[seq], vec.tobytes()) for seq, kind, vec in there])
            self._known.torn = torn
        return self._known

    @property
    def n(self) -> int:
        """How many memories of any status it knows."""
        return self._shadow.n

    @property
    def newest(self) -> int:
        """Sequence number of the newest memory that the index knows."""
        return self._shadow.newest

    # ------------------------------------------------------------------------------------------------ following
    def catch_up(self) -> bool:
        """Read what other connections committed since the last call, and take back what was rolled back.

        Returns whether memories or their status changed.
        """
        if self._known.torn:
            self.restart()
        self._known.torn = True
        try:
            return self._followed()
        except EvolventError:
            self._known.torn = False
            raise

    def _followed(self) -> bool:
        if self._undone != self._store.undone:
            self._waiting.clear()  # what of it was not undone is read again
            self._known.rewind()
            self._read_to = self._known.newest
            self._seen_audit, self._data_version, self._undone = self._safe_audit, None, self._store.undone
        if not self._loaded:
            self._loaded = True
            if self._cache is not None:
                self._seen_audit = self._safe_audit = self._cache.load(self._shadow)
        self._settle()
        version = self._store.row("PRAGMA data_version")  # changes when another connection has committed; microseconds
        if version == self._data_version:
            self._known.torn = False
            return False
        before = self.n
        self.model = self._store.same_embedder(self.model)
        # the log first: a status change that is committed between the two reads is then looked at twice, not lost
        (last,) = self._store.row("SELECT coalesce(max(seq), 0) FROM audit") or (0,)
        changes = self._store.rows(
            "SELECT seq, target, verb FROM audit WHERE seq > ? AND scope_id = ? AND target <> '*' AND verb IN ("
            "'archive', 'quarantine', 'supersede', 'restore', 'erase') ORDER BY seq",
            (self._seen_audit, self._scope_id),
        )
        if any(verb == "erase" for _, _, verb in changes):
            self.restart()  # what was erased must not reach the files again
            self._known.torn = True
        self._read_new()
        self._follow(sorted({int(target[1:]) for _, target, _ in changes}))
        self._seen_audit = max([self._seen_audit, last, *(seq for seq, _, _ in changes)])
        self._data_version = version
        self._settle()
        self._known.torn = False
        return self.n != before or bool(changes)

    def restart(self) -> None:
        """Read everything anew, without the files: vectors went, or are other ones."""
        if self._cache is not None:
            self._cache.stop()
            self._cache = self._new_cache()
        self._known, self._loaded, self._data_version, self._read_to = Shadow(), True, None, 0
        self._waiting.clear()

    def _settle(self) -> None:
        """Outside of transactions everything known is committed: it need not be taken back, and may go to the files."""
        if self._store.writing():
            return
        self._shadow.commit()
        self._safe_audit = self._seen_audit
        if self._cache is not None:
            self._cache.keep_up(self._shadow, self._seen_audit)

    def _read_new(self) -> None:
        shadow = self._shadow
        start = max(shadow.newest, self._read_to)
        (last,) = self._store.row("SELECT coalesce(max(seq), 0) FROM memory") or (0,)
        if last <= start:
            return
        # by number, the store's rows behind the last look; at the first look that is every scope: then by scope,
        # unless most of it is this scope's, whose vectors would have to be sorted
        plus = "" if start == 0 else "+"
        row = self._store.row(
            f"SELECT count(*) FROM memory WHERE {plus}scope_id = ? AND seq > ?", (self._scope_id, start)
        )
        more = row[0] if row else 0
        if more:
            plus = "" if start == 0 and more < _SMALL * last else "+"
            self._read_rows(f"{plus}m.scope_id = ? AND m.seq > ?", start, more)
        self._read_to = last

    def _read_rows(self, which: str, start: int, more: int) -> None:
        shadow = self._shadow
        shadow.room_for(more)
        total = shadow.n + more
        for piece in self._store.chunks(
            "SELECT m.seq, m.kind, m.status, m.emb_id, e.vec FROM memory m JOIN embedding e USING(emb_id) "
            f"WHERE {which} ORDER BY m.seq",
            (self._scope_id, start),
        ):
            shadow.extend(piece)
            if self._progress is not None:
                self._progress(shadow.n, total, "vectors")

    def _follow(self, seqs: Sequence[int]) -> None:
        """Show or hide memories as the store says now."""
        for seq, status in self._store.rows_among("SELECT seq, status FROM memory WHERE seq IN ({})", seqs):
            self._shadow.set_active(seq, status == "active")

    def append(self, seq: int, kind: str, vector: np.ndarray) -> None:
        """Add one active row; ``seq`` must be newer than all before it (rows stay sorted by it)."""
        self._waiting.append((seq, kind, np.ascontiguousarray(vector, "<f4")))

    def set_active(self, seq: int, active: bool) -> None:
        """Show or hide one memory."""
        self._shadow.set_active(seq, active)

    def prepare(self, progress: Progress | None = None) -> None:
        """Bring files and graph up to date now, and wait for it.

        Args:
            progress: called as ``progress(done, total, "vectors" | "search graph")``.
        """
        with self._store.session():
            self._progress = progress
            try:
                self.catch_up()
            finally:
                self._progress = None
            if self._cache is None or self._store.writing() or not self.n:
                return
            if self.n >= (1 if self._search == "approximate" else FILE_FROM):
                self._cache.save(self._shadow, self._seen_audit)
        self._cache.prepare(self._shadow, progress)

    def about(self) -> dict[str, Any]:
        """How it searches, for ``health``."""
        plain = {"in_file": 0, "in_graph": 0, "building": False, "trouble": None}
        found = {"vectors": self._shadow.vectors.n, **(self._cache.about(self._shadow) if self._cache else plain)}
        large = self._search == "auto" and self._shadow.vectors.n >= GRAPH_FROM
        if large and self._cache is not None and not graph.installed():
            found["trouble"] = f"usearch is not installed, so search is exact: {install('scale')}"
        return {"search": "approximate" if self._graph() else "exact", **found}

    def close(self) -> None:
        """Write what the files lack, and stop building; the store must still be open."""
        if self._cache is not None:
            if self._loaded and self._undone == self._store.undone and not self._store.writing():
                self._cache.close(self._shadow, self._seen_audit)
            else:
                self._cache.stop()

    # ------------------------------------------------------------------------------------------------ looking
    def search(self, query: np.ndarray, *, limit: int, subset: Subset = ALL) -> tuple[np.ndarray, np.ndarray]:
        """The ``limit`` active memories most similar to ``query``.

        Args:
            query: unit vector float32 ``[D]``.
            limit: at most this many.
            subset: which memories it may return.

        Returns:
            ``(seq int64 [<=limit], sim float64 [<=limit])``, most similar first, ties by the older memory.
            Similarities are rounded to 6 digits, so that equal keys are equal wherever their rows lie.
        """
        shadow = self._shadow
        if shadow.n == 0 or limit <= 0:
            return np.empty(0, np.int64), np.empty(0, np.float64)
        if query.size != shadow.vectors.dim:
            raise BadInput(
                "query of another dimension", got=query.size, expected=shadow.vectors.dim, code="bad_vectors"
            )
        found = self._near(query, limit, subset)
        rows, sim = self._all(query, subset) if found is None else found
        return self._best(rows, sim, query, limit)

    def _all(self, query: np.ndarray, subset: Subset) -> tuple[np.ndarray | None, np.ndarray]:
        """Rows that may be returned (``None``: all rows), and their similarities float32."""
        shadow = self._shadow
        allowed = shadow.allowed(subset)
        rows = None if allowed is None else np.flatnonzero(allowed)
        if rows is not None and len(rows) < 0.1 * shadow.n:
            return rows, shadow.vectors.take(shadow.slot[rows]) @ query
        sim = shadow.vectors.product(query)
        sim = sim if shadow.plain else sim[shadow.slot[: shadow.n]]
        return rows, sim if rows is None else sim[rows]

    def _near(self, query: np.ndarray, limit: int, subset: Subset) -> tuple[np.ndarray, np.ndarray] | None:
        """The same from the candidates of the graph and all vectors behind it; ``None``: ask all vectors."""
        shadow, ready = self._shadow, self._graph()
        if ready is None or (able := shadow.count(subset)) < _FEW * shadow.n:
            return None
        wanted = int(max(_LEAST, _SPARE * limit) * shadow.n / max(1, able)) + 1
        slots = ready.search(query, wanted)
        if len(slots) == 0 or slots.max() >= shadow.vectors.n:
            return None
        edge = float((shadow.vectors.take(slots) @ query).min()) if len(slots) < ready.count else -2.0
        tail = np.arange(ready.count, shadow.vectors.n)
        if len(tail) > wanted:
            sim = shadow.vectors.product(query, ready.count)
            tail = tail[sim >= edge - _SLACK]
        rows = shadow.rows_of(np.concatenate([slots, tail]))
        rows = rows[shadow.allows(rows, subset)]
        sim = shadow.vectors.take(shadow.slot[rows]) @ query
        # what the graph did not return lies below its last candidate: enough must lie above that
        above = int(np.count_nonzero(sim > edge + _SLACK))
        if above < limit and len(rows) < able:
            return None
        # a graph may never reach a cluster; a few vectors compared exactly tell
        worst = float(np.partition(sim, len(sim) - limit)[len(sim) - limit]) if len(sim) >= limit else -2.0
        missed = ready.overlooked(query, slots, worst + _SLACK)
        missed = shadow.rows_of(missed) if len(missed) else missed
        return None if len(missed) and shadow.allows(missed, subset).any() else (rows, sim)

    def _graph(self) -> Graph | None:
        return None if self._cache is None else self._cache.graph(self._shadow)

    def _best(
        self, rows: np.ndarray | None, sim: np.ndarray, query: np.ndarray, limit: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best of some rows, compared in float64."""
        if len(sim) > limit:
            edge = np.partition(sim, len(sim) - limit)[len(sim) - limit]
            near = np.flatnonzero(sim >= edge - np.float32(_SLACK))
            rows = near if rows is None else rows[near]
        elif rows is None:
            rows = np.arange(len(sim))
        seq, cosine = self._shadow.ids[rows], self._cosines(rows, query)
        order = np.lexsort((seq, -cosine))[:limit]
        return seq[order], cosine[order]

    def _cosines(self, rows: np.ndarray, query: np.ndarray) -> np.ndarray:
        slots = self._shadow.slot[rows]
        if len(slots) <= _FEW_ROWS:
            return np.round(self._shadow.vectors.cosines(slots, query), SIM_DIGITS)
        slots, place = np.unique(slots, return_inverse=True)  # thousands of rows may share one vector
        return np.round(self._shadow.vectors.cosines(slots, query), SIM_DIGITS)[place]

    def similarities(self, seqs: Sequence[int], query: np.ndarray) -> tuple[list[int], np.ndarray]:
        """Those of ``seqs`` that are active, in order, each once, and their cosines to ``query``: float64 ``[<=N]``."""
        rows = self._shadow.rows(np.unique(np.asarray(seqs, np.int64)))
        rows = rows[self._shadow.active[rows]]
        return self._shadow.ids[rows].tolist(), self._cosines(rows, query)

    def sample(self, limit: int, rng: np.random.Generator, subset: Subset = ALL) -> np.ndarray:
        """``limit`` active memories drawn without replacement, uniformly, whatever the query: int64 ``[<=limit]``."""
        allowed = self._shadow.allowed(subset)
        ids = self._shadow.ids[: self.n] if allowed is None else self._shadow.ids[: self.n][allowed]
        return rng.choice(ids, size=min(limit, len(ids)), replace=False) if len(ids) else ids.copy()

    def count(self, subset: Subset = ALL) -> int:
        """How many memories a search looks at."""
        return self._shadow.count(subset)

    def vectors(self, seqs: Sequence[int]) -> np.ndarray:
        """Vectors of known memories: float32 ``[len(seqs), D]``."""
        rows = np.searchsorted(self._shadow.ids[: self.n], np.asarray(seqs, np.int64))
        return self._shadow.vectors.take(self._shadow.slot[rows])
