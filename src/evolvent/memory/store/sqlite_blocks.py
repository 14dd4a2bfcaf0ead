"""Blocks of code around an SQLite store: its connection for one thread, a state to read, a transaction."""

from __future__ import annotations

from typing import Any, Protocol

from evolvent.core.errors import StoreError
from evolvent.memory.store.blocks import Block
from evolvent.memory.store.engine import OneProcess
from evolvent.memory.store.sqlite_errors import ERRORS, explained


class Blocks(Protocol):
    """The store that blocks are of."""

    path: str
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

    def __init__(self, store: Blocks) -> None:
        self.store = store

    def __enter__(self) -> Any:
        self.store.lock.acquire(self)
        self.entered = True
        return self.store.db

    def leave(self, error: BaseException | None) -> None:
        """Let other threads in."""
        if not self.store.lock.mine:
            raise StoreError(
                "a block of this memory was left in another thread than it was entered in", where=self.store.path,
                do="enter and leave it in one thread; until then it keeps all others waiting", code="other_thread",
            )  # fmt: skip
        self.drop()

    def drop(self) -> None:
        """The same."""
        self.store.lock.release(self)
        self.entered = False


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
            raise explained(error, "reading", self.store.path) from error

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
        self.store, self.ours = store, ours

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
            if self.store.lock.mine:
                self.store.end(self, error is None)
        finally:
            super().leave(error)
        if self.ours and isinstance(error, ERRORS):
            raise explained(error, "writing", self.store.path) from error

    def drop(self) -> None:
        """Undo what is left of it, and let other threads in."""
        try:
            if self.store.lock.mine and self.store.is_open(self):
                self.store.end(self, well=False)
        finally:
            super().drop()
