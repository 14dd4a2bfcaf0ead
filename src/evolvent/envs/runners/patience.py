"""A limit of time for a call into an environment of somebody's: a step that never returns becomes an error."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from evolvent.core.errors import EnvError

_AGAIN_S = 1.0  # a second ring, should the first have been caught
_OURS = str(Path(__file__).parents[2])


class _TimeUp(BaseException):
    """Not an ``Exception``: what catches those in a loop would go on."""


@contextlib.contextmanager
def at_most(seconds: float, what: str, where: str) -> Iterator[None]:
    """Raise ``EnvError`` in the call inside when it has taken ``seconds``; it names the line that was reached.

    An alarm interrupts Python and what waits in the system (a lock, a socket, a worker's pipe). It cannot interrupt
    compiled code that never comes back to Python; there are none on Windows and outside the main thread; and where
    somebody else's alarm is set already, that one is left alone. In these cases there is no limit.

    Args:
        seconds: 0 = no limit.
        what: is waited for, in words: "a step".
        where: named in the error.
    """
    main = threading.current_thread() is threading.main_thread()
    if not (seconds and main and hasattr(signal, "setitimer")) or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return
    rung: list[str] = []

    def ring(number: int, frame: FrameType | None) -> None:
        rung.append(_line(frame))
        raise _TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
    try:
        yield
    except _TimeUp:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    if rung:
        got = f"{seconds:g} s"
        do = "mend the loop that never ends; where all copies together need longer: --step-s"
        raise EnvError(f"{what} did not return", got=got, where=", ".join(filter(None, (where, rung[0]))), do=do)


def _line(frame: FrameType | None) -> str:
    """The innermost line that is not of this package: what the environment was doing."""
    while frame is not None and frame.f_code.co_filename.startswith((_OURS, "<")):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}, line {frame.f_lineno}, in {frame.f_code.co_name}"
