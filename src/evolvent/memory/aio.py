"""``AsyncMemory``, ``AsyncScopes``: verbs for asyncio, on one thread of their own; the event loop waits for no disk."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from evolvent.core.errors import StoreError
from evolvent.memory.items import Recall
from evolvent.memory.memory import Memory
from evolvent.memory.scopes import ScopedRecall, Scopes
from evolvent.memory.text import needs

__all__ = ["Abandoned", "AsyncMemory", "AsyncScopes"]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", Memory, Scopes)
_ABANDONED = 256
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Abandoned:
    """A call whose caller was cancelled after it had begun: what it returned, or what it raised."""

    verb: str
    result: Any
    error: BaseException | None


def _called(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """``function(…)``; a ``StopIteration`` is another error, as in a coroutine: none that awaits could get it."""
    try:
        return function(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError(f"{getattr(function, '__name__', 'the function')} raised StopIteration") from error


def _awaited(
    verb: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[_OnThread[S], P], Coroutine[Any, Any, R]]:
    """The verb as a coroutine."""

    @functools.wraps(verb)
    async def call(self: _OnThread[S], *args: P.args, **kwargs: P.kwargs) -> R:
        given: Any = [list(arg) if isinstance(arg, Iterator) else arg for arg in args]  # it belongs to the caller
        return await self.run(verb, *given, **kwargs)

    return call


def _named(result: Any) -> str:
    """A result by its ids: what memories say does not belong into a log."""
    if isinstance(result, ScopedRecall):
        return ", ".join(one.id for one in result.receipts.values())
    return result.id if isinstance(result, Recall) else result if isinstance(result, str) else "committed"


class _OnThread(Generic[S]):
    """Calls on one thread, one after the other; ``AsyncMemory`` says what is promised."""

    def __init__(self, subject: S, where: str) -> None:
        self._subject: S = subject
        self._where = where
        self.abandoned: deque[Abandoned] = deque(maxlen=_ABANDONED)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="evolvent-memory")
        self._last: Future[None] | None = None

    async def run(self, function: Callable[Concatenate[S, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """``function(memory, …)``, or of scopes, in its turn on the thread: several verbs at once.

        A function that uses ``memory.transaction()`` commits them together. It must not wait for the event loop.

        Raises:
            StoreError: the memory is closed; otherwise whatever ``function`` raises.
        """
        if self._last is not None:
            raise StoreError("the memory is closed", where=self._where, do="open it again", code="closed")
        context = contextvars.copy_context()  # so that tracing inside the memory finds its parent
        job = self._thread.submit(context.run, _called, function, self._subject, *args, **kwargs)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            if not job.cancel():
                verb = getattr(function, "__name__", repr(function))
                job.add_done_callback(lambda done: self._record_abandoned(verb, done))
            raise

    def _record_abandoned(self, verb: str, done: Future[Any]) -> None:
        error = done.exception()
        result = None if error is not None else done.result()
        self.abandoned.append(Abandoned(verb, result, error))
        if error is None:
            _log.warning("%s completed after its caller was cancelled: %s", verb, _named(result))
        else:
            _log.error("%s failed after its caller was cancelled", verb, exc_info=error)

    async def close(self) -> None:
        """Let what was called before finish, then close the memory and end the thread; twice is allowed.

        Cancelled meanwhile, it still closes.
        """
        if self._last is None:
            self._last = self._thread.submit(self._subject.close)
            self._thread.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(self._last))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncMemory(_OnThread[Memory]):
    """A ``Memory`` for asyncio. Verbs, arguments, results and errors are the same; each verb is awaited.

    All calls run one after the other, in the order in which they were awaited, on one thread that belongs to this
    object: what a coroutine settled, its next recall sees. The ``Memory`` stays usable from other threads meanwhile.

    **Cancellation.** A call that waits for its turn is withdrawn and never happens. A call that has begun cannot be
    stopped half-way: it completes and is committed, the caller gets ``CancelledError`` at once, and what came of it is
    logged and kept in ``abandoned`` (the last 256). Asking again is safe: ``shown`` and ``settle`` change nothing the
    second time, ``remember`` returns the id of what is there already (unless ``merge=None``); a ``recall`` nobody
    settles pays nobody.

    There is no ``transaction()``: it would hold the write lock while the loop runs other things. Several verbs become
    one commit inside ``run``.

    Args:
        memory: an open memory; ``close`` closes it. Opening a large one takes a while:
            ``AsyncMemory(await asyncio.to_thread(Memory, "agent.db"))``.
    """

    def __init__(self, memory: Memory) -> None:
        needs(memory, Memory, what="a memory", where="AsyncMemory")
        super().__init__(memory, memory.path)
        self.memory = memory

    # one line a verb; test_memory_aio.py says when one is missing
    recall = _awaited(Memory.recall)
    recall_many = _awaited(Memory.recall_many)
    search = _awaited(Memory.search)
    shown = _awaited(Memory.shown)
    settle = _awaited(Memory.settle)
    settle_many = _awaited(Memory.settle_many)
    remember = _awaited(Memory.remember)
    remember_many = _awaited(Memory.remember_many)
    update = _awaited(Memory.update)
    explain = _awaited(Memory.explain)
    lift = _awaited(Memory.lift)
    credit = _awaited(Memory.credit)
    get = _awaited(Memory.get)
    items = _awaited(Memory.items)
    count = _awaited(Memory.count)
    find = _awaited(Memory.find)
    receipts = _awaited(Memory.receipts)
    open_receipts = _awaited(Memory.open_receipts)
    health = _awaited(Memory.health)
    values_as_of = _awaited(Memory.values_as_of)
    prepare = _awaited(Memory.prepare)
    rebuild_values = _awaited(Memory.rebuild_values)
    meta_get = _awaited(Memory.meta_get)
    meta_set = _awaited(Memory.meta_set)
    archive = _awaited(Memory.archive)
    quarantine = _awaited(Memory.quarantine)
    restore = _awaited(Memory.restore)
    rollback = _awaited(Memory.rollback)
    compact = _awaited(Memory.compact)
    revise = _awaited(Memory.revise)
    erase = _awaited(Memory.erase)
    reembed = _awaited(Memory.reembed)
    drop_scope = _awaited(Memory.drop_scope)


class AsyncScopes(_OnThread[Scopes]):
    """``Scopes`` for asyncio: its verbs, each awaited; ``close`` closes its memories. Promises as ``AsyncMemory``'s."""

    def __init__(self, scopes: Scopes) -> None:
        needs(scopes, Scopes, what="scopes", where="AsyncScopes")
        super().__init__(scopes, next(iter(scopes.memories.values())).path)
        self.scopes = scopes

    recall = _awaited(Scopes.recall)
    recall_many = _awaited(Scopes.recall_many)
    search = _awaited(Scopes.search)
    shown = _awaited(Scopes.shown)
    settle = _awaited(Scopes.settle)
    revise = _awaited(Scopes.revise)
    find = _awaited(Scopes.find)
    count = _awaited(Scopes.count)
    open_receipts = _awaited(Scopes.open_receipts)
