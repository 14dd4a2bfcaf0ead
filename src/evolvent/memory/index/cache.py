"""When the shadow of a large scope goes to its files and comes back, and when its search graph is built."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from evolvent.memory.index.cache_files import Files, Saved, new_tag
from evolvent.memory.index.graph import Graph, Graphs
from evolvent.memory.index.shadow import Shadow
from evolvent.memory.store.engine import Progress, Store, marks

_CHECKED = 64


class Cache:
    """The files of one scope beside its store, and the graph among them.

    Args:
        store: the open store.
        scope_id: which scope of it.
        file_from: memories from which there are files.
        graph_from: vectors from which there is a graph; ``None``: never.
        tail: how much may be missing in the files, and again in the graph, before they are brought up to date (or a
            fortieth of what is there, when that is more): it is read, or searched, one by one.
    """

    def __init__(self, store: Store, scope_id: int, file_from: int, graph_from: int | None, tail: int) -> None:
        self._store, self._scope_id = store, scope_id
        self._file_from, self._graph_from, self._tail = file_from, graph_from, tail
        self._files = Files(store.path, scope_id)
        self._graphs = Graphs(self._files)
        self._tag = ""
        self._saved = 0  # memories in the files
        self.trouble = ""  # why the files could not be used

    def load(self, shadow: Shadow) -> int:
        """Fill a new shadow from the files; returns up to which line of the log it follows, 0 when there are none."""
        try:
            saved = self._files.read()
            file_ND = None if saved is None else self._files.map(saved)
            if saved is None or file_ND is None or not self._is_true(saved, file_ND):
                return 0
        except OSError as error:
            self.trouble = str(error)
            return 0
        shadow.restore(saved, file_ND)
        self._tag, self._saved = saved.tag, shadow.n
        if self._graph_from is not None:
            self._graphs.load(self._tag, file_ND)
        return saved.audit

    def keep_up(self, shadow: Shadow, audit: int) -> None:
        """Write what is new when it has become much, and have the graph follow; outside of transactions."""
        if shadow.n - self._saved >= self._room(self._saved) and shadow.n >= self._file_from:
            self.save(shadow, audit)
        if self._wants_graph(shadow):
            self._graphs.begin(self._tag, shadow.vectors.mapped, self._room(self._in_graph))

    def graph(self, shadow: Shadow) -> Graph | None:
        """The graph to search with, when there is one that leaves little to search exactly."""
        ready = self._graphs.ready
        if ready is None or ready.tag != self._tag or ready.count > shadow.vectors.in_file:
            return None
        return ready if shadow.vectors.n - ready.count <= 4 * self._room(ready.count) else None

    def prepare(self, shadow: Shadow, progress: Progress | None) -> None:
        """Build what there is to build, and wait for it; the shadow was saved before."""
        if self._graph_from is not None and shadow.vectors.in_file >= max(1, self._graph_from):
            self._graphs.finish(self._tag, shadow.vectors.mapped, progress)

    def about(self, shadow: Shadow) -> dict[str, Any]:
        """Numbers for ``health``."""
        troubles = [text for text in (self.trouble, self._graphs.trouble) if text]
        numbers = {"in_file": shadow.vectors.in_file, "in_graph": self._in_graph}
        return {**numbers, "building": self._graphs.busy, "trouble": "; ".join(troubles) or None}

    def close(self, shadow: Shadow, audit: int) -> None:
        """Write what is left when it is worth it, and stop building."""
        self.stop()
        if shadow.n >= self._file_from and shadow.n - self._saved >= self._tail // 10:
            self.save(shadow, audit)

    def stop(self) -> None:
        """Stop building."""
        self._graphs.close()

    @property
    def _in_graph(self) -> int:
        ready = self._graphs.ready
        return 0 if ready is None or ready.tag != self._tag else ready.count

    def _wants_graph(self, shadow: Shadow) -> bool:
        known = shadow.vectors.in_file
        due = self._graph_from is not None and known >= self._graph_from
        return due and known - self._in_graph > self._room(self._in_graph)

    def _room(self, known: int) -> int:
        return max(self._tail, known // 40)

    # ------------------------------------------------------------------------------------------------ writing
    def save(self, shadow: Shadow, audit: int) -> None:
        """Bring the files up to date, unless another process is doing it; everything in the shadow is committed."""
        try:
            with self._files.locked("rows") as mine:
                if mine:
                    self._save(shadow, audit)
            self.trouble = ""
        except OSError as error:
            self.trouble = str(error)  # the shadow stays in RAM; health() tells
            self._saved = shadow.n  # and is not tried again before it has grown

    def _save(self, shadow: Shadow, audit: int) -> None:
        there = self._files.read()
        file_ND = None if there is None else self._files.map(there)
        vectors, at = shadow.vectors, 0
        if there is not None and file_ND is not None and (there.tag == self._tag or self._is_true(there, file_ND)):
            tag, at = there.tag, len(there.emb)
        else:
            tag = new_tag()
        if at < vectors.n:
            if at < vectors.in_file:
                self._files.append(tag, at, vectors.mapped[at:])
            start = max(at, vectors.in_file)
            self._files.append(tag, start, vectors.tail[start - vectors.in_file :])
        if there is None or at == 0 or there.memory < shadow.newest:
            n = shadow.n
            there = Saved(
                tag,
                self._identity(shadow.newest, audit),
                shadow.newest,
                audit,
                vectors.dim,
                list(shadow.kinds),
                shadow.ids[:n],
                shadow.kind[:n],
                shadow.active[:n],
                shadow.slot[:n],
                shadow.emb[: vectors.n],
            )
            self._files.write(there)
        self._files.sweep(tag)
        file_ND = self._files.map(there)
        if file_ND is None:
            raise OSError(f"the vectors of {tag} are gone")
        shadow.map(file_ND[: vectors.n])
        self._tag, self._saved = tag, shadow.n

    # ------------------------------------------------------------------------------------------------ trusting
    def _identity(self, memory: int, audit: int) -> str:
        """What no other store, and no other history of this store, has at these rows."""
        scope = self._store.row("SELECT name, created_at FROM scope WHERE scope_id = ?", (self._scope_id,))
        last = self._store.row("SELECT created_at, key_hash, emb_id FROM memory WHERE seq = ?", (memory,))
        line = self._store.row("SELECT created_at, verb, target FROM audit WHERE seq = ?", (audit,))
        return json.dumps([scope, last, line])

    def _is_true(self, saved: Saved, file_ND: np.ndarray) -> bool:
        """Whether saved columns and vectors are those of this store: its last rows, and some others byte by byte."""
        if self._identity(saved.memory, saved.audit) != saved.identity:
            return False
        rows = np.random.default_rng().integers(0, len(saved.ids), _CHECKED)
        rows = np.unique(np.concatenate([rows, np.arange(max(0, len(saved.ids) - _CHECKED), len(saved.ids))]))
        found = {
            seq: rest
            for seq, *rest in self._store.rows(
                "SELECT m.seq, m.scope_id, m.kind, m.emb_id, e.vec FROM memory m JOIN embedding e USING(emb_id) "
                f"WHERE m.seq IN ({marks(len(rows))})",
                saved.ids[rows].tolist(),
            )
        }
        return all(
            found.get(int(saved.ids[i]))
            == [
                self._scope_id,
                saved.kinds[saved.kind[i]],
                int(saved.emb[saved.slot[i]]),
                file_ND[saved.slot[i]].tobytes(),
            ]
            for i in rows.tolist()
        )
