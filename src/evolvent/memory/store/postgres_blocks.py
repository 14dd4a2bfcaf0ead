"""Blocks of code around a PostgreSQL store: a connection for one thread, a state to read, a transaction."""

from __future__ import annotations

import threading
from typing import Protocol

import psycopg
import psycopg_pool

from evolvent.core.errors import BadInput
from evolvent.memory.store.blocks import Block, Translated
from evolvent.memory.store.engine import OneProcess
from evolvent.memory.store.postgres_errors import explained
from evolvent.memory.store.postgres_link import Link

ERRORS = (psycopg.Error, psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed)


class Blocks(Protocol):
    """The store that blocks are of."""

    where: str
    process: OneProcess
    write_lock: str  # in SQL
    links: threading.local  # ``link``: of this thread, where a block is open

    def pool(self) -> psycopg_pool.ConnectionPool:
        """Where connections come from."""
        ...

    def translated(self, doing: str) -> Translated:
        """Turns psycopg's errors in the block into ``StoreError``."""
        ...


class Session(Block):
    """A block of ``Postgres.session``: a connection of the pool for this thread, the same in all blocks inside."""

    store: Blocks

    def __enter__(self) -> Link:
        self.store.process.check()
        link: Link | None = getattr(self.store.links, "link", None)
        if link is not None and link.block.gone():
            link.block.drop()
            link = None
        if link is None:
            with self.store.translated("connecting to"):
                link = Link(self.store.pool(), self)
            self.store.links.link = link
        self.link = link
        self.entered = True
        return link

    def here(self) -> bool:
        """Whether this is the thread that entered it."""
        return getattr(self.store.links, "link", None) is self.link

    def leave(self, error: BaseException | None) -> None:
        """Send what still waits, and give the connection back."""
        try:
            if error is None and self.link.block is self:
                with self.store.translated("reading"):
                    self.link.flush()
        finally:
            self.drop()

    def drop(self) -> None:
        """Give the connection back."""
        link = self.link
        if link.block is self:
            if self.here():
                self.dropping = True
                self.store.links.link = None
            link.give_back()
        self.entered = self.dropping = False


class Snapshot(Session):
    """A block of ``Postgres.snapshot``."""

    began = False

    def __enter__(self) -> None:  # type: ignore[override]
        link = super().__enter__()
        try:
            if not link.blocks and not link.reading:
                self.began = link.reading = True
                with self.store.translated("reading"):
                    link.command("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        except BaseException:
            self.drop()
            raise

    def leave(self, error: BaseException | None) -> None:
        """End the reading, in which nothing was written."""
        self.drop()
        if isinstance(error, ERRORS):
            raise explained(error, "reading", self.store.where) from error

    def drop(self) -> None:
        """The same."""
        try:
            if self.began:
                self.link.undo()
                self.began = self.link.reading = False
        finally:
            super().drop()


class Transaction(Session):
    """A block of ``Postgres.write`` (``ours``) or ``transaction``."""

    def __init__(self, store: Blocks, ours: bool) -> None:
        super().__init__(store)
        self.ours = ours

    def __enter__(self) -> Link | None:  # type: ignore[override]
        link = super().__enter__()
        try:
            if link.reading:
                raise BadInput(
                    "a snapshot only reads", got="write() inside it", where=self.store.where, code="inside_transaction"
                )
            with self.store.translated("writing"):
                # freed by the server at the end of the transaction, however the client ends
                link.begin(self, self.store.write_lock)
                if not self.ours:
                    link.flush()  # the lock first, whatever the code does beside the store
        except BaseException:
            self.drop()
            raise
        return link if self.ours else None

    def leave(self, error: BaseException | None) -> None:
        """Commit, or undo what was written."""
        try:
            if error is None:
                with self.store.translated("committing"):
                    self.link.commit(self)
        finally:
            self.drop()
        if self.ours and isinstance(error, ERRORS):
            raise explained(error, "writing", self.store.where) from error

    def drop(self) -> None:
        """Undo what was not committed, and give the connection back."""
        try:
            self.link.end(self)
        finally:
            super().drop()
