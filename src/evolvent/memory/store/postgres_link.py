"""A connection in the hands of one thread: statements wait until rows are wanted, and then travel together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any

import psycopg
import psycopg_pool
from psycopg.pq import TransactionStatus

from evolvent.core.errors import StoreError


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

    def __init__(self, pool: psycopg_pool.ConnectionPool) -> None:
        self._pool = pool
        self._conn: psycopg.Connection = pool.getconn()
        self._waiting: list[Answer] = []
        self._streams = 0
        self.depth = 0
        self.reading = False

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
        waiting, self._waiting = self._waiting, []
        for _ in range(self._pool.max_size):  # those that wait in the pool may be lost as well
            try:
                return self._send(waiting)
            except psycopg.OperationalError:
                inside = self.depth and waiting[0].sql != b"BEGIN"
                if not self._conn.closed or inside or self.reading:
                    raise
                self._pool.putconn(self._conn)  # which discards it
                self._conn = self._pool.getconn()
        return self._send(waiting)

    def _send(self, waiting: Sequence[Answer]) -> None:
        with self._conn.pipeline() if len(waiting) > 1 else nullcontext():
            for answer in waiting:
                answer.send(self._conn)

    def stream(self) -> psycopg.ServerCursor:
        """A cursor that keeps its rows in the server."""
        self.flush()
        self._streams += 1
        return self._conn.cursor(name=f"chunks_{self._streams}")

    @contextmanager
    def copy(self, sql: str) -> Iterator[psycopg.Copy]:
        """Rows into a table, without a statement for each."""
        self.flush()
        with self._conn.cursor() as cursor, cursor.copy(sql.encode()) as copy:
            yield copy

    # ------------------------------------------------------------------------------------------------ transactions
    def begin(self, lock: str) -> None:
        """Begin a block: a transaction with the writers' lock, or inside one a part that can be undone by itself."""
        self.flush()  # an error in what came before is not one of this block
        if self.depth:
            self._must_be_sound()
            self.execute(f"SAVEPOINT s{self.depth}")
        else:
            self.execute("BEGIN")
            self.execute(f"SELECT {lock}")
        self.depth += 1

    def commit(self) -> None:
        """End the block; PostgreSQL would answer a commit after an error with a silent rollback."""
        if self._waiting and self._waiting[0].sql == b"BEGIN":
            self.flush()  # a connection that was lost long ago is noticed now, and not while committing
        self._must_be_sound()
        self.execute("COMMIT" if self.depth == 1 else f"RELEASE s{self.depth - 1}")
        self.flush()

    def undo(self) -> None:
        """Roll the block back, unless it never reached the server or the server did so when the connection broke."""
        waiting, self._waiting = self._waiting, []
        if waiting and waiting[0].sql.startswith((b"BEGIN", b"SAVEPOINT")):
            return
        if self._conn.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            name = f"s{self.depth - 1}"
            sql = f"ROLLBACK TO {name}; RELEASE {name}" if self.depth > 1 else "ROLLBACK"
            try:
                self._conn.execute(sql.encode())
            except psycopg.OperationalError:
                if not self._conn.closed:  # else the server did it, and what went wrong first is the error to see
                    raise

    def _must_be_sound(self) -> None:
        if self._conn.info.transaction_status == TransactionStatus.INERROR:
            raise StoreError(
                "an earlier statement of this transaction failed", do="let its error leave the block", code="failed"
            )

    def give_back(self) -> None:
        """Return the connection to the pool."""
        self._pool.putconn(self._conn)


@lru_cache(maxsize=2048)
def portable(sql: str) -> bytes:
    """The statement with psycopg's marks."""
    return sql.replace("%", "%%").replace("?", "%s").encode()
