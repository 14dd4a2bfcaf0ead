"""Blocks of code around an SQLite store: transactions, and errors in our words.

Classes, not generators: every verb comes through some of them, and a signal can end a program's verb anywhere.
"""

from __future__ import annotations

import weakref
from types import MethodType
from typing import Any, Protocol

from evolvent.core.errors import StoreError
from evolvent.memory.store.engine import OneProcess
from evolvent.memory.store.sqlite_errors import ERRORS, explained


class Blocks(Protocol):
    """The store that blocks are of."""

    path: str
    lock: OneProcess
    db: Any

    def begin(self, block: Transaction) -> None:
        """Enter a transaction, or a part of the one that is open."""
        ...

    def end(self, block: Transaction, well: bool) -> None:
        """Leave it, with what was written or without."""
        ...


class _Exit:
    """``__exit__`` of a block, made anew for each ``with``, which holds it until it leaves the block.

    Python handles a signal (Ctrl-C) on entering a function, ``__exit__`` too, which then has done nothing: the block is
    left and the transaction open. Whether the ``with`` still holds this tells.
    """

    def __get__(self, block: Transaction | None, kind: object = None) -> Any:
        if block is None:
            return _leave
        bound = MethodType(_leave, block)
        if not block.entered:
            block.held = weakref.ref(bound)
        return bound


class Transaction:
    """A block of ``SQLite.write`` (``ours``) or ``transaction``."""

    __exit__ = _Exit()

    def __init__(self, store: Blocks, ours: bool) -> None:
        self.store, self.ours, self.entered = store, ours, False
        self.held: weakref.ref[MethodType] | None = None  # None: entered without a ``with``, nobody can tell

    def __enter__(self) -> Any:
        store = self.store
        if self.held is not None and self.held() is None:
            self.held = None
        store.lock.__enter__()
        self.entered = True
        try:
            store.begin(self)
        except BaseException:
            self.unlock()
            raise
        return store.db if self.ours else None

    def gone(self) -> bool:
        """Whether the block was left without a word."""
        return self.held is not None and self.held() is None

    def unlock(self) -> None:
        """Let other threads in, once."""
        if self.entered:
            self.entered = False
            self.store.lock.__exit__()


def _leave(block: Transaction, kind: object, error: BaseException | None, trace: object) -> None:
    store = block.store
    if not store.lock.mine:
        raise StoreError(
            "a transaction was left in another thread than it was entered in", where=store.path, code="other_thread",
            do="enter and leave it in one thread; until then it keeps all others waiting",
        )  # fmt: skip
    try:
        store.end(block, error is None)
    finally:
        block.unlock()
    if block.ours and isinstance(error, ERRORS):
        raise explained(error, "writing", store.path) from error


class Translated:
    """A block of ``SQLite.translated``."""

    def __init__(self, doing: str, path: str) -> None:
        self._doing, self._path = doing, path

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ERRORS):
            raise explained(error, self._doing, self._path) from error
