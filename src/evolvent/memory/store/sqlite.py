"""One SQLite file: write-ahead log, foreign keys, one writer at a time, errors that say what to do."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.index.cache_files import Files
from evolvent.memory.index.index import Index
from evolvent.memory.store import schema, upgrade
from evolvent.memory.store.blocks import Translated
from evolvent.memory.store.engine import (
    BUSY_TIMEOUT_S,
    NoMemory,
    OneProcess,
    Search,
    Store,
    Sync,
    marks,
)
from evolvent.memory.store.schema import Table
from evolvent.memory.store.sqlite_blocks import Inside, Session, Snapshot, Transaction
from evolvent.memory.store.sqlite_errors import ERRORS, explained
from evolvent.memory.store.turn import Turn


class SQLite(Store):
    """A connection to one memory file; threads share it and wait for each other.

    Args:
        path: file, or ``":memory:"``.
        sync: see ``opening.open_store``.
        create: see ``opening.open_store``.

    Raises:
        StoreError: the file cannot be opened, is damaged, or is not a memory of this version.
    """

    def __init__(self, path: str | Path, *, sync: Sync = "full", create: bool = True) -> None:
        self.path = self.where = str(path)
        if self.path != ":memory:" and not Path(self.path).parent.is_dir():
            raise StoreError(
                "the folder of the memory file does not exist",
                got=Path(self.path).parent,
                where=self.path,
                do="create the folder, or give another path",
                code="no_folder",
            )
        if not create and not self._begun():
            raise NoMemory("there is no memory", got=self.path, expected="a file that holds one")
        self.lock = OneProcess(self.where)
        self._blocks: list[Transaction] = []  # that are open, the outermost first
        self._inside = Inside(self)
        self.reading = False  # a snapshot is open
        self._indexes: list[Index] = []
        self._turn = Turn(f"{self.path}-wal")
        self._at, self._file = os.path.abspath(self.path), None
        fixed = self._fixed()
        with self.translated("opening"):
            self.db = sqlite3.connect(
                f"file:{quote(os.path.abspath(self.path))}?immutable=1" if fixed else self.path,
                uri=fixed,
                timeout=BUSY_TIMEOUT_S,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=512,
            )
            try:
                self._configure(sync, fixed)
                self._check_schema(fixed, create)
                self._file = self._identity()
            except BaseException:
                self._turn.close()
                self.db.close()
                raise

    # ------------------------------------------------------------------------------------------------ opening
    def _begun(self) -> bool:
        """Whether anything was ever written: a file without a byte, and without a log, is no store yet."""
        path = Path(self.path)
        return path.is_file() and (path.stat().st_size > 0 or Path(f"{path}-wal").exists())

    def _fixed(self) -> bool:
        """Whether file and folder can only be read, and no log lies beside it: nobody can be writing then.

        SQLite's log needs a writable folder, so such a file is opened as one that does not change.
        """
        path = Path(self.path)
        if self.path == ":memory:" or not path.is_file() or Path(f"{path}-wal").exists():
            return False
        return not os.access(path, os.W_OK) and not os.access(path.parent, os.W_OK)

    def _configure(self, sync: str, fixed: bool) -> None:
        self.db.execute("PRAGMA foreign_keys=ON")
        self.db.execute(f"PRAGMA synchronous={sync.upper()}")
        self.db.execute("PRAGMA cache_size=-65536")
        if fixed:
            return
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            try:
                self.db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if "readonly" in str(error):  # it can be read as it is
                    return
                # several processes opening a new file at once: switching to WAL does not always wait for the lock
                if "locked" not in str(error) or time.monotonic() >= deadline:
                    raise
                time.sleep(0.05)

    def _check_schema(self, fixed: bool, create: bool) -> None:
        application = self._pragma("application_id")
        tables = self.db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application == 0 and tables == 0:
            if not create:
                raise NoMemory("there is no memory", got=self.path, expected="a file that holds one")
            with self.write():
                if self._pragma("application_id") == 0:  # not created by another process meanwhile
                    for statement in [*schema.tables(), *_triggers().values()]:
                        self.db.execute(statement)
                    self.db.execute(f"PRAGMA application_id={schema.APPLICATION_ID}")
                    self.db.execute(f"PRAGMA user_version={schema.VERSION}")
        elif application != schema.APPLICATION_ID:
            raise StoreError(
                "this SQLite file is not an Evolvent memory",
                got=f"application id {application}, {tables} tables",
                where=self.path,
                do="give the path of a memory, or of a file that does not exist yet",
                code="not_a_memory",
            )
        if self._pragma("user_version") in upgrade.OLDER:
            if fixed or not os.access(self.path, os.W_OK):  # in a folder that can be written, too
                do = "copy it to a place that can be written, and open it there: that brings it to this version"
                raise StoreError("an old memory that can only be read", where=self.path, do=do, code="read_only")
            self._upgrade()
        schema.check_version(self._pragma("user_version"), self.path)

    def _upgrade(self) -> None:
        self.db.execute("PRAGMA foreign_keys=OFF")  # for the tables that are written anew; nothing else is running yet
        with self.write():
            version = self._pragma("user_version")
            if version in upgrade.OLDER:  # not upgraded by another process meanwhile
                for statement in upgrade.sqlite(version):
                    self.db.execute(statement)
                there = {name for (name,) in self.db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")}
                for name, statement in _triggers().items():
                    if name not in there:
                        self.db.execute(statement)
                self.db.execute(f"PRAGMA user_version={schema.VERSION}")
        self.db.execute("PRAGMA foreign_keys=ON")

    def _pragma(self, name: str) -> int:
        return int(self.db.execute(f"PRAGMA {name}").fetchone()[0])

    def _identity(self) -> tuple[int, int] | None:
        """Which file stands at the path; ``None`` for a memory without one."""
        if self.path == ":memory:":
            return None
        try:
            found = os.stat(self._at)
        except FileNotFoundError:
            return (-1, -1)
        return found.st_dev, found.st_ino

    def _in_place(self) -> None:
        """A file that was removed or replaced still takes what is written, and nobody would ever read it.

        Raises:
            StoreError: it was.
        """
        if self._file is not None and self._identity() != self._file:
            raise StoreError(
                "the memory file was removed or replaced while it was open",
                where=self.path,
                code="moved",
                do="open it again: Memory(path); nothing of this call was written",
            )

    # ------------------------------------------------------------------------------------------------ reading
    def session(self) -> Session | Inside:
        """The one connection; other threads wait."""
        return self._inside if self.lock.entered else Session(self)

    def snapshot(self) -> Snapshot:
        """One read transaction, unless one is open already."""
        return Snapshot(self)

    def chunks(self, sql: str, args: Sequence[Any] = (), size: int = 2048) -> Iterator[list[tuple]]:
        """The rows of a query in pieces; the connection is held until the last one."""
        with self.session() as db, self.translated("reading"):
            cursor = db.execute(sql, args)
            while piece := cursor.fetchmany(size):
                yield piece

    def load(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        """Insert whole rows."""
        with self.session() as db, self.translated("writing"):
            db.executemany(
                f"INSERT INTO {table.name}({', '.join(table.columns)}) VALUES({marks(len(table.columns))})", rows
            )

    def index(self, scope_id: int, search: Search = "auto") -> Index:
        """A shadow of the file: in memory, of large scopes in files beside it."""
        self._indexes.append(Index(self, scope_id, search))
        return self._indexes[-1]

    # ------------------------------------------------------------------------------------------------ checking
    def damage(self) -> list[tuple[str, str]]:
        """Broken pages, indexes that miss rows, broken constraints, rows that refer to nothing."""
        damaged = [("the file", str(row[0])) for row in self.rows("PRAGMA integrity_check(100)") if row[0] != "ok"]
        for table, rowid, parent, _ in self.rows("PRAGMA foreign_key_check"):
            damaged.append((f"row {rowid} of {table}", f"it refers to a row of {parent} that is not there"))
        return damaged

    def text_bytes(self, column: str) -> str:
        """SQLite hands out any bytes as text."""
        return f"CAST({column} AS BLOB)"

    def sizes(self) -> dict[str, int]:
        """From the page statistics, or the whole file where SQLite was built without them."""
        try:
            rows = self.rows(
                "SELECT coalesce(s.tbl_name, d.name), sum(d.pgsize) FROM dbstat d LEFT JOIN sqlite_schema s "
                "ON s.name = d.name GROUP BY 1 ORDER BY 2 DESC"
            )
        except StoreError:
            return {"file": self._pragma("page_count") * self._pragma("page_size")}
        return dict(rows)

    def shrink(self, *, whole: bool = False) -> None:
        """Rewrite the file without its free pages, and empty its log."""
        with self.session() as db, self.translated("compacting"):
            if db.in_transaction:
                return
            db.execute("VACUUM")
            busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy and whole:
                raise StoreError(
                    "what was erased is gone from the memory, but still in its log",
                    got=f"{self.path}-wal in use",
                    where=self.path,
                    code="log_in_use",
                    do="end the other process's transaction, and erase once more",
                )

    def forget_files(self, scope_id: int) -> None:
        """Vectors and graph of its index."""
        for path in Files(self.path, scope_id).folder.glob(f"scope-{scope_id}.*"):
            path.unlink(missing_ok=True)

    # ------------------------------------------------------------------------------------------------ writing
    def transaction(self) -> Transaction:
        """``write()`` around code that is not ours: its own errors pass through as they are."""
        return Transaction(self, ours=False)

    def write(self) -> Transaction:
        """One transaction."""
        return Transaction(self, ours=True)

    def begin(self, block: Transaction) -> None:
        """Enter a transaction, or a part of the one that is open."""
        self._tidy(0)
        depth = len(self._blocks)
        if self.reading:
            raise BadInput("a snapshot only reads", got="write() inside it", where=self.path, code="inside_transaction")
        with self.translated("writing"):
            if depth == 0:
                self._in_place()
                self._turn.begin(self.db, BUSY_TIMEOUT_S)
            elif self.db.in_transaction:
                self.db.execute(f"SAVEPOINT s{depth}")
            else:
                raise self._undone()
        self._blocks.append(block)

    def end(self, block: Transaction, well: bool) -> None:
        """Leave it: with what was written, or, where that cannot be kept either, without."""
        if block not in self._blocks:
            raise self._undone()
        depth = self._blocks.index(block)
        self._tidy(depth + 1)
        try:
            if well:
                if not self.db.in_transaction:
                    raise self._undone()
                with self.translated("committing"):
                    self.db.execute(f"RELEASE s{depth}" if depth else "COMMIT")
                self.dirty = self.dirty and depth > 0
        except BaseException:
            well = False
            raise
        finally:
            if not well:
                self._undo(depth)
            del self._blocks[depth:]

    def is_open(self, block: Transaction) -> bool:
        """Whether it was entered and not left."""
        return block in self._blocks

    def _undone(self) -> StoreError:
        return StoreError(
            "the database has undone the transaction that this call belongs to",
            where=self.path,
            code="undone",
            do="leave the block, and do all of it again",
        )

    def _undo(self, depth: int) -> None:
        self.undone += self.dirty
        if self.db.in_transaction:  # SQLite itself undoes everything after some errors (disk full)
            try:
                self.db.execute(f"ROLLBACK TO s{depth}" if depth else "ROLLBACK")
                if depth:
                    self.db.execute(f"RELEASE s{depth}")
            except sqlite3.OperationalError as error:
                if "no such savepoint" not in str(error):  # a signal came between its release and this
                    raise

    def _tidy(self, start: int) -> None:
        """Undo blocks from a depth on that a signal's exception kept from leaving, and what it left of a beginning."""
        for depth, block in enumerate(self._blocks[start:], start):
            if block.gone():
                left = self._blocks[depth:]
                self._undo(depth)
                del self._blocks[depth:]
                for one in left:
                    one.drop()
                break
        if not self._blocks and not self.reading and self.db.in_transaction:
            self._undo(0)

    @contextmanager
    def unguarded(self) -> Iterator[None]:
        """The triggers go, and come back in the same transaction."""
        with self.translated("writing"):
            for name in _triggers():
                self.db.execute(f"DROP TRIGGER {name}")
            yield
            for statement in _triggers().values():
                self.db.execute(statement)

    def writing(self) -> bool:
        """Whether a transaction is open; other threads would wait for the answer."""
        with self.session():
            return bool(self._blocks)

    def close(self) -> None:
        """Close the file. Closing twice is allowed; in a child of a fork there is nothing to close."""
        if not self.lock.here:
            return
        with self.session():
            try:
                while self._indexes:
                    self._indexes.pop().close()
            finally:
                self._turn.close()
                self.db.close()

    def translated(self, doing: str) -> Translated:
        """Turns sqlite3's errors in the block into ``StoreError``."""
        return Translated(ERRORS, explained, doing, self.path)


def _triggers() -> dict[str, str]:
    return {
        name: f"CREATE TRIGGER {name} BEFORE {event} ON {table} BEGIN SELECT RAISE(ABORT, '{why}'); END"
        for name, event, table, why in schema.TRIGGERS
    }
