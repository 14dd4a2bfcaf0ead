"""What an index knows of a scope: one row a memory, in the order of creation, and one vector for each distinct key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.memory.index.cache_files import Saved
from evolvent.memory.index.vectors import Vectors, larger
from evolvent.memory.store.engine import Subset

_REGROUP = 10_000
Row = tuple[int, str, str, int, bytes]  # number, kind, status, embedding, vector float32 of a memory


class Shadow:
    """Columns ``[n]`` over memories; ``slot`` says which row of ``vectors`` is theirs.

    Slots are given in the order in which vectors first appear, so that every process numbers them alike.
    """

    def __init__(self) -> None:
        self.n = 0
        self.vectors = Vectors()
        self.ids = np.empty(0, np.int64)
        self.kind = np.empty(0, np.int16)
        self.active = np.empty(0, bool)
        self.slot = np.empty(0, np.int32)
        self.emb = np.empty(0, np.int64)  # [vectors.n]: their rows in the store
        self.torn = False  # it is being changed; a signal may end that in the middle
        self.kinds: dict[str, int] = {}
        self.shown: list[int] = []  # active memories by kind
        self._slots: dict[int, int] = {}  # the inverse of emb, behind the first len(_order) vectors
        self._order = np.empty(0, np.int64)  # sorts the first emb
        self._safe = (0, 0)  # memories and vectors that are known to be committed
        self._flips: list[tuple[int, bool]] = []  # what rows were before changes that may be rolled back
        # memories by vector: of the first how many, in what order, where those of each vector start
        self._groups = (0, self._order, self._order)

    @property
    def newest(self) -> int:
        """Number of the newest memory, 0 when there is none."""
        return int(self.ids[self.n - 1]) if self.n else 0

    @property
    def plain(self) -> bool:
        """Whether every memory has a vector of its own: row and slot are then the same."""
        return self.vectors.n == self.n

    # ------------------------------------------------------------------------------------------------ from a file
    def restore(self, saved: Saved, file_ND: np.ndarray) -> None:
        """Become what was saved; ``self`` must be new."""
        self.n = len(saved.ids)
        self.ids, self.kind, self.active = saved.ids, saved.kind, saved.active
        self.slot, self.emb = saved.slot, saved.emb
        self.vectors = Vectors(saved.dim)
        self.kinds = {name: code for code, name in enumerate(saved.kinds)}
        self.shown = np.bincount(self.kind[self.active], minlength=len(self.kinds)).tolist()
        self.map(file_ND)
        self.commit()

    def map(self, file_ND: np.ndarray) -> None:
        """The first vectors are in this file."""
        self.vectors.map(file_ND)
        first = self.emb[: len(file_ND)]
        self._order = np.argsort(first, kind="stable")
        behind = self.emb[len(file_ND) : self.vectors.n]
        self._slots = dict(zip(behind.tolist(), range(len(file_ND), self.vectors.n), strict=True))

    # ------------------------------------------------------------------------------------------------ growing
    def extend(self, rows: Sequence[Row]) -> None:
        """Add memories in the order of their numbers, all newer than those at hand."""
        dim, a, b = len(rows[0][4]) // 4, self.n, self.n + len(rows)
        if self.vectors.n == 0:
            self.vectors = Vectors(dim)
        if any(len(row[4]) != 4 * dim for row in rows) or self.vectors.dim != dim:
            raise BadInput("vector of another dimension", got=dim, expected=self.vectors.dim, code="bad_vectors")
        self.room_for(len(rows))
        self.slot[a:b] = self._slots_of(rows)
        for i, (seq, kind, status, _, _) in enumerate(rows, start=a):
            code = self.kinds.setdefault(kind, len(self.kinds))
            if code == len(self.shown):
                self.shown.append(0)
            self.ids[i], self.kind[i], self.active[i] = seq, code, status == "active"
            self.shown[code] += status == "active"
        self.n = b

    def room_for(self, more: int) -> None:
        """Make space for more memories."""
        if self.n + more > len(self.ids):
            for name in ("ids", "kind", "active", "slot"):
                setattr(self, name, larger(getattr(self, name), self.n, more))

    def _slots_of(self, rows: Sequence[Row]) -> list[int]:
        """Where the vectors of new memories lie; those that no earlier memory has are added."""
        u, slots, new = self.vectors.n, [], []
        for row, slot in zip(rows, self._in_file([row[3] for row in rows]), strict=True):
            if slot < 0:
                slot = self._slots.setdefault(row[3], u + len(new))
                if slot == u + len(new):
                    new.append(row)
            slots.append(slot)
        if new:
            if u + len(new) > len(self.emb):
                self.emb = larger(self.emb, u, len(new))
            self.emb[u : u + len(new)] = [row[3] for row in new]
            self.vectors.extend(np.frombuffer(b"".join([row[4] for row in new]), "<f4").reshape(len(new), -1))
        return slots

    def _in_file(self, embs: list[int]) -> list[int]:
        """Slots of embeddings whose vectors are in the file, -1 for others."""
        if not len(self._order):
            return [-1] * len(embs)
        first, wanted = self.emb[: len(self._order)], np.asarray(embs, np.int64)
        place = np.searchsorted(first, wanted, sorter=self._order)
        slot = self._order[np.minimum(place, len(first) - 1)]
        return np.where(first[slot] == wanted, slot, -1).tolist()

    def set_active(self, seq: int, active: bool) -> None:
        """Show or hide one memory."""
        i = int(np.searchsorted(self.ids[: self.n], seq))
        if i < self.n and self.ids[i] == seq and bool(self.active[i]) != active:
            self._flips.append((i, not active))
            self._turn(i, active)

    def _turn(self, i: int, active: bool) -> None:
        if bool(self.active[i]) != active:
            self.active[i] = active
            self.shown[self.kind[i]] += 1 if active else -1

    # ------------------------------------------------------------------------------------------------ going back
    def commit(self) -> None:
        """Everything known by now is committed."""
        self._safe = (self.n, self.vectors.n)
        self._flips.clear()

    def rewind(self) -> None:
        """Back to the last ``commit``."""
        for i, was in reversed(self._flips):
            self._turn(i, was)
        self._flips.clear()
        n, u = self._safe
        for i in range(n, self.n):
            self._turn(i, False)
        for emb in self.emb[u : self.vectors.n].tolist():
            self._slots.pop(emb, None)
        self.vectors.truncate(u)
        self.n = n
        if self._groups[0] > n:
            self._groups = (0, self._order[:0], self._order[:0])

    # ------------------------------------------------------------------------------------------------ looking up
    def rows(self, seqs: np.ndarray) -> np.ndarray:
        """Rows of memories by number, those that are known."""
        place = np.searchsorted(self.ids[: self.n], seqs)
        known = place < self.n
        known[known] = self.ids[place[known]] == seqs[known]
        return place[known]

    def rows_of(self, slots: np.ndarray) -> np.ndarray:
        """Rows of the memories that have one of these vectors."""
        if self.plain:
            return slots
        grouped, order, start = self._grouped()
        old = slots[slots < len(start) - 1]
        first, size = start[old], start[old + 1] - start[old]
        within = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        wanted = np.zeros(self.vectors.n, bool)
        wanted[slots] = True
        late = grouped + np.flatnonzero(wanted[self.slot[grouped : self.n]])
        return np.concatenate([order[np.repeat(first, size) + within], late])

    def _grouped(self) -> tuple[int, np.ndarray, np.ndarray]:
        grouped = self._groups[0]
        if not grouped or self.n - grouped > max(_REGROUP, grouped // 40):
            slot = self.slot[: self.n]
            order = np.argsort(slot, kind="stable")
            start = np.searchsorted(slot[order], np.arange(self.vectors.n + 1))
            self._groups = (self.n, order, start)
        return self._groups

    def allowed(self, subset: Subset) -> np.ndarray | None:
        """Mask ``[n]`` of the memories that a search may return, or ``None`` for all."""
        if _unbounded(subset) and subset.kinds is None and sum(self.shown) == self.n:
            return None
        return self.allows(slice(self.n), subset)

    def allows(self, rows: np.ndarray | slice, subset: Subset) -> np.ndarray:
        """Which of some rows a search may return."""
        mask = self.active[rows]
        if subset.kinds is not None:
            fits = np.zeros(len(self.kinds) + 1, bool)
            fits[[self.kinds[kind] for kind in subset.kinds if kind in self.kinds]] = True
            mask = mask & fits[self.kind[rows]]
        if subset.only is not None:
            mask = mask & self._among(rows, subset.only)
        return mask & ~self._among(rows, subset.without) if len(subset.without) else mask

    def _among(self, rows: np.ndarray | slice, seqs: np.ndarray) -> np.ndarray:
        if isinstance(rows, slice):
            mask = np.zeros(self.n, bool)
            mask[self.rows(seqs)] = True
            return mask[rows]
        return np.isin(self.ids[rows], seqs)

    def count(self, subset: Subset) -> int:
        """How many memories a search may return."""
        if not _unbounded(subset):
            return int(self.allows(slice(self.n), subset).sum())
        if subset.kinds is None:
            return sum(self.shown)
        return sum(self.shown[self.kinds[kind]] for kind in set(subset.kinds) if kind in self.kinds)


def _unbounded(subset: Subset) -> bool:
    return subset.only is None and not len(subset.without)
