"""Blocks of code around an SQLite store: its connection for one thread, a state to read, a transaction."""

from __future__ import annotations

from typing import Any, Protocol

from evolvent.memory.store.blocks import Block, elsewhere
from evolvent.memory.store.engine import OneProcess
from evolvent.memory.store.sqlite_errors import ERRORS, explained


class Blocks(Protocol):
    """The store that blocks are of."""

    where: str
    lock: OneProcess
    reading: bool
    db: Any

    def begin(self, block: Transaction) -> None:
        """Enter a transaction, or a part of the one that is open."""
        ...

    def end(self, block: Transaction, well: bool) -> None:
        """Leave it, with what was written or without."""
        ...

    def is_open(self, block: Transaction) -> bool:
        """Whether it was entered and not left."""
        ...


class Session(Block):
    """A block of ``SQLite.session``: other threads wait."""

    store: Blocks

    def __enter__(self) -> Any:
        self.store.lock.acquire(self)
        self.entered = True
        return self.store.db

    def here(self) -> bool:
        """Whether this is the thread that entered it."""
        return self.store.lock.mine

    def leave(self, error: BaseException | None) -> None:
        """Let other threads in."""
        self.drop()

    def drop(self) -> None:
        """The same."""
        self.store.lock.release(self)
        self.entered = False


class Inside:
    """A block of ``SQLite.session`` inside another block of the same thread: there is nothing to enter or to leave."""

    def __init__(self, store: Blocks) -> None:
        self.store = store

    def __enter__(self) -> Any:
        return self.store.db

    def __exit__(self, *error: object) -> None:
        if not self.store.lock.mine:
            raise elsewhere(self.store.where)


class Snapshot(Session):
    """A block of ``SQLite.snapshot``."""

    began = False

    def __enter__(self) -> None:
        db = super().__enter__()
        try:
            if not db.in_transaction:
                self.began = self.store.reading = True
                db.execute("BEGIN")
        except BaseException as error:
            self.leave(error)
            raise

    def leave(self, error: BaseException | None) -> None:
        """End the reading, in which nothing was written."""
        super().leave(error)
        if isinstance(error, ERRORS):
            raise explained(error, "reading", self.store.where) from error

    def drop(self) -> None:
        """The same."""
        try:
            if self.began and self.store.lock.mine:
                if self.store.db.in_transaction:
                    self.store.db.execute("ROLLBACK")
                self.began = self.store.reading = False
        finally:
            super().drop()


class Transaction(Session):
    """A block of ``SQLite.write`` (``ours``) or ``transaction``."""

    def __init__(self, store: Blocks, ours: bool) -> None:
        super().__init__(store)
        self.ours = ours

    def __enter__(self) -> Any:
        db = super().__enter__()
        try:
            self.store.begin(self)
        except BaseException:
            self.drop()
            raise
        return db if self.ours else None

    def leave(self, error: BaseException | None) -> None:
        """Commit, or undo what was written."""
        try:
            self.store.end(self, error is None)
        finally:
            self.drop()
        if self.ours and isinstance(error, ERRORS):
            raise explained(error, "writing", self.store.where) from error

    def drop(self) -> None:
        """Undo what is left of it, and let other threads in."""
        try:
            if self.store.lock.mine and self.store.is_open(self):
                self.store.end(self, well=False)
        finally:
            super().drop()
