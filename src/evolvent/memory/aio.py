"""``AsyncMemory``: the verbs for asyncio, on one thread of their own; the event loop never waits for a disk."""

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
from typing import Any, Concatenate, ParamSpec, TypeVar

from evolvent.core.errors import StoreError
from evolvent.memory.items import Recall
from evolvent.memory.memory import Memory

__all__ = ["Abandoned", "AsyncMemory"]

P = ParamSpec("P")
R = TypeVar("R")
_KEPT = 256
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
    verb: Callable[Concatenate[Memory, P], R],
) -> Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, R]]:
    """The verb of ``Memory`` as a coroutine of ``AsyncMemory``."""

    @functools.wraps(verb)
    async def call(self: AsyncMemory, *args: P.args, **kwargs: P.kwargs) -> R:
        given: Any = [list(arg) if isinstance(arg, Iterator) else arg for arg in args]  # it belongs to the caller
        return await self.run(verb, *given, **kwargs)

    return call


class AsyncMemory:
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
        self.memory = memory
        self.abandoned: deque[Abandoned] = deque(maxlen=_KEPT)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="evolvent-memory")
        self._last: Future[None] | None = None

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
    credit = _awaited(Memory.credit)
    get = _awaited(Memory.get)
    items = _awaited(Memory.items)
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

    async def run(self, function: Callable[Concatenate[Memory, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """``function(memory, …)`` in its turn on the memory's thread: several verbs at once.

        A function that uses ``memory.transaction()`` commits them together. It must not wait for the event loop.

        Raises:
            StoreError: the memory is closed; otherwise whatever ``function`` raises.
        """
        if self._last is not None:
            raise StoreError("the memory is closed", where=self.memory.path, do="open it again", code="closed")
        context = contextvars.copy_context()  # so that tracing inside the memory finds its parent
        job = self._thread.submit(context.run, _called, function, self.memory, *args, **kwargs)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            if not job.cancel():
                verb = getattr(function, "__name__", repr(function))
                job.add_done_callback(lambda done: self._keep(verb, done))
            raise

    def _keep(self, verb: str, done: Future[Any]) -> None:
        error = done.exception()
        result = None if error is not None else done.result()
        self.abandoned.append(Abandoned(verb, result, error))
        if error is None:
            # ids only: what memories say does not belong into a log
            told = result.id if isinstance(result, Recall) else result if isinstance(result, str) else "committed"
            _log.warning("%s completed after its caller was cancelled: %s", verb, told)
        else:
            _log.error("%s failed after its caller was cancelled", verb, exc_info=error)

    async def close(self) -> None:
        """Let what was called before finish, then close the memory and end the thread; twice is allowed.

        Cancelled meanwhile, it still closes.
        """
        if self._last is None:
            self._last = self._thread.submit(self.memory.close)
            self._thread.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(self._last))

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
