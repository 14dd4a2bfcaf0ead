"""Approximate candidates for large scopes: a search graph (HNSW, arXiv 1603.09320, by usearch) beside the store.

The graph only proposes: what it finds is compared again by the exact float32 vectors. It is built in the background
from vectors that are in their file already, kept as a file, and mapped; until one is ready, and for vectors that came
after it, search is exact.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.util
import threading
import time
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.core.errors import missing_extra
from evolvent.memory.index.cache_files import Files, checksum
from evolvent.memory.store.engine import Progress

# chosen by measurement (LOG.md): 8-bit numbers find the same as 16-bit ones once candidates are compared exactly
_SETTINGS: dict[str, Any] = {
    "metric": "cos",
    "dtype": "i8",
    "connectivity": 16,
    "expansion_add": 256,
    "enable_key_lookups": False,
}
_EXPANSION = 512  # candidates looked at in a search, at least
_SAMPLE = 2048
_THREADS = 2
_PIECE = 2000  # vectors between two looks at whether to stop
_AGAIN_S = 5.0  # between two attempts in the background


def installed() -> bool:
    """Whether usearch is there."""
    return importlib.util.find_spec("usearch") is not None


def require() -> None:
    """Raise ``MissingExtra`` unless usearch is installed."""
    if not installed():
        raise missing_extra("usearch", "scale", "search='approximate'")


def _index_class() -> Any:
    """``Index`` of usearch.

    Its wheel carries a C++ runtime of its own, which then reads numbers for libraries loaded later too. Fast Downward,
    the planner of ALFWorld's games, cannot read its input that way and ends the process (code 33): load it first.
    """
    planner = importlib.util.find_spec("fast_downward")
    for place in (planner and planner.submodule_search_locations) or ():
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(Path(place) / "libdownward.so"))
    from usearch.index import Index

    return Index


class Graph:
    """A graph over the first ``count`` vectors of a tag, and a sample of them to tell when it misses a whole region."""

    def __init__(self, index: Any, tag: str, file_ND: np.ndarray) -> None:
        self._index, self.tag, self.count = index, tag, len(file_ND)
        rows = np.random.default_rng(0).choice(self.count, min(self.count, _SAMPLE), replace=False)
        self._sample = np.sort(rows)
        self._sample_SD = file_ND[self._sample]

    def search(self, query: np.ndarray, wanted: int) -> np.ndarray:
        """About the ``wanted`` nearest vectors: int64 ``[<=wanted]``, in no exact order."""
        return self._index.search(query, wanted).keys.astype(np.int64)

    def overlooked(self, query: np.ndarray, found: np.ndarray, above: float) -> np.ndarray:
        """Vectors of the sample with a similarity above a bound that are not among ``found``: int64 ``[…]``."""
        better = self._sample[self._sample_SD @ query > above]
        return better[~np.isin(better, found)]


class Graphs:
    """The graph of a scope at hand, and the thread that loads, builds or extends it."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.ready: Graph | None = None
        self.trouble = ""  # why the last attempt failed
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._next = 0.0
        self._progress: Progress | None = None
        # a thread inside the graph's own code must not outlive the interpreter
        self._at_exit = partial(_stop, weakref.ref(self))
        atexit.register(self._at_exit)

    @property
    def busy(self) -> bool:
        """Whether a graph is being loaded or built."""
        return self._thread is not None and self._thread.is_alive()

    def load(self, tag: str, file_ND: np.ndarray) -> None:
        """Take the graph that is there; reading it once is cheaper than one search without it."""
        try:
            self._adopt(tag, file_ND)
        except (OSError, RuntimeError, ValueError, ImportError) as error:
            self.trouble = f"{type(error).__name__}: {error}"

    def begin(self, tag: str, file_ND: np.ndarray, missing: int) -> None:
        """Bring the graph up to date in the background, when one is not under way.

        Args:
            tag: of the vectors.
            file_ND: the mapped vectors.
            missing: build only when more than so many of them are in no graph.
        """
        if self.busy or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _AGAIN_S
        self._stop.clear()
        self._thread = threading.Thread(
            target=self._try, args=(tag, file_ND, missing), name="evolvent-graph", daemon=True
        )
        self._thread.start()

    def finish(self, tag: str, file_ND: np.ndarray, progress: Progress | None) -> None:
        """The same, whatever is missing, and wait for it, also for what is under way."""
        self._progress = progress
        try:
            if self._thread is not None:
                self._thread.join()
            self._stop.clear()
            self._try(tag, file_ND, 0)
        finally:
            self._progress = None

    def close(self) -> None:
        """Stop the thread; what it was building is given up."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        atexit.unregister(self._at_exit)

    # ------------------------------------------------------------------------------------------------ the thread
    def _try(self, tag: str, file_ND: np.ndarray, missing: int) -> None:
        try:
            self._adopt(tag, file_ND)
            if len(file_ND) - self._covered(tag) <= missing:
                return
            with self._files.locked("graph") as mine:  # else another process builds it
                if mine:
                    self._adopt(tag, file_ND)
                    if len(file_ND) - self._covered(tag) > missing:
                        self._build(tag, file_ND)
            self.trouble = ""
        except (OSError, RuntimeError, ValueError, MemoryError) as error:
            self.trouble = f"{type(error).__name__}: {error}"  # exact search goes on; health() tells

    def _covered(self, tag: str) -> int:
        ready = self.ready
        return ready.count if ready is not None and ready.tag == tag else 0

    def _adopt(self, tag: str, file_ND: np.ndarray) -> None:
        """Map the newest graph file, when it is intact and knows more than the one at hand."""
        found = self._files.graph(tag)
        if found is None or not self._covered(tag) < found[1] <= len(file_ND):
            return
        path, count, digest = found
        if checksum(path) != digest:
            path.unlink(missing_ok=True)
            return
        self.ready = _view(path, tag, file_ND[:count])

    def _build(self, tag: str, file_ND: np.ndarray) -> None:
        index = _index_class()(ndim=file_ND.shape[1], **_SETTINGS)
        done, known = self._covered(tag), self._files.graph(tag)
        if done and known is not None and known[1] == done:
            index.load(str(known[0]))
        done = len(index)
        for start in range(done, len(file_ND), _PIECE):
            if self._stop.is_set():
                return
            piece = file_ND[start : start + _PIECE]
            index.add(np.arange(start, start + len(piece)), piece, threads=_THREADS)
            if (progress := self._progress) is not None:
                progress(start + len(piece), len(file_ND), "search graph")
        temporary = self._files.new_graph(tag)
        index.save(str(temporary))
        path = self._files.keep_graph(temporary, tag, len(file_ND))
        self.ready = _view(path, tag, file_ND)


def _view(path: Path, tag: str, file_ND: np.ndarray) -> Graph:
    index = _index_class().restore(str(path), view=True)
    if index is None or len(index) != len(file_ND):
        raise ValueError(f"{path.name} does not hold {len(file_ND)} vectors")
    index.expansion_search = _EXPANSION
    return Graph(index, tag, file_ND)


def _stop(graphs: weakref.ref[Graphs]) -> None:
    found = graphs()
    if found is not None:
        found.close()
