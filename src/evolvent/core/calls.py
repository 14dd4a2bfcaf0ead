"""Calls of user functions that may never return: time limits, daemon threads, coroutines."""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import inspect
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

GRACE_S = 10.0
"""Seconds after its limit in which a call must have been given up; see ``call_with_time_limit``."""
_LOOPS: list[tuple[asyncio.AbstractEventLoop, threading.Thread]] = []
_LOCK = threading.Lock()
_ENDS: dict[object, float] = {}


class Overdue(Exception):
    """A call was not back within its time limit."""


class _Rings(BaseException):
    """The time is up, inside the function: no ``except Exception`` of its own stops it."""


class _Seen(BaseException):
    """Raised by a thread in itself."""


def call_with_time_limit(function: Callable[[], Any], seconds: float) -> Any:
    """What ``function`` returns, or what that comes to where it is awaitable.

    On the main thread it runs there, so that packages that keep their time by signals can; loops, waiting, regular
    expressions and large numbers end when the time is up. On other threads it gets a thread of its own, which is given
    up. What neither looks at signals nor lets other threads on cannot be stopped from within: ``GRACE_S`` after its
    limit the process ends, and standard error shows the line where it stands.

    Raises:
        Overdue: it was not back in time.
        BaseException: whatever the function raises.
    """
    until = time.monotonic() + seconds
    with _ends_at(until + GRACE_S):
        if threading.current_thread() is threading.main_thread():
            value = _rung(function, seconds)
        else:
            value = _in_time(spawn(function), seconds)
        if inspect.isawaitable(value):
            value = _in_time(on_loop(value), max(0.0, until - time.monotonic()))
    return value


class OnThread(Future[Any]):
    """The result of a function that runs on a thread of its own."""

    thread: threading.Thread


def spawn(function: Callable[..., Any], *args: Any, name: str = "call") -> OnThread:
    """Run it on a daemon thread: unlike one of a pool it does not keep the process alive."""
    future = OnThread()

    def work() -> None:
        try:
            value, failed = function(*args), None
        except BaseException as error:  # noqa: BLE001  (raised where the result is awaited, whatever it is)
            value, failed = None, error
        if future.set_running_or_notify_cancel():
            future.set_exception(failed) if failed is not None else future.set_result(value)

    future.thread = threading.Thread(target=work, name=name, daemon=True)
    future.thread.start()
    return future


def on_loop(awaitable: Awaitable[Any]) -> Future[Any]:
    """Run it on the event loop that all attempts share, so that they can share what is bound to a loop."""
    return asyncio.run_coroutine_threadsafe(_alone(awaitable), _loop())


def done_in_time(future: Future[Any], seconds: float) -> bool:
    """Wait for a result until its limit; then give up: a coroutine is cancelled, a loop in Python is interrupted."""
    if wait([future], seconds).done:
        return True
    future.cancel()
    if isinstance(future, OnThread):
        _end(future.thread)  # waiting in C, it ends when that comes back
    else:
        _forget_if_stuck()
    return False


def _in_time(future: Future[Any], seconds: float) -> Any:
    if not done_in_time(future, seconds):
        raise Overdue
    return future.result()


def _rung(function: Callable[[], Any], seconds: float) -> Any:
    """On the main thread, interrupted by the clock; again every second where something swallows it."""
    begun, listening = time.monotonic(), True

    def ring(number: int, frame: FrameType | None) -> None:
        if listening:
            raise _Rings

    handler = signal.signal(signal.SIGALRM, ring)
    left, every = signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        try:
            return function()
        finally:
            listening = False
    except _Rings:
        raise Overdue from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler)
        if left:  # another's alarm goes on
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - begun), 1e-3), every)


@contextmanager
def _ends_at(deadline: float) -> Generator[None]:
    """A timer of C ends the process at the first deadline that is still open: it needs no lock of Python."""
    key = object()
    with _LOCK:
        _ENDS[key] = deadline
        _arm()
    try:
        yield
    finally:
        with _LOCK:
            del _ENDS[key]
            _arm()


def _arm() -> None:
    if _ENDS:
        left = max(min(_ENDS.values()) - time.monotonic(), 1e-3)
        faulthandler.dump_traceback_later(left, exit=True, file=2)
    else:
        faulthandler.cancel_dump_traceback_later()


async def _alone(awaitable: Awaitable[Any]) -> Any:
    """A coroutine that cannot end the loop of all the others."""
    try:
        return await awaitable
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def _loop() -> asyncio.AbstractEventLoop:
    with _LOCK:
        if not _LOOPS:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, name="async calls", daemon=True)
            _LOOPS.append((loop, thread))
            thread.start()
        return _LOOPS[0][0]


def _forget_if_stuck() -> None:
    """A coroutine that computes instead of waiting holds up all others: the next call gets a new loop."""
    answered = threading.Event()
    with _LOCK:
        for loop, thread in _LOOPS:
            loop.call_soon_threadsafe(answered.set)
            if not answered.wait(1.0):
                _LOOPS.clear()
                _end(thread)


def _end(thread: threading.Thread) -> None:
    """Raise ``SystemExit`` in a thread, at its next step of Python."""
    if thread.ident is None:
        return
    _raise_in(thread.ident, SystemExit)
    thread.join(0.05)
    if thread.is_alive():  # in C. Until it comes back CPython 3.11 takes all threads for interrupted: traced ones hang
        with suppress(_Seen):
            _raise_in(threading.get_ident(), _Seen)
            while True:  # the exception is raised here, and with it the interpreter's mark is gone
                pass


def _raise_in(thread: int, error: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))
