"""Tasks of a run: here, one after another; in processes; or on Ray. The code that asks for them is the same.

    with workers("ray:2") as tasks:
        tasks.start("response 0", respond, game, 0)
        done = tasks.next()                        # whichever is done first

A task is a function of a module, and of its arguments alone: one whose worker died is done again by a new worker, and
its result comes once. ``Done`` has the seconds at which it was asked for, begun and ended, and who did it.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from evolvent.core.errors import BadInput, EnvError, optional

DEATHS = 5
"""Workers that may die in a row before the run gives up."""


@dataclass(frozen=True)
class Done:
    """A task that is done; times in seconds of the wall clock (``time.time``)."""

    name: str
    value: Any
    worker: str
    asked: float
    began: float
    ended: float


class Tasks(Protocol):
    """See the module."""

    def start(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Ask for a task; ``name`` is its own among those that are not done."""
        ...

    def next(self) -> Done | None:
        """The next task that is done; waits for it; ``None`` where nothing was asked for.

        Raises:
            EnvError: workers die again and again; else what the task raised.
        """
        ...


@contextmanager
def workers(asked: int | str) -> Iterator[Tasks]:
    """Where tasks are done: 0 = here, N = processes, ``"ray"`` or ``"ray:N"`` = on Ray.

    Raises:
        BadInput: something else.
        MissingExtra: Ray is not installed.
    """
    place, _, count = str(asked).partition(":")
    if place == "ray" and (not count or (count.isdecimal() and int(count))):
        ray = _Ray(int(count or 0))
        try:
            yield ray
        finally:
            ray.close()
    elif not place.isdecimal() or count:
        raise BadInput("workers", got=asked, expected="0 or more processes, ray or ray:N", where="--workers")
    elif int(place) == 0:
        yield _Here()
    else:
        processes = _Processes(int(place))
        try:
            yield processes
        finally:
            processes.close()


def _timed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, int, float, float]:
    began = time.time()
    return function(*arguments), os.getpid(), began, time.time()


class _Here:
    def __init__(self) -> None:
        self._asked: deque[tuple[str, float, Callable[..., Any], tuple[Any, ...]]] = deque()

    def start(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        self._asked.append((name, time.time(), function, arguments))

    def next(self) -> Done | None:
        if not self._asked:
            return None
        name, asked, function, arguments = self._asked.popleft()
        value, _, began, ended = _timed(function, arguments)
        return Done(name, value, "here", asked, began, ended)


class _Processes:
    def __init__(self, n: int) -> None:
        self._n, self._deaths = n, 0
        self._asked: dict[str, tuple[float, Callable[..., Any], tuple[Any, ...]]] = {}
        self._running: dict[Future[Any], str] = {}
        self._open()

    def _open(self) -> None:
        self._pool = ProcessPoolExecutor(self._n, mp_context=multiprocessing.get_context("spawn"), initializer=_alone)

    def start(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        self._asked[name] = (time.time(), function, arguments)
        self._send(name)

    def _send(self, name: str) -> None:
        _, function, arguments = self._asked[name]
        try:
            future = self._pool.submit(_timed, function, arguments)
        except BrokenProcessPool as error:  # noticed here first: `next` finds it and begins again
            future = Future[Any]()
            future.set_exception(error)
        self._running[future] = name

    def next(self) -> Done | None:
        while self._running:
            done, _ = wait(self._running, return_when=FIRST_COMPLETED)
            whole = [future for future in done if not isinstance(future.exception(), BrokenProcessPool)]
            if not whole:
                self._again()
                continue
            name = self._running.pop(whole[0])
            asked, _, _ = self._asked.pop(name)
            value, pid, began, ended = whole[0].result()
            self._deaths = 0
            return Done(name, value, str(pid), asked, began, ended)
        return None

    def _again(self) -> None:
        """A worker died, and with it the pool: what is not done is asked for again, in its order."""
        self._deaths += 1
        if self._deaths > DEATHS:
            raise EnvError(
                "workers die again and again", got=", ".join(self._asked), where="--workers", do="--workers 0"
            )
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._open()
        self._running = {}
        for name in self._asked:
            self._send(name)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _alone() -> None:
    """In a worker: end with the process that began it, even if that was killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Ray:
    def __init__(self, n: int) -> None:
        self._ray: Any = optional("ray", "ray", "--workers ray")
        if not self._ray.is_initialized():
            try:
                self._ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
            except Exception as error:  # it raises a bare Exception where a part of it does not come up in time
                do = "try `ray start --head`; a machine that is too busy makes it time out"
                raise EnvError("Ray does not start", got=str(error), where="--workers ray", do=do) from error
        cpus = self._ray.cluster_resources().get("CPU", 1.0)
        share = min(1.0, cpus / n) if n else 1.0
        self._task = self._ray.remote(num_cpus=share, max_retries=DEATHS)(_timed)
        self._most, self._waiting = n or max(1, int(cpus)), deque[tuple[str, Any, tuple[Any, ...]]]()
        self._running: dict[Any, tuple[str, float]] = {}
        self._asked: dict[str, float] = {}

    def start(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        self._asked[name] = time.time()
        self._waiting.append((name, function, arguments))
        self._fill()

    def _fill(self) -> None:
        """No more than N at a time: Ray counts shares of processors, not workers."""
        while self._waiting and len(self._running) < self._most:
            name, function, arguments = self._waiting.popleft()
            self._running[self._task.remote(function, arguments)] = (name, self._asked.pop(name))

    def next(self) -> Done | None:
        if not self._running:
            return None
        (ready, *_), _ = self._ray.wait(list(self._running))
        name, asked = self._running.pop(ready)
        self._fill()
        try:
            value, pid, began, ended = self._ray.get(ready)
        except self._ray.exceptions.RayTaskError as error:  # what the task raised
            raise error.cause from error
        except self._ray.exceptions.RayError as error:
            raise EnvError("workers die again and again", got=name, where="--workers ray", do="--workers 0") from error
        return Done(name, value, str(pid), asked, began, ended)

    def close(self) -> None:
        for job in self._running:
            self._ray.cancel(job, force=True)
        self._running = {}
