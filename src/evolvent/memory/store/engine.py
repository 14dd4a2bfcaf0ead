"""What both engines have in common: rows in, rows out, one writer at a time, blocks that can be undone.

SQL in this package is written once, in what SQLite and PostgreSQL both understand: ``?`` marks, ``RETURNING``,
``ON CONFLICT``, booleans used as conditions. What differs lives in ``sqlite`` and ``postgres``.
"""

from __future__ import annotations

import json
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from evolvent.core.errors import StoreError
from evolvent.memory.store.blocks import Block
from evolvent.memory.store.schema import Table

BUSY_TIMEOUT_S = 60.0
GONE = "the scope of this memory was dropped"
Sync = Literal["full", "normal"]
Search = Literal["auto", "exact", "approximate"]
Progress = Callable[[int, int, str], None]  # done, total, of what
_NONE = np.empty(0, np.int64)


class NoMemory(StoreError):
    """Nothing is there yet, where a memory that exists was asked for."""


class Cursor(Protocol):
    """The result of a statement: an iterator of tuples."""

    def fetchone(self) -> Any:
        """The next row, or ``None``."""
        ...

    def fetchall(self) -> list[Any]:
        """The rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """What runs statements: sqlite3's connection, or PostgreSQL's behind a translation of the marks."""

    def execute(self, sql: str, args: Sequence[Any] = (), /) -> Cursor:
        """Run one statement with ``?`` marks."""
        ...

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> Any:
        """Run one statement for each row of arguments."""
        ...


class Subset(NamedTuple):
    """Which active memories a search may return."""

    kinds: Sequence[str] | None = None  # of these kinds only
    only: np.ndarray | None = None  # these rows only: int64, sorted
    without: np.ndarray = _NONE  # not these rows


ALL = Subset()


class OneProcess:
    """A lock among the threads of the process that made it; after a fork the child must open its own store.

    A child shares the file descriptors and inherits locks that other threads held: with SQLite it may corrupt the file,
    with a server two processes would speak on one connection.
    """

    def __init__(self, where: str) -> None:
        self._lock, self._pid, self._where = threading.RLock(), os.getpid(), where
        self._by = Block(None)  # the outermost block of the thread that has it

    @property
    def here(self) -> bool:
        """Whether this is the process that opened the store."""
        return self._pid == os.getpid()

    @property
    def mine(self) -> bool:
        """Whether this thread has it."""
        return self._lock._is_owned()  # type: ignore[attr-defined]

    @property
    def entered(self) -> bool:
        """Whether a block of this thread has it, in the process that opened the store."""
        return self._lock._is_owned() and self.here and not self._by.gone()  # type: ignore[attr-defined]

    def check(self) -> None:
        """``StoreError`` in any other process."""
        if not self.here:
            raise StoreError(
                "the memory was opened in another process",
                got=f"process {os.getpid()}, after a fork",
                code="forked",
                expected=f"process {self._pid}",
                where=self._where,
                do="open it in this process: Memory(path)",
            )

    def acquire(self, block: Block) -> None:
        """Keep other threads out until ``release``, unless this one has a block that does; a signal may end this."""
        self.check()
        if self._lock._is_owned():  # type: ignore[attr-defined]
            if not self._by.gone():
                return
            self._by.drop()
        try:
            self._lock.acquire()
            self._by = block
        except BaseException:
            self._by = block
            self.release(block)
            raise

    def release(self, block: Block) -> None:
        """Let other threads in, if it is this block that keeps them out."""
        if self.mine and self._by is block:
            self._lock.release()


class Store(ABC):
    """An open store. Every method is safe to call from several threads.

    ``write()`` is the only way to change anything: it takes the write lock of the store first, commits when its block
    ends and undoes everything when the block raises. Blocks nest: an inner block that raises undoes only its own part.
    """

    path: str  # what opens the same store again
    where: str  # the same for error messages, without a password
    dirty = False  # set by whoever mirrors uncommitted rows in memory (the index)
    copies: tuple[str, ...] = ()  # the engine's own tables that copy rows of memories, by scope
    undone = 0  # rises when a rollback took such rows away, so that mirrors know to start again

    # ------------------------------------------------------------------------------------------------ per engine
    @abstractmethod
    def session(self) -> AbstractContextManager[Connection]:
        """One connection for this thread while the block runs; blocks nest. Nothing is begun or committed."""

    @abstractmethod
    def write(self) -> AbstractContextManager[Connection]:
        """One transaction; inside another ``write`` block, a part of it that can be undone by itself."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Any]:
        """``write()`` around code that is not ours: its own errors pass through as they are."""

    @abstractmethod
    def writing(self) -> bool:
        """Whether this thread is inside a transaction: what it reads may still be undone."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """All reads of this thread inside the block see one state of the store, whatever others commit."""

    @abstractmethod
    def chunks(self, sql: str, args: Sequence[Any] = (), size: int = 2048) -> Iterator[list[tuple]]:
        """The rows of a query in pieces, so that a large store is never read in one go."""

    @abstractmethod
    def load(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        """Insert whole rows as they are, vectors as bytes, inside the transaction at hand."""

    @abstractmethod
    def index(self, scope_id: int, search: Search = "auto") -> Any:
        """The vectors of one scope; see ``index.Index`` for ``search``."""

    @abstractmethod
    def close(self) -> None:
        """Close the store. Closing twice is allowed."""

    @abstractmethod
    def unguarded(self) -> AbstractContextManager[None]:
        """Inside a transaction: rows that are written once may be changed and removed while the block runs."""

    @abstractmethod
    def translated(self, doing: str) -> AbstractContextManager[None]:
        """Turns the engine's errors in the block into ``StoreError``."""

    # ------------------------------------------------------------------------------------------------ reading
    def rows(self, sql: str, args: Sequence[Any] = ()) -> list[tuple]:
        """All rows of a query."""
        with self.session() as db, self.translated("reading"):
            return db.execute(sql, args).fetchall()

    def row(self, sql: str, args: Sequence[Any] = ()) -> tuple | None:
        """The first row of a query, or ``None``."""
        with self.session() as db, self.translated("reading"):
            return db.execute(sql, args).fetchone()

    def rows_among(self, sql: str, ids: Iterable[Any]) -> list[tuple]:
        """All rows of a query with ``{}`` for a list of any length after ``IN``."""
        with self.session() as db, self.translated("reading"):
            return list(among(db, sql, ids))

    def records(self, sql: str, args: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """All rows of a query as mappings by column name."""
        with self.session() as db, self.translated("reading"):
            cursor: Any = db.execute(sql, args)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    # ------------------------------------------------------------------------------------------------ checking
    def damage(self) -> list[tuple[str, str]]:
        """What the engine's own checks find wrong, ``(where, what)``; an engine without such checks finds nothing."""
        return []

    def text_bytes(self, column: str) -> str:
        """SQL for a text that may have been damaged: as bytes where the engine hands out what is no UTF-8."""
        return column

    def sizes(self) -> dict[str, int]:
        """Bytes on disk by table, its indexes included; empty where the engine does not tell."""
        return {}

    def shrink(self, *, whole: bool = False) -> None:
        """Give the room of removed rows back to the machine, where the engine can and no transaction is open.

        ``whole``: nothing of them may be left in files; ``StoreError`` where another process stands in the way.
        """
        return

    def forget_files(self, scope_id: int) -> None:
        """Remove what lies beside the store of a scope, where anything does."""
        return

    # ------------------------------------------------------------------------------------------------ small things
    def meta_get(self, name: str) -> Any:
        """A JSON value stored under ``name``, or ``None``."""
        found = self.row("SELECT body FROM meta WHERE name=?", (name,))
        try:
            return None if found is None else json.loads(found[0])
        except ValueError as error:
            raise damaged(f"{name} = {found}", self.path) from error

    def same_embedder(self, known: object) -> object:
        """The embedder of the store; ``StoreError`` where it is another one than was ``known`` (unless ``None``)."""
        model = self.meta_get("embedder")
        if known not in (None, model):
            raise StoreError(
                "the embedder of the store was changed",
                got=known,
                expected=model,
                where=self.where,
                code="embedder_changed",
                do="open it again: Memory(path)",
            )
        return model

    def meta_set(self, name: str, value: Any) -> None:
        """Store a JSON value under ``name``."""
        with self.write() as db:
            db.execute(
                "INSERT INTO meta VALUES(?,?) ON CONFLICT(name) DO UPDATE SET body=excluded.body",
                (name, json.dumps(value, sort_keys=True)),
            )

    def meta_pin(self, name: str, value: Any) -> Any:
        """What is stored under ``name``; ``value`` is stored when nothing was."""
        found = self.meta_get(name)
        if found is None:
            with self.write():
                found = self.meta_get(name)  # another process may have been faster
                if found is None:
                    self.meta_set(name, value)
                    found = value
        return found


def damaged(got: object, where: str) -> StoreError:
    """The error for a store that does not hold what was written to it."""
    do = (
        "if its disk or share was away, open it again; else keep a copy of the file and its -wal and restore a backup, "
        "or salvage rows with sqlite3's .recover"
    )
    return StoreError("the memory file is damaged", got=got, where=where, do=do, code="damaged")


def audit(db: Connection, scope_id: int | None, verb: str, target: str, detail: dict[str, Any]) -> int:
    """Append one row to the audit log, inside the transaction at hand; returns its number.

    ``target`` is a memory that the row is about, or ``"*"`` where an act is about more than one thing.
    """
    row = db.execute(
        "INSERT INTO audit(scope_id, verb, target, detail, created_at) VALUES(?,?,?,?,?) RETURNING seq",
        (scope_id, verb, target, json.dumps(detail, sort_keys=True, ensure_ascii=False), time.time()),
    ).fetchone()
    return int(row[0])


def put_text(db: Connection, digest: str, body: str) -> None:
    """Store a text under its content hash; the same text twice is stored once."""
    db.execute("INSERT INTO text_blob VALUES(?,?,?) ON CONFLICT DO NOTHING", (digest, body, len(body)))


def among(db: Connection, sql: str, ids: Iterable[Any], *args: Any) -> Iterable[tuple]:
    """Rows of a query with ``{}`` for the list after ``IN`` and ``args`` before it, asked in pieces of a few hundred.

    The statement is on its way when this returns, so what else is asked for before the first row travels with it.
    """
    every = list(ids)
    if len(every) <= 500:
        return db.execute(_filled(sql, len(every)), (*args, *every)) if every else ()
    pieces = [every[start : start + 500] for start in range(0, len(every), 500)]
    return chain.from_iterable([db.execute(_filled(sql, len(piece)), (*args, *piece)) for piece in pieces])


@lru_cache(maxsize=2048)
def _filled(sql: str, n: int) -> str:
    return sql.format(marks(n))


def newest(table: str, column: str = "seq", stored_as: str = "") -> str:
    """SQL: the newest number that was given in a table; those of a dropped scope (``stored_as`` in meta) stay taken."""
    return (
        f"(SELECT max(n) FROM (SELECT coalesce(max({column}), 0) AS n FROM {table} UNION ALL "
        f"SELECT CAST(body AS BIGINT) FROM meta WHERE name = '{stored_as or table + '_seq'}') numbers)"
    )


def marks(n: int) -> str:
    """``n`` placeholders for an ``IN (…)``; for none, what nothing is in (an empty list is no SQL everywhere)."""
    return ",".join("?" * n) or "NULL"
