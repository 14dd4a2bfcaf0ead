"""Files beside a store that open a large index at once: derived from the store, rebuilt from it at any time.

In ``<store>.cache/``, for each scope of some size: ``scope-1.npz`` (which memories there are, their kinds, whether
they are active, and up to where it follows the store), ``scope-1.<tag>.f32`` (vectors, appended only, mapped into
memory) and ``scope-1.<tag>.<count>.<checksum>.graph`` (a search graph over the first ``count`` vectors).

A killed writer leaves the old state: vectors are on disk before the ``npz`` that counts them replaces its
predecessor. Files are never cut or changed where somebody may have them mapped; a rebuild starts a new tag.
"""

from __future__ import annotations

import io
import json
import os
import uuid
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1
_PIECE = 1 << 24


@dataclass(frozen=True)
class Saved:
    """What the ``npz`` of a scope holds: columns by memory ``[N]``, and the embedding of each vector ``[U]``."""

    tag: str  # of the file of vectors
    identity: str  # of the store, and of the last rows that were read
    memory: int  # newest memory
    audit: int  # newest line of the log
    dim: int
    kinds: list[str]
    ids: np.ndarray  # int64, ascending
    kind: np.ndarray  # int16, place in kinds
    active: np.ndarray  # bool
    slot: np.ndarray  # int32, row among the vectors
    emb: np.ndarray  # int64 [U]


_ARRAYS = {"ids": np.int64, "kind": np.int16, "active": np.bool_, "slot": np.int32, "emb": np.int64}
_WORDS = ("tag", "identity", "memory", "audit", "dim", "kinds")


class Files:
    """The cache files of one scope. Methods raise ``OSError`` where the disk does."""

    def __init__(self, store: str, scope_id: int) -> None:
        self.folder = Path(f"{store}.cache")
        self._stem = f"scope-{scope_id}"

    @contextmanager
    def locked(self, what: str) -> Iterator[bool]:
        """Whether this process may write ``what`` while the block runs; never waits. Ends with the process."""
        import fcntl

        self.folder.mkdir(exist_ok=True)
        with (self.folder / f"{self._stem}.{what}.lock").open("wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True  # closing the file gives the lock back

    # ------------------------------------------------------------------------------------------------ columns
    def read(self) -> Saved | None:
        """What was saved last; ``None`` when nothing was, or when the file is damaged or of another format."""
        try:
            data = (self.folder / f"{self._stem}.npz").read_bytes()
            with np.load(io.BytesIO(data), allow_pickle=False) as found:  # checks the checksum of each array
                head = json.loads(bytes(found["head"]))
                if head.pop("format") != FORMAT:
                    return None
                saved = Saved(**head, **{name: found[name] for name in _ARRAYS})
        except FileNotFoundError:
            return None
        except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, TypeError, EOFError):
            return None
        return saved if _fits(saved) else None

    def write(self, saved: Saved) -> None:
        """Replace what was saved; the vectors that it counts must be on disk."""
        head = json.dumps({"format": FORMAT, **{name: getattr(saved, name) for name in _WORDS}})
        data = io.BytesIO()
        columns = {name: getattr(saved, name).astype(kind, copy=False) for name, kind in _ARRAYS.items()}
        np.savez(data, head=np.frombuffer(head.encode(), np.uint8), allow_pickle=False, **columns)
        replace(self.folder / f"{self._stem}.npz", data.getbuffer())

    # ------------------------------------------------------------------------------------------------ vectors
    def map(self, saved: Saved) -> np.ndarray | None:
        """Its vectors float32 ``[U, D]``, read from the file as they are needed; ``None``: the file is not whole."""
        path = self._vectors(saved.tag)
        rows = len(saved.emb)
        try:
            if rows == 0 or path.stat().st_size < 4 * saved.dim * rows:
                return None
            return np.asarray(np.memmap(path, "<f4", "r", shape=(rows, saved.dim)))
        except FileNotFoundError:
            return None

    def append(self, tag: str, at: int, vec_ND: np.ndarray) -> None:
        """Write vectors behind the first ``at`` of a tag; on disk when this returns."""
        path, row = self._vectors(tag), 4 * vec_ND.shape[1]
        path.touch()
        with path.open("r+b") as file:
            file.seek(at * row)  # what a killed writer left there is counted by no one
            for start in range(0, len(vec_ND), max(1, _PIECE // row)):
                piece = vec_ND[start : start + max(1, _PIECE // row)]
                file.write(np.ascontiguousarray(piece, "<f4").data)
            file.flush()
            os.fsync(file.fileno())

    def sweep(self, tag: str) -> None:
        """Remove the files of other tags; who has them mapped keeps them until it closes."""
        for path in self.folder.glob(f"{self._stem}.*.*"):
            if path.suffix in (".f32", ".graph", ".tmp") and path.name.split(".")[1] != tag:
                path.unlink(missing_ok=True)

    # ------------------------------------------------------------------------------------------------ graph
    def graph(self, tag: str) -> tuple[Path, int, str] | None:
        """The largest graph of a tag: its file, how many vectors it holds, its checksum."""
        found = []
        for path in self.folder.glob(f"{self._stem}.{tag}.*.graph"):
            count, digest = path.name.split(".")[2:4]
            found.append((int(count), path, digest))
        if not found:
            return None
        count, path, digest = max(found)
        return path, count, digest

    def new_graph(self, tag: str) -> Path:
        """Where to write a graph before its checksum is known; what killed builders left there goes."""
        for path in self.folder.glob(f"{self._stem}.{tag}.*.tmp"):
            path.unlink(missing_ok=True)
        return self.folder / f"{self._stem}.{tag}.{os.getpid()}.tmp"

    def keep_graph(self, written: Path, tag: str, count: int) -> Path:
        """Give a written graph its name, and remove its predecessors."""
        with written.open("r+b") as file:
            os.fsync(file.fileno())
        path = self.folder / f"{self._stem}.{tag}.{count}.{checksum(written)}.graph"
        written.replace(path)
        for other in self.folder.glob(f"{self._stem}.{tag}.*.graph"):
            if other != path:
                other.unlink(missing_ok=True)
        return path

    def _vectors(self, tag: str) -> Path:
        return self.folder / f"{self._stem}.{tag}.f32"


def new_tag() -> str:
    """A name that no other file of vectors has."""
    return uuid.uuid4().hex[:12]


def checksum(path: Path) -> str:
    """CRC-32 of a file, 8 hex digits; about a second a gigabyte."""
    crc = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            crc = zlib.crc32(piece, crc)
    return f"{crc:08x}"


def replace(path: Path, data: Any) -> None:
    """Replace a file as a whole: temporary file, fsync, rename."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _fits(saved: Saved) -> bool:
    """Whether the columns belong together."""
    n, u = len(saved.ids), len(saved.emb)
    if any(getattr(saved, name).dtype != kind for name, kind in _ARRAYS.items()):
        return False
    if not n == len(saved.kind) == len(saved.active) == len(saved.slot) or not 0 < u <= n or saved.dim <= 0:
        return False
    return saved.ids[-1] == saved.memory and saved.slot.min() >= 0 and saved.slot.max() == u - 1
