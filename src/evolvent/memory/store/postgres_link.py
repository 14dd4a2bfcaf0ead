"""A connection in the hands of one thread: statements wait until rows are wanted, and then travel together."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from typing import Any

import psycopg
import psycopg_pool
from psycopg.pq import TransactionStatus

from evolvent.core.errors import StoreError
from evolvent.memory.store.blocks import Block


class Answer:
    """The result of a statement. Whoever wants its rows sends it, with all that waits beside it, in one round trip."""

    def __init__(self, link: Link, sql: bytes, args: Sequence[Any], many: bool) -> None:
        self._link, self.sql, self._args, self._many = link, sql, args, many
        self._cursor: psycopg.Cursor | None = None

    def send(self, conn: psycopg.Connection) -> None:
        """Run the statement, or put it on its way in a pipeline."""
        self._cursor = conn.cursor(binary=True)
        if self._many:
            self._cursor.executemany(self.sql, self._args)
        else:
            self._cursor.execute(self.sql, self._args)

    @property
    def _sent(self) -> psycopg.Cursor:
        if self._cursor is None:
            self._link.flush()
        assert self._cursor is not None, "what was to send it raised an error"
        return self._cursor

    @property
    def description(self) -> Any:
        """Of the columns: name first."""
        return self._sent.description

    def fetchone(self) -> Any:
        """The next row, or ``None``."""
        return self._sent.fetchone()

    def fetchall(self) -> list[Any]:
        """The rows that are left."""
        return self._sent.fetchall()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._sent)


class Link:
    """A connection of the pool; a lost one is replaced when no transaction was lost with it.

    A statement that nobody asked for rows goes out with the next one that somebody did, or at the end of its block,
    so that its error is raised inside the block.
    """

    def __init__(self, pool: psycopg_pool.ConnectionPool, block: Block) -> None:
        self._returned = True
        self.block = block  # whose it is; it ends with it
        self._pool = pool
        self._conn: psycopg.Connection = pool.getconn()
        self._returned = False
        self._waiting: list[Answer] = []
        self._streams = 0
        self._sound = True  # the server has what was sent; not so where a signal's exception came between
        self.blocks: list[Block] = []  # transactions that are open, the outermost first
        self.reading = False  # a snapshot is open

    # ------------------------------------------------------------------------------------------------ statements
    def execute(self, sql: str, args: Sequence[Any] = (), /) -> Answer:
        """One statement with ``?`` marks."""
        self._waiting.append(Answer(self, portable(sql), args, many=False))
        return self._waiting[-1]

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> None:
        """One statement for each row of arguments."""
        if many := list(rows):
            self._waiting.append(Answer(self, portable(sql), many, many=True))

    def command(self, sql: str) -> None:
        """One statement without arguments, now and by itself."""
        self.flush()
        self.execute(sql)
        self.flush()

    def flush(self) -> None:
        """Send what waits."""
        if self._waiting:
            self._renew_unsound()
            waiting, self._waiting = self._waiting, []
            with self._whole():
                self._deliver(waiting)

    def _deliver(self, waiting: Sequence[Answer]) -> None:
        for _ in range(self._pool.max_size):  # those that wait in the pool may be lost as well
            try:
                return self._send(waiting)
            except psycopg.OperationalError:
                inside = self.blocks and waiting[0].sql != b"BEGIN"
                if not self._conn.closed or inside or self.reading:
                    raise
                self._renew()
        return self._send(waiting)

    def _renew(self) -> None:
        """Another connection: what was begun on this one the server undoes."""
        self._conn.close()
        self._pool.putconn(self._conn)  # which discards it
        self._conn = self._pool.getconn()

    def _renew_unsound(self) -> None:
        if not self._sound and not self.blocks and not self.reading:
            self._renew()
            self._sound = True

    def _send(self, waiting: Sequence[Answer]) -> None:
        before = sys.exc_info()[1]
        try:
            with self._conn.pipeline() if len(waiting) > 1 else nullcontext():
                for answer in waiting:
                    answer.send(self._conn)
        except psycopg.Error as error:
            first = error.__context__
            while first is not before and isinstance(first, Exception):
                first = first.__context__
            if first is not before and first is not None:
                raise first from None  # Ctrl-C, in the middle of which psycopg could not end the pipeline
            raise

    def stream(self) -> psycopg.ServerCursor:
        """A cursor that keeps its rows in the server."""
        self.flush()
        self._streams += 1
        return self._conn.cursor(name=f"chunks_{self._streams}")

    @contextmanager
    def copy(self, sql: str) -> Iterator[psycopg.Copy]:
        """Rows into a table, without a statement for each."""
        self.flush()
        with self._whole(), self._conn.cursor() as cursor, cursor.copy(sql.encode()) as copy:
            yield copy

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """What a signal's exception may cut off: nobody knows then what the server has heard, libpq does not either."""
        sound, self._sound = self._sound, False
        try:
            yield
        except Exception:
            self._sound = sound
            raise
        self._sound = sound

    # ------------------------------------------------------------------------------------------------ transactions
    def begin(self, block: Block, lock: str) -> None:
        """Begin a transaction with the writers' lock, or inside one a part that can be undone by itself."""
        self.flush()  # an error in what came before is not one of this block
        if self.blocks:
            self._must_be_sound()
            self.execute(f"SAVEPOINT s{len(self.blocks)}")
        else:
            self._renew_unsound()
            self.execute("BEGIN")
            self.execute(f"SELECT {lock}")
        self.blocks.append(block)

    def commit(self, block: Block) -> None:
        """Keep what a block wrote; PostgreSQL would answer a commit after an error with a silent rollback."""
        if self._waiting and self._waiting[0].sql == b"BEGIN":
            self.flush()  # a connection that was lost long ago is noticed now, and not while committing
        depth = self.blocks.index(block)
        self._must_be_sound(depth)
        self.execute(f"RELEASE s{depth}" if depth else "COMMIT")
        self.flush()
        del self.blocks[depth:]

    def end(self, block: Block) -> None:
        """Undo what a block wrote, unless it was committed."""
        if block in self.blocks:
            depth = self.blocks.index(block)
            self.undo(depth)
            del self.blocks[depth:]

    def undo(self, depth: int = 0) -> None:
        """Roll back, unless the beginning never reached the server or the server did so when the connection broke."""
        waiting, self._waiting = self._waiting, []
        if waiting and waiting[0].sql == (f"SAVEPOINT s{depth}".encode() if depth else b"BEGIN"):
            return
        status = self._conn.info.transaction_status
        if not self._sound or status == TransactionStatus.IDLE:
            return
        self._sound = False
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            with suppress(
                psycopg.Error
            ):  # the server did it, or will when the connection ends; the first error is raised
                self._conn.execute((f"ROLLBACK TO s{depth}; RELEASE s{depth}" if depth else "ROLLBACK").encode())
                self._sound = True

    def _must_be_sound(self, depth: int | None = None) -> None:
        status = self._conn.info.transaction_status
        if status == TransactionStatus.INERROR:
            raise StoreError(
                "an earlier statement of this transaction failed", do="let its error leave the block", code="failed"
            )
        left = depth is not None and depth + 1 < len(self.blocks)  # a part without a word
        if not self._conn.closed and (left or not self._sound):
            raise StoreError(
                "a part of this transaction was cut off in the middle",
                code="undone",
                do="leave the block, and do all of it again",
            )

    def give_back(self) -> None:
        """Return the connection to the pool; in the middle of something it is closed first."""
        if not self._returned:
            if not self._sound or self._conn.info.transaction_status != TransactionStatus.IDLE:
                self._conn.close()
            with suppress(ValueError):  # it was returned, and a signal came before that was noted
                self._pool.putconn(self._conn)
            self._returned = True

    def __del__(self) -> None:
        with suppress(Exception):
            self.give_back()


@lru_cache(maxsize=2048)
def portable(sql: str) -> bytes:
    """The statement with psycopg's marks."""
    return sql.replace("%", "%%").replace("?", "%s").encode()
