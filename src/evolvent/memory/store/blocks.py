"""Blocks of code around a store, which are left whatever a signal does.

Python handles a signal (Ctrl-C) on entering a function, ``__exit__`` too, which then has done nothing: the block is
left, and its transaction, connection or lock is not. So ``with`` gets an ``__exit__`` made anew for each block, and
holds it until the block is left; when it goes and nothing was done, that is done then. Classes, not generators: the
frame of a generator would live as long as the traceback that somebody keeps.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from types import MethodType
from typing import Any

from evolvent.core.errors import StoreError


class _Exit:
    def __get__(self, block: Block | None, kind: object = None) -> Any:
        if block is None:
            return _leave
        bound = MethodType(_leave, block)
        if not block.entered:
            block.held = weakref.ref(bound, block._let_go)
        return bound


class Block:
    """A context manager. ``__enter__`` of a subclass sets ``entered``; ``leave`` clears it, done with everything."""

    __exit__ = _Exit()
    entered = False
    dropping = False  # it is nobody's any more, and not all was given back
    held: weakref.ref[MethodType] | None = None  # None: entered without a ``with``, nobody can tell

    def __init__(self, store: Any) -> None:
        self.store = store

    def here(self) -> bool:
        """Whether this is the thread that entered it."""
        raise NotImplementedError

    def leave(self, error: BaseException | None) -> None:
        """Leave it, because of an error or well."""
        raise NotImplementedError

    def drop(self) -> None:
        """Undo what ``__enter__`` did, as far as ``leave`` has not."""
        raise NotImplementedError

    def gone(self) -> bool:
        """Whether it was left without a word and not undone then: by another signal, or in another thread."""
        return self.entered and self.held is not None and self.held() is None

    def _let_go(self, _: object) -> None:
        if self.entered and (self.dropping or self.here()):
            with suppress(Exception):  # nobody is there to hear of it; ``gone`` tells the next to come
                self.drop()


def _leave(block: Block, kind: object, error: BaseException | None, trace: object) -> None:
    if not block.here():
        raise elsewhere(block.store.where)
    block.leave(error)
    block.held = None  # a weak reference that calls a method of its owner would keep both until they are collected


def elsewhere(where: str) -> StoreError:
    """The error for a block that is left in another thread than it was entered in."""
    return StoreError(
        "a block of this memory was left in another thread than it was entered in",
        where=where,
        do="enter and leave it in one thread; until then it keeps all others waiting",
        code="other_thread",
    )


class Translated:
    """Turns an engine's errors in the block into those of ``explained(error, doing, where)``."""

    def __init__(
        self,
        errors: tuple[type[Exception], ...],
        explained: Callable[[Any, str, str], StoreError],
        doing: str,
        where: str,
    ) -> None:
        self._errors, self._explained, self._doing, self._where = errors, explained, doing, where

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._errors):
            raise self._explained(error, self._doing, self._where) from error
