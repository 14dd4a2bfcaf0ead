"""``AsyncMemory``: the five verbs for asyncio, on one thread of their own; the event loop never waits for a disk."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from evolvent.core.errors import StoreError
from evolvent.memory.items import Explanation, Recall, ValueChange
from evolvent.memory.memory import Memory
from evolvent.memory.policies import Policy

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

    # ------------------------------------------------------------------------------------------------ the five verbs
    async def recall(
        self,
        task: str,
        *,
        k: int | None = None,
        stage: str = "solve",
        policy: str | Policy | None = None,
        kinds: Sequence[str] | None = None,
        seed: int | None = None,
        frozen: bool = False,
        is_test: bool = False,
    ) -> Recall:
        """``Memory.recall``: memories for a task, best first, with a receipt that is on disk when this returns."""
        return await self.run(
            Memory.recall, task, k=k, stage=stage, policy=policy, kinds=kinds, seed=seed, frozen=frozen, is_test=is_test
        )

    async def shown(self, recalled: Recall | str, ids: Sequence[str] | None = None) -> None:
        """``Memory.shown``: say which memories were really in the prompt."""
        return await self.run(Memory.shown, recalled, ids)

    async def settle(
        self,
        recalled: Recall | str,
        reward: float | None,
        *,
        source: str = "env",
        valid: bool = True,
        objective: str = "success",
        idempotency_key: str | None = None,
        action: str | None = None,
        child: str | None = None,
    ) -> list[ValueChange]:
        """``Memory.settle``: tell what came of it; calls no model."""
        return await self.run(
            Memory.settle, recalled, reward, source=source, valid=valid, objective=objective,
            idempotency_key=idempotency_key, action=action, child=child,
        )  # fmt: skip

    async def remember(
        self,
        key: str,
        body: str,
        *,
        kind: str = "case",
        polarity: str = "neutral",
        parents: Recall | str | Sequence[str] = (),
        source: str = "self",
        value: float | None = None,
        merge: float | None = 0.98,
        supersedes: str | None = None,
    ) -> str:
        """``Memory.remember``: keep an experience; returns its id."""
        return await self.run(
            Memory.remember, key, body, kind=kind, polarity=polarity, parents=parents, source=source, value=value,
            merge=merge, supersedes=supersedes,
        )  # fmt: skip

    async def settle_many(self, rows: Iterable[Mapping[str, Any]]) -> list[list[ValueChange]]:
        """``Memory.settle_many``: many outcomes in one transaction."""
        return await self.run(Memory.settle_many, list(rows))

    async def remember_many(self, rows: Iterable[Mapping[str, Any]]) -> list[str]:
        """``Memory.remember_many``: many rows in one transaction."""
        return await self.run(Memory.remember_many, list(rows))  # a generator belongs to the caller

    async def explain(self, subject: Recall | str) -> Explanation:
        """``Memory.explain``: the ledger of a memory or of a receipt."""
        return await self.run(Memory.explain, subject)

    # ------------------------------------------------------------------------------------------------ everything else
    async def run(self, function: Callable[Concatenate[Memory, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """``function(memory, …)`` in its turn on the memory's thread: ``await memory.run(Memory.health)``.

        For the methods that have no async twin, and for several verbs at once: a function that uses
        ``memory.transaction()`` commits them together. It must not wait for the event loop.

        Raises:
            StoreError: the memory is closed; otherwise whatever ``function`` raises.
        """
        if self._last is not None:
            raise StoreError("the memory is closed", where=self.memory.path, do="open it again")
        context = contextvars.copy_context()  # so that tracing inside the memory finds its parent
        job = self._thread.submit(context.run, function, self.memory, *args, **kwargs)
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
