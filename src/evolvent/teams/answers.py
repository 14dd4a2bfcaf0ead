"""What any member of a team is to who asks it: a text or named arguments in, a text and what it took out.

Every call has a time limit and may be cancelled. It is sent once: whether to ask again, its caller knows best. What
comes over a wire is data: a text of at most ``MOST`` characters, usage that is numbers, errors of one short line.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from evolvent.core.calls import spawn
from evolvent.core.errors import EvolventError, ModelError
from evolvent.core.nodes import USAGE
from evolvent.core.outside import line_of

KEY = "evolvent/usage"
"""Where usage stands on the wire: in ``_meta`` of an MCP result, in ``metadata`` of an A2A artifact."""
MOST = 1 << 18
"""Characters of an answer."""
WIRE = 8 * MOST
"""Bytes of a response."""
TIMEOUT_S = 60.0
KEPT_S = 2.0
"""Seconds that an idle HTTP connection is kept: less than servers do, or a call may meet one that is being closed."""


@dataclass(frozen=True)
class Answer:
    """What was said, and what it took where that is known: names of ``core.nodes.USAGE``; unknown is left out."""

    text: str
    usage: Mapping[str, float] | None = None


class Caller(Protocol):
    """A member that can be asked. It belongs to the event loop of its first call."""

    name: str

    async def call(self, asked: str | Mapping[str, Any]) -> Answer:
        """The answer to a text, or to named arguments.

        Raises:
            ModelError: it failed, gave no answer in time, or too long a one.
        """
        ...

    async def close(self) -> None:
        """Release what it holds."""
        ...


class Function:
    """A Python function, async or not, that returns a text or an ``Answer``; a text is its first argument.

    When the time is up a coroutine is cancelled, and the thread that any other function runs on is given up.
    """

    def __init__(self, function: Callable[..., Any], timeout_s: float = TIMEOUT_S) -> None:
        self.function, self.name, self._timeout_s = function, getattr(function, "__name__", "member"), timeout_s

    async def call(self, asked: str | Mapping[str, Any]) -> Answer:
        """What it returns."""
        given, named = ((asked,), {}) if isinstance(asked, str) else ((), dict(asked))
        async with limited(self.name, self._timeout_s):
            try:
                if inspect.iscoroutinefunction(self.function):
                    said = await self.function(*given, **named)
                else:
                    said = await asyncio.wrap_future(spawn(lambda: self.function(*given, **named)))
            except EvolventError as error:  # its own words, as those of any other error
                raise failed(self.name, str(error)) from error
        return bounded(said if isinstance(said, Answer) else Answer(str(said)), self.name)

    async def close(self) -> None:
        """Nothing to release."""


@asynccontextmanager
async def limited(name: str, timeout_s: float) -> AsyncGenerator[None]:
    """Whatever goes wrong inside, time included, is a ``ModelError`` that names the member."""
    try:
        async with asyncio.timeout(timeout_s) as limit:
            yield
    except EvolventError:
        raise
    except Exception as error:
        if isinstance(error, TimeoutError) and limit.expired():
            raise ModelError("a member gave no answer in time", got=f"none in {timeout_s:g} s", where=name) from None
        leaf: BaseException = error
        while isinstance(leaf, BaseExceptionGroup):
            leaf = leaf.exceptions[0]
        raise failed(name, f"{type(leaf).__name__}: {leaf}") from error


def failed(name: str, said: str) -> ModelError:
    """The error of a member that failed, with what it said of it."""
    return ModelError("a member failed", got=" ".join(said.split())[:300] or "no reason given", where=name)


def log(error: EvolventError) -> None:
    """What a server's own side reads of an error, with its place."""
    cause = error.__cause__.__cause__ if error.__cause__ and error.__cause__.__cause__ else error.__cause__
    place = f"\n  at: {line_of(cause)}" if cause else ""
    logging.getLogger("evolvent.teams").warning("%s%s", error, place)


def bounded(answer: Answer, name: str) -> Answer:
    """The answer, if it is not too long."""
    if len(answer.text) <= MOST:
        return answer
    expected = f"at most {MOST:,} characters"
    raise ModelError("the answer of a member is too long", got=len(answer.text), expected=expected, where=name)


def usage_of(told: Any) -> dict[str, float] | None:
    """What another side told under ``KEY``: what is known and a number, counts as whole numbers; or nothing."""
    if not isinstance(told, Mapping):
        return None
    known = {name: told[name] for name in USAGE if isinstance(told.get(name), int | float)}
    known = {name: value for name, value in known.items() if math.isfinite(value) and value >= 0}
    return {name: value if name in ("seconds", "cost_usd") else int(value) for name, value in known.items()} or None


def read_limit(http: Any) -> Callable[[Any], Any]:
    """A hook of ``httpx``, or of ``httpx2``: no more than ``WIRE`` bytes of a response are read."""

    class Limited(http.AsyncByteStream):
        def __init__(self, stream: Any) -> None:
            self._stream, self._left = stream, WIRE

        async def __aiter__(self) -> AsyncGenerator[bytes]:
            async for chunk in self._stream:
                self._left -= len(chunk)
                if self._left < 0:
                    raise http.ReadError(f"a response of more than {WIRE:,} bytes")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def limit(response: Any) -> None:
        response.stream = Limited(response.stream)

    return limit
