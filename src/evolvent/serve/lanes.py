"""Jobs for one thread: bounded lanes, deadlines, and a refusal at the door where a job could only be late."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from evolvent.core.errors import EvolventError

_NEWEST = 0.1  # weight of the newest service time in the mean


class Busy(EvolventError):
    """A job that was not begun, since it would have been done too late; ``wait_s``: when to ask again."""

    def __init__(self, wait_s: float) -> None:
        super().__init__("too busy to do this in time", do="ask again after Retry-After; nothing was done", code="busy")
        self.wait_s = wait_s


@dataclass
class Job:
    """Something to do for a scope; its future is cancelled where nobody waits for it any more."""

    lane: str
    scope: str
    do: Callable[..., Any]
    done: Future[Any] = field(default_factory=Future[Any])

    def begins(self) -> bool:
        """Whether somebody still waits; from then on it is not dropped."""
        return self.done.set_running_or_notify_cancel()

    def fail(self, error: BaseException) -> None:
        """Say why it was not done."""
        if self.done.running() or (not self.done.done() and self.begins()):
            self.done.set_exception(error)


class Lanes:
    """A thread and what waits for it. Scopes take turns, each with its jobs in order.

    Args:
        name: of the thread.
        work: does jobs of one scope, and sets what each came to once it lasts.
        room: how many jobs may wait, by lane.
        at_once: so many jobs at most for one call of ``work``.
        last: what the thread does when it ends.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[str, Sequence[Job]], None],
        room: Mapping[str, int],
        at_once: int = 1,
        last: Callable[[], None] = lambda: None,
    ) -> None:
        self._work, self._room, self._at_once, self._last = work, room, at_once, last
        self._queues: OrderedDict[str, deque[Job]] = OrderedDict()
        self._waiting: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._closed = False
        self._mean_s = 0.0
        self.refused = 0
        self._thread = threading.Thread(target=self._run, name=f"evolvent-{name}", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Jobs that wait."""
        return self._waiting.total()

    @property
    def wait_s(self) -> float:
        """How long a job that came now would wait, by the mean of how long the last ones took."""
        return self.waiting * self._mean_s

    @property
    def alive(self) -> bool:
        """Whether it takes jobs."""
        return self._thread.is_alive() and not self._closed

    async def ask(self, lane: str, scope: str, do: Callable[..., Any], within_s: float) -> Any:
        """What the job comes to.

        Raises:
            Busy: it was not begun within that time, or would not have been.
        """
        job = Job(lane, scope, do)
        self._put(job, within_s)
        answer = asyncio.wrap_future(job.done)
        await asyncio.wait({answer}, timeout=within_s)
        if not answer.done() and job.done.cancel():
            self.refused += 1
            raise Busy(max(self.wait_s, within_s))
        return await answer  # what has begun is done to the end, and said

    def _put(self, job: Job, within_s: float) -> None:
        with self._changed:
            if self._closed or self._waiting[job.lane] >= self._room[job.lane] or self.wait_s > within_s:
                self.refused += 1
                raise Busy(self.wait_s)
            self._queues.setdefault(job.scope, deque()).append(job)
            self._waiting[job.lane] += 1
            self._changed.notify()

    def _take(self) -> tuple[str, list[Job]] | None:
        with self._changed:
            while not self._queues:
                if self._closed:
                    return None
                self._changed.wait()
            scope, queue = self._queues.popitem(last=False)
            jobs = [queue.popleft() for _ in range(min(self._at_once, len(queue)))]
            if queue:
                self._queues[scope] = queue  # at the end: others have their turn first
            self._waiting.subtract(job.lane for job in jobs)
            return scope, jobs

    def _run(self) -> None:
        while taken := self._take():
            scope, jobs = taken
            jobs = [job for job in jobs if not job.done.cancelled()]
            if not jobs:
                continue
            began = time.perf_counter()
            try:
                self._work(scope, jobs)
            except Exception as error:  # noqa: BLE001 - whoever waits is told, and the others are served
                for job in jobs:
                    job.fail(error)
            took = (time.perf_counter() - began) / len(jobs)
            self._mean_s += (took - self._mean_s) * (_NEWEST if self._mean_s else 1.0)
        self._last()

    def close(self) -> None:
        """Do what waits, then end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()
