"""Exact nearest neighbours: one contiguous float32 matrix per scope, a shadow of the store.

The store is the truth. The matrix is filled from it at the first use, follows its own process row by row, and notices
commits of other processes through SQLite's data version (microseconds), reading only what is new.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.memory.sqlite import SQLite

# float32 products of the same vectors differ in the last digits by their row; similarities are equal below this
SIM_DIGITS = 6
_SLACK = 1e-6


class Index:
    """Vectors of one scope with exact top-k by cosine (unit vectors: the product)."""

    def __init__(self, store: SQLite, scope_id: int) -> None:
        self._store, self._scope_id = store, scope_id
        self._reset()

    def _reset(self) -> None:
        self.n = 0
        self._matrix = np.empty((0, 0), np.float32)
        self._ids = np.empty(0, np.int64)
        self._kind = np.empty(0, np.int16)
        self._active = np.empty(0, bool)
        self._kinds: dict[str, int] = {}
        self._inactive = 0
        self._seen_memory = self._seen_audit = 0
        self._data_version = -1
        self._undone = self._store.undone

    @property
    def newest(self) -> int:
        """Sequence number of the newest memory that the index knows."""
        return self._seen_memory

    # ------------------------------------------------------------------------------------------------ following
    def catch_up(self) -> bool:
        """Read what other connections committed since the last call, and start again after a rollback.

        Returns whether memories or their status changed.
        """
        if self._undone != self._store.undone:
            self._reset()
        version = self._store.data_version()
        if version == self._data_version:
            return False
        before = self.n
        # the log first: a status change that is committed between the two reads is then applied twice, not lost
        changes = self._store.rows(
            "SELECT seq, target, verb FROM audit WHERE seq > ? AND scope_id = ? AND target <> '*' AND verb IN ("
            "'archive', 'quarantine', 'supersede', 'restore') ORDER BY seq",
            (self._seen_audit, self._scope_id),
        )
        waiting = self._store.row(
            "SELECT count(*) FROM memory WHERE scope_id = ? AND seq > ?", (self._scope_id, self._seen_memory)
        )
        self._room_for(waiting[0] if waiting else 0)
        for piece in self._store.chunks(
            "SELECT m.seq, m.kind, m.status, e.vec FROM memory m JOIN embedding e USING(emb_id) "
            "WHERE m.scope_id = ? AND m.seq > ? ORDER BY m.seq",
            (self._scope_id, self._seen_memory),
        ):
            self._extend(piece)
        for seq, target, verb in changes:
            self._seen_audit = seq
            self.set_active(int(target[1:]), verb == "restore")
        self._data_version = version
        return self.n != before or bool(changes)

    def append(self, seq: int, kind: str, vector: np.ndarray) -> None:
        """Add one active row; ``seq`` must be newer than all before it (rows stay sorted by it)."""
        self._extend([(seq, kind, "active", np.ascontiguousarray(vector, "<f4").tobytes())])

    def _extend(self, rows: Sequence[tuple[int, str, str, bytes]]) -> None:
        """Add rows ``(seq, kind, status, vector as bytes)`` in order of ``seq``."""
        dim, a, b = len(rows[0][3]) // 4, self.n, self.n + len(rows)
        if any(len(row[3]) != 4 * dim for row in rows) or (a and self._matrix.shape[1] != dim):
            raise BadInput("vector of another dimension", got=dim, expected=self._matrix.shape[1])
        if not a and self._matrix.shape[1] != dim:
            self._matrix = np.empty((len(self._ids), dim), np.float32)
        self._room_for(len(rows))
        self._matrix[a:b] = np.frombuffer(b"".join([row[3] for row in rows]), "<f4").reshape(-1, dim)
        self._ids[a:b] = [row[0] for row in rows]
        self._kind[a:b] = [self._kinds.setdefault(row[1], len(self._kinds)) for row in rows]
        self._active[a:b] = [row[2] == "active" for row in rows]
        self._inactive += int(np.count_nonzero(~self._active[a:b]))
        self.n, self._seen_memory = b, rows[-1][0]

    def _room_for(self, more: int) -> None:
        """Make space for more rows; growing by half keeps the cost of a row constant."""
        if self.n + more <= len(self._ids):
            return
        size = max(64, self.n + more, int(self.n * 1.5))
        for name in ("_matrix", "_ids", "_kind", "_active"):
            old = getattr(self, name)
            new = np.empty((size, *old.shape[1:]), old.dtype)
            new[: self.n] = old[: self.n]
            setattr(self, name, new)

    def set_active(self, seq: int, active: bool) -> None:
        """Show or hide one memory."""
        i = int(np.searchsorted(self._ids[: self.n], seq))
        if i < self.n and self._ids[i] == seq and bool(self._active[i]) != active:
            self._active[i] = active
            self._inactive += -1 if active else 1

    # ------------------------------------------------------------------------------------------------ looking
    def search(
        self, query: np.ndarray, *, limit: int, gate: float = -2.0, kinds: Sequence[str] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The ``limit`` active memories most similar to ``query`` with similarity > ``gate``, exact.

        Args:
            query: unit vector float32 ``[D]``.
            limit: at most this many.
            gate: strict lower bound of the cosine; -2 admits all.
            kinds: keep these kinds only.

        Returns:
            ``(seq int64 [<=limit], sim float64 [<=limit])``, most similar first, ties by the older memory.
            Similarities are rounded to 6 digits, so that equal keys are equal wherever their rows lie.
        """
        n = self.n
        if n == 0 or limit <= 0:
            return np.empty(0, np.int64), np.empty(0, np.float64)
        if query.size != self._matrix.shape[1]:
            raise BadInput("query of another dimension", got=query.size, expected=self._matrix.shape[1])
        sim_N = self._matrix[:n] @ query
        keep = self._keep(kinds)
        if keep is not None:
            np.putmask(sim_N, ~keep, np.float32(-3.0))
        rows = None
        if gate > -1.0 or keep is not None:
            rows = np.flatnonzero(sim_N > np.float32(max(gate, -2.0) - _SLACK))
            sim_N = sim_N[rows]
        if len(sim_N) > limit:
            edge = np.partition(sim_N, len(sim_N) - limit)[len(sim_N) - limit]
            near = np.flatnonzero(sim_N >= edge - np.float32(_SLACK))
            rows, sim_N = near if rows is None else rows[near], sim_N[near]
        seq = self._ids[:n] if rows is None else self._ids[rows]
        sim = np.round(sim_N.astype(np.float64), SIM_DIGITS)
        order = np.lexsort((seq, -sim))
        order = order[sim[order] > gate][:limit]
        return seq[order].copy(), sim[order]

    def similarities(
        self, seqs: Sequence[int], query: np.ndarray, kinds: Sequence[str] | None = None
    ) -> tuple[list[int], np.ndarray]:
        """Those of ``seqs`` that a search may return, each once, and their cosines to ``query``: float64 ``[<=N]``."""
        ids = self._ids[: self.n]
        wanted = np.unique(np.asarray(seqs, np.int64))
        rows = np.searchsorted(ids, wanted)
        known = rows < self.n
        known[known] = ids[rows[known]] == wanted[known]
        rows = rows[known]
        keep = self._keep(kinds)
        if keep is not None:
            rows = rows[keep[rows]]
        sim = np.round((self._matrix[rows] @ query).astype(np.float64), SIM_DIGITS) if len(rows) else np.empty(0)
        return ids[rows].tolist(), sim

    def sample(self, limit: int, rng: np.random.Generator, kinds: Sequence[str] | None = None) -> np.ndarray:
        """``limit`` active memories drawn without replacement, uniformly, whatever the query: int64 ``[<=limit]``."""
        keep = self._keep(kinds)
        ids = self._ids[: self.n] if keep is None else self._ids[: self.n][keep]
        return rng.choice(ids, size=min(limit, len(ids)), replace=False) if len(ids) else ids.copy()

    def count(self, kinds: Sequence[str] | None = None) -> int:
        """How many memories a search looks at."""
        keep = self._keep(kinds)
        return self.n if keep is None else int(keep.sum())

    def vectors(self, seqs: Sequence[int]) -> np.ndarray:
        """Vectors of known memories: float32 ``[len(seqs), D]``."""
        return self._matrix[np.searchsorted(self._ids[: self.n], np.asarray(seqs, np.int64))]

    def _keep(self, kinds: Sequence[str] | None) -> np.ndarray | None:
        """Mask of the rows to look at, or ``None`` for all."""
        if kinds is None and not self._inactive:
            return None
        keep = self._active[: self.n]
        if kinds is None:
            return keep
        codes = [self._kinds[kind] for kind in kinds if kind in self._kinds]
        return keep & np.isin(self._kind[: self.n], codes)
