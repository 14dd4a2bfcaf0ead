"""What the calls of language models take, counted in the clients of OpenAI and Anthropic: no change to the workflow.

A call belongs to the run in whose context it is made (a context variable: asyncio, and threads that copy the context,
as those of LangChain do). One outside of any context belongs to the only run that is going on; where several are,
none of them knows its tokens. What is not counted is ``None``, never 0.
"""

from __future__ import annotations

import functools
import inspect
import json
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

from evolvent.core.errors import BadInput

T = TypeVar("T")
_PACKAGES = ("openai", "anthropic")
_ANSWERS = {"usage", "choices", "content", "output"}
"""Fields by which the answer of a model is known from a list of files."""


@dataclass(eq=False)
class Meter:
    """What was counted in one run: calls, and tokens of those that told them."""

    calls: int = 0
    untold: int = 0
    """Calls whose tokens nobody told, streams that were not read to their end among them."""
    tokens: float = 0
    prompt: float = 0
    cached: float = 0
    completion: float = 0
    split: bool = True
    """Whether all tokens are known as those of prompts and completions."""
    saved_s: float = 0.0
    """Seconds that answers took when they were made, of those that came from a cache."""
    stray: bool = False
    """Whether there was a call that may belong to this run or to another."""

    @property
    def known(self) -> float | None:
        """All tokens; ``None`` where they were not, or not all, counted."""
        return None if self.untold or self.stray or not (self.calls or _COUNTING.is_set()) else self.tokens


_METER: ContextVar[Meter | None] = ContextVar("meter", default=None)
_OPEN: list[Meter] = []
_LOCK = threading.Lock()
_COUNTING = threading.Event()


def spend(client: T | None = None) -> T | None:
    """Count the tokens of the clients of ``openai`` and ``anthropic``, in every run of ``evolvent.worth``.

    Streams are counted when they were read to their end; those of OpenAI's Chat Completions tell their tokens only with
    ``stream_options={"include_usage": True}``.

    Args:
        client: count all clients of its package; ``None``: of both, also those that a framework builds itself.

    Returns:
        The client.

    Raises:
        BadInput: neither package is installed, or the client is of another.
    """
    if client is None:
        bases = [import_module(f"{name}._base_client") for name in _PACKAGES if find_spec(name)]
        classes = [cls for base in bases for cls in (base.SyncAPIClient, base.AsyncAPIClient)]
    else:
        ours = [cls for cls in type(client).__mro__ if cls.__module__.partition(".")[0] in _PACKAGES]
        classes = [cls for cls in ours if "request" in vars(cls)]
    if not classes:
        raise BadInput(
            "nothing to count",
            got="neither package is installed" if client is None else type(client).__name__,
            expected="a client of the package openai or anthropic",
            where="evolvent.spend",
            do="evolvent.spend() counts those inside LangChain too; of others run may tell: evolvent.spent(tokens)",
        )
    for cls in classes:
        cls.request = _counted(cls.request)
    _COUNTING.set()
    return client


def spent(tokens: float | None, calls: int = 1, *, saved_s: float = 0.0) -> None:
    """Tell what a call took that no client counts: inside ``run`` of ``evolvent.worth``; elsewhere it does nothing.

    Args:
        tokens: of prompt and completion together, ``None`` = not known.
        calls: how many calls it were.
        saved_s: seconds to add to those of the run: an answer from a cache costs what it cost when it was made.

    Raises:
        BadInput: a number below 0.
    """
    told = (tokens, calls, saved_s)
    if calls < 0 or not saved_s >= 0 or not (tokens is None or tokens >= 0):
        raise BadInput("not what a call takes", got=told, expected="at least 0", where="evolvent.spent")
    for meter in _meters(calls):
        with _LOCK:
            meter.untold += tokens is None
            meter.tokens += tokens or 0
            meter.saved_s += saved_s
            meter.split = False


@contextmanager
def metered() -> Generator[Meter]:
    """Count what is called in this context."""
    meter = Meter()
    token = _METER.set(meter)
    with _LOCK:
        _OPEN.append(meter)
    try:
        yield meter
    finally:
        _METER.reset(token)
        with _LOCK:
            _OPEN.remove(meter)


def _meters(calls: int = 1) -> list[Meter]:
    """The run that a call belongs to, which it is added to; none where that is not known."""
    meter = _METER.get()
    with _LOCK:
        if meter is None and len(_OPEN) == 1:
            (meter,) = _OPEN
        if meter is None:
            for one in _OPEN:
                one.stray = True
            return []
        meter.calls += calls
        return [meter]


def _counted(request: Callable[..., Any]) -> Callable[..., Any]:
    """``request`` of a client, or of its class, that counts; once."""
    if getattr(request, "counted", False):
        return request

    @functools.wraps(request)
    def counted(*args: Any, **kwargs: Any) -> Any:
        return _watched(request(*args, **kwargs), streamed=bool(kwargs.get("stream")))

    @functools.wraps(request)
    async def counted_async(*args: Any, **kwargs: Any) -> Any:
        return _watched(await request(*args, **kwargs), streamed=bool(kwargs.get("stream")))

    made: Any = counted_async if inspect.iscoroutinefunction(request) else counted
    made.counted = True
    return made


def _watched(result: Any, *, streamed: bool) -> Any:
    """A result, whose tokens are added to the run that asked; of a stream when it has been read."""
    if streamed:
        raw = hasattr(result, "http_response")  # a raw response makes a stream of itself, and keeps it
        readable = not raw or not inspect.iscoroutinefunction(result.parse)
        stream: Any = result.parse() if raw and readable else result
        told = _telling(_meters())
        if (inner := getattr(stream, "_iterator", None)) is not None:
            stream._iterator = _read_async(inner, told) if hasattr(inner, "__anext__") else _read(inner, told)
    elif (found := _answer(result)) is not None:
        _telling(_meters())(_numbers(found.get("usage")))
    return result


def _telling(meters: list[Meter]) -> Callable[[Mapping[str, float]], None]:
    """Mark a call as untold; what is returned is called with its tokens."""
    for meter in meters:
        with _LOCK:
            meter.untold += 1

    def told(numbers: Mapping[str, float]) -> None:
        if not {"prompt", "completion"} <= numbers.keys():
            return
        for meter in meters:
            with _LOCK:
                meter.untold -= 1
                meter.tokens += numbers["prompt"] + numbers["completion"]
                meter.prompt += numbers["prompt"]
                meter.cached += numbers.get("cached", 0)
                meter.completion += numbers["completion"]

    return told


def _read(events: Iterator[Any], told: Callable[[Mapping[str, float]], None]) -> Iterator[Any]:
    numbers: dict[str, float] = {}
    for event in events:
        numbers |= _of_event(event)
        yield event
    told(numbers)


async def _read_async(events: AsyncIterator[Any], told: Callable[[Mapping[str, float]], None]) -> AsyncIterator[Any]:
    numbers: dict[str, float] = {}
    async for event in events:
        numbers |= _of_event(event)
        yield event
    told(numbers)


def _answer(result: Any) -> Mapping[str, Any] | None:
    """``{"usage": …}`` of a model's answer; ``None`` for any other result."""
    if not hasattr(result, "http_response"):
        return {"usage": result.usage} if hasattr(result, "usage") else None
    try:
        found = json.loads(result.http_response.content)
    except (ValueError, RuntimeError):  # no JSON, or not read yet
        return {}
    return found if isinstance(found, dict) and found.keys() & _ANSWERS else None


def _of_event(event: Any) -> dict[str, float]:
    """What an event of a stream tells: itself, or the message or response that it carries; the last number counts."""
    holders = (event, getattr(event, "message", None), getattr(event, "response", None))
    numbers: dict[str, float] = {}
    for holder in holders:
        numbers |= _numbers(getattr(holder, "usage", None))
    return numbers


def _numbers(usage: Any) -> dict[str, float]:
    """Tokens of a usage as any of the three interfaces gives it; those that it does not tell are left out."""
    if usage is None:
        return {}

    def get(name: str, of: Any = usage) -> Any:
        return of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)

    if (prompt := get("prompt_tokens")) is not None:  # Chat Completions, embeddings
        cached = get("cached_tokens", get("prompt_tokens_details")) or 0
        return {"prompt": prompt, "cached": cached, "completion": get("completion_tokens") or 0}
    numbers: dict[str, float] = {}
    if (prompt := get("input_tokens")) is not None:
        read = get("cache_read_input_tokens") or 0  # Messages: beside the others; Responses: among them
        cached = read or get("cached_tokens", get("input_tokens_details")) or 0
        numbers = {"prompt": prompt + read + (get("cache_creation_input_tokens") or 0), "cached": cached}
    if (completion := get("output_tokens")) is not None:
        numbers["completion"] = completion
    return numbers
