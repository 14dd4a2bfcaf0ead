"""The threads that touch the store: the writer, which commits jobs in groups, a reader, and one that embeds."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evolvent.core.errors import EvolventError, ModelError, StoreError
from evolvent.core.protocols import Embedder
from evolvent.memory.embedders import gate_of
from evolvent.memory.memory import Memory
from evolvent.serve.lanes import Job

_TEXTS = 20_000


class Cached:
    """An embedder that remembers the vectors of the newest texts, so that whoever holds the store need not wait."""

    def __init__(self, embedder: Embedder, texts: int = _TEXTS) -> None:
        self._embedder, self._most = embedder, texts
        self._known: OrderedDict[str, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()
        self.id, self.gate = embedder.id, gate_of(embedder)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._embedder.dim

    def knows(self, text: str) -> bool:
        """Whether its vector is here."""
        with self._lock:
            return text in self._known

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors float32 ``[N, dim]``; only of new texts the embedder is asked.

        Raises:
            ModelError: it failed.
        """
        with self._lock:
            found = {text: self._known[text] for text in texts if text in self._known}
        new = [text for text in dict.fromkeys(texts) if text not in found]
        if new:
            try:
                found |= zip(new, self._embedder.embed(new), strict=True)
            except EvolventError:
                raise
            except Exception as error:
                raise ModelError("the embedder failed", got=type(error).__name__, code="embedder_failed") from error
        with self._lock:
            for text, vec in found.items():
                self._known[text] = vec
                self._known.move_to_end(text)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return np.stack([found[text] for text in texts])


class Opened:
    """Memories of one thread, by scope; those that were not used for longest are closed.

    Args:
        open: the memory of a scope.
        most: so many stay open.
    """

    def __init__(self, open: Callable[[str], Memory], most: int) -> None:
        self._open, self._most = open, most
        self._memories: OrderedDict[str, Memory] = OrderedDict()

    def of(self, scope: str) -> Memory:
        """The memory of a scope."""
        if scope not in self._memories:
            self._memories[scope] = self._open(scope)
            while len(self._memories) > self._most:
                self._memories.popitem(last=False)[1].close()
        self._memories.move_to_end(scope)
        return self._memories[scope]

    def drop(self, scope: str) -> None:
        """Open it anew next time: the file was replaced, the server lost, the scope dropped, …"""
        if memory := self._memories.pop(scope, None):
            memory.close()

    def close(self) -> None:
        """Close all."""
        while self._memories:
            self._memories.popitem()[1].close()

    def write(self, scope: str, jobs: Sequence[Job]) -> None:
        """Do jobs in one transaction, and say what they came to when it is on disk.

        A job that raises undoes its own part only: verbs nest (``Memory.transaction``).
        """
        failed: BaseException | None = None
        try:
            memory, results = self.of(scope), list[tuple[Job, Any, BaseException | None]]()
            with memory.transaction():
                # not before: while another process keeps the store locked, who cannot wait any longer is not kept
                results = [(job, *_tried(job, memory)) for job in jobs if job.begins()]
        except StoreError as error:
            failed = error
            raise
        else:
            for job, result, error in results:
                failed = error if isinstance(error, StoreError) else failed
                job.done.set_result(result) if error is None else job.done.set_exception(error)
        finally:
            if failed is not None:
                self.drop(scope)

    def read(self, scope: str, jobs: Sequence[Job]) -> None:
        """Do jobs that only read."""
        try:
            for job in jobs:
                if job.begins():
                    job.done.set_result(job.do(self.of(scope)))
        except StoreError:
            self.drop(scope)
            raise


def _tried(job: Job, memory: Memory) -> tuple[Any, BaseException | None]:
    try:
        with memory.transaction():
            return job.do(memory), None
    except Exception as error:  # noqa: BLE001 - of this job alone
        return None, error


def embed(_: str, jobs: Sequence[Job]) -> None:
    """Do jobs that embed."""
    for job in jobs:
        if job.begins():
            job.done.set_result(job.do())
