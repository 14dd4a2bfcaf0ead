"""One SQLite file: write-ahead log, foreign keys, one writer at a time, errors that say what to do."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from evolvent.core.errors import BadInput, StoreError
from evolvent.memory import schema

BUSY_TIMEOUT_S = 60.0


class Store:
    """A connection to one memory file. Every method is safe to call from several threads.

    ``write()`` is the only way to change anything: it takes the write lock of the file first (``BEGIN IMMEDIATE``),
    commits when its block ends and undoes everything when the block raises. Blocks nest: an inner block that raises
    undoes only its own part.

    Args:
        path: file, or ``":memory:"``.
        sync: "full" waits for the disk at each commit (nothing acknowledged is ever lost); "normal" may lose the last
            commits when the machine loses power, never when the process dies; the file stays consistent either way.

    Raises:
        StoreError: the file cannot be opened, is damaged, or is not a memory of this version.
    """

    def __init__(self, path: str | Path, *, sync: Literal["full", "normal"] = "full") -> None:
        if sync not in ("full", "normal"):
            raise BadInput("unknown sync level", got=sync, expected="'full' or 'normal'", where="Store")
        self.path = str(path)
        if "://" in self.path:
            raise BadInput("only SQLite files can be opened", got=self.path, expected="a file path or ':memory:'")
        if self.path != ":memory:" and not Path(self.path).parent.is_dir():
            raise StoreError(
                "the folder of the memory file does not exist",
                got=Path(self.path).parent,
                where=self.path,
                do="create the folder, or give another path",
            )
        self.lock = threading.RLock()
        self._depth = 0
        self.dirty = False  # set by whoever mirrors uncommitted rows in memory (the index)
        self.undone = 0  # rises when a rollback took such rows away, so that mirrors know to start again
        with self._translated("opening"):
            self.db = sqlite3.connect(
                self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=512
            )
            try:
                self._configure(sync)
                self._check_schema()
            except BaseException:
                self.db.close()
                raise

    # ------------------------------------------------------------------------------------------------ opening
    def _configure(self, sync: str) -> None:
        self.db.execute("PRAGMA foreign_keys=ON")
        self.db.execute(f"PRAGMA synchronous={sync.upper()}")
        self.db.execute("PRAGMA cache_size=-65536")
        for attempt in range(100):
            try:
                self.db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                # several processes opening a new file at once: switching to WAL does not wait for the lock by itself
                if "locked" not in str(error) or attempt == 99:
                    raise
                time.sleep(0.02 + 0.002 * attempt)

    def _check_schema(self) -> None:
        application = self._pragma("application_id")
        tables = self.db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application == 0 and tables == 0:
            with self.write():
                if self._pragma("application_id") == 0:  # not created by another process meanwhile
                    for statement in _statements(schema.TABLES):
                        self.db.execute(statement)
                    self.db.execute(f"PRAGMA application_id={schema.APPLICATION_ID}")
                    self.db.execute(f"PRAGMA user_version={schema.VERSION}")
        elif application != schema.APPLICATION_ID:
            raise StoreError(
                "this SQLite file is not an Evolvent memory",
                got=f"application id {application}, {tables} tables",
                where=self.path,
                do="give the path of a memory, or of a file that does not exist yet",
            )
        version = self._pragma("user_version")
        if version != schema.VERSION:
            raise StoreError(
                "the memory was written by another version",
                got=f"schema {version}",
                expected=f"schema {schema.VERSION}",
                where=self.path,
                do="upgrade evolvent" if version > schema.VERSION else "export it with the version that wrote it",
            )

    def _pragma(self, name: str) -> int:
        return int(self.db.execute(f"PRAGMA {name}").fetchone()[0])

    # ------------------------------------------------------------------------------------------------ reading
    def rows(self, sql: str, args: Sequence[Any] = ()) -> list[tuple]:
        """All rows of a query."""
        with self.lock, self._translated("reading"):
            return self.db.execute(sql, args).fetchall()

    def row(self, sql: str, args: Sequence[Any] = ()) -> tuple | None:
        """The first row of a query, or ``None``."""
        with self.lock, self._translated("reading"):
            return self.db.execute(sql, args).fetchone()

    def records(self, sql: str, args: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """All rows of a query as mappings by column name."""
        with self.lock, self._translated("reading"):
            cursor = self.db.execute(sql, args)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def chunks(self, sql: str, args: Sequence[Any] = (), size: int = 2048) -> Iterator[list[tuple]]:
        """The rows of a query in pieces, so that a large store is never read in one go."""
        with self.lock, self._translated("reading"):
            cursor = self.db.execute(sql, args)
            while piece := cursor.fetchmany(size):
                yield piece

    def data_version(self) -> int:
        """A number that changes when another connection has committed; microseconds."""
        with self.lock, self._translated("reading"):
            return int(self.db.execute("PRAGMA data_version").fetchone()[0])

    # ------------------------------------------------------------------------------------------------ writing
    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction; inside another ``write`` block, a part of it that can be undone by itself."""
        with self.transaction(), self._translated("writing"):
            yield self.db

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """``write()`` around code that is not ours: its own errors pass through as they are."""
        with self.lock:
            depth = self._depth
            with self._translated("writing"):
                self.db.execute("BEGIN IMMEDIATE" if depth == 0 else f"SAVEPOINT s{depth}")
            self._depth += 1
            try:
                yield
                with self._translated("committing"):
                    self.db.execute("COMMIT" if depth == 0 else f"RELEASE s{depth}")
                self.dirty = self.dirty and depth > 0
            except BaseException:
                self.undone += self.dirty
                if self.db.in_transaction:  # SQLite itself undoes everything after some errors (disk full)
                    self.db.execute("ROLLBACK" if depth == 0 else f"ROLLBACK TO s{depth}")
                    if depth:
                        self.db.execute(f"RELEASE s{depth}")
                raise
            finally:
                self._depth -= 1

    def close(self) -> None:
        """Close the file. Closing twice is allowed."""
        with self.lock:
            self.db.close()

    # ------------------------------------------------------------------------------------------------ small things
    def meta_get(self, name: str) -> Any:
        """A JSON value stored under ``name``, or ``None``."""
        found = self.row("SELECT body FROM meta WHERE name=?", (name,))
        return None if found is None else json.loads(found[0])

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

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _explained(error, doing, self.path) from error


def audit(db: sqlite3.Connection, scope_id: int, verb: str, target: str, detail: dict[str, Any]) -> None:
    """Append one row to the audit log, inside the transaction at hand."""
    db.execute(
        "INSERT INTO audit(scope_id, verb, target, detail, created_at) VALUES(?,?,?,?,?)",
        (scope_id, verb, target, json.dumps(detail, sort_keys=True, ensure_ascii=False), time.time()),
    )


def put_text(db: sqlite3.Connection, digest: str, body: str) -> None:
    """Store a text under its content hash; the same text twice is stored once."""
    db.execute("INSERT OR IGNORE INTO text_blob VALUES(?,?,?)", (digest, body, len(body)))


def marks(n: int) -> str:
    """``n`` placeholders for an ``IN (…)``."""
    return ",".join("?" * n)


def _statements(script: str) -> Iterator[str]:
    part = ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            yield part
            part = ""


def _explained(error: sqlite3.Error, doing: str, path: str) -> StoreError:
    text = str(error)
    lower = text.lower()
    if "closed database" in lower:
        return StoreError("the memory is closed", got=text, where=path, do="open it again: Memory(path)")
    if "locked" in lower or "busy" in lower:
        return StoreError(
            "another process kept the memory locked",
            got=f"{text} after {BUSY_TIMEOUT_S:g} s",
            where=path,
            do="look for a process that holds a long transaction() open",
        )
    if "full" in lower:
        do = "make room; the transaction was undone, what was acknowledged before is intact"
        return StoreError("the disk is full", got=text, where=path, do=do)
    if "readonly" in lower or "read-only" in lower:
        return StoreError(
            "the memory cannot be written", got=text, where=path, do="check the permissions of the folder"
        )
    if "unable to open" in lower:
        return StoreError("the memory cannot be opened", got=text, where=path, do="check the path and its permissions")
    if "not a database" in lower or "malformed" in lower or "corrupt" in lower or "disk i/o" in lower:
        return StoreError(
            "the memory file is damaged",
            got=text,
            where=path,
            do="keep a copy of the file and its -wal; restore a backup, or salvage rows with sqlite3's .recover",
        )
    return StoreError(f"{doing} the memory failed", got=text, where=path)
