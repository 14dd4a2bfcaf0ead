"""What a reader of traces translates into: attempts as neutral lists of events. ``traces.build`` decides about them.

All text is data: bounded, made valid Unicode, never run, no file or address in it is opened.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from evolvent.core.errors import BadInput
from evolvent.core.strict_json import MAX_DEPTH

MAX_DOCUMENT = 64 << 20
"""Bytes of a document, or of a line where a file holds one attempt a line."""
MAX_TEXT = 1 << 20
"""Characters of a text; a longer one is cut in the middle."""
MAX_NODES = 100_000
MAX_ATTEMPTS = 10_000
_TO_LENGTH = ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded")
_TO_STOP = ("stop", "end_turn", "stop_sequence", "tool_calls", "tool_call", "tool_use")
USAGE = {
    "prompt_tokens": "prompt",
    "input_tokens": "prompt",
    "total_prompt_tokens": "prompt",
    "gen_ai.usage.input_tokens": "prompt",
    "gen_ai.usage.prompt_tokens": "prompt",
    "llm.token_count.prompt": "prompt",
    "completion_tokens": "completion",
    "output_tokens": "completion",
    "total_completion_tokens": "completion",
    "gen_ai.usage.output_tokens": "completion",
    "gen_ai.usage.completion_tokens": "completion",
    "llm.token_count.completion": "completion",
    "cached_tokens": "cached",
    "cached_input_tokens": "cached",
    "cache_read_input_tokens": "cached",
    "input_tokens_cache_read": "cached",
    "total_cached_tokens": "cached",
    "gen_ai.usage.cache_read.input_tokens": "cached",
    "llm.token_count.prompt_details.cache_read": "cached",
    "cost_usd": "cost_usd",
    "cost": "cost_usd",
    "total_cost": "cost_usd",
    "total_cost_usd": "cost_usd",
    "llm.cost.total": "cost_usd",
}
"""What the formats call the numbers of a call, and what we do."""


class Call(NamedTuple):
    """A call of a tool as the model wrote it: ``arguments`` is an object, or text that may be one."""

    id: str = ""
    name: str = ""
    arguments: Any = None


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened, with values as the format has them.

    Attributes:
        kind: message (entered the context), decision (a model call), tool (what a tool gave), component (a part that
            ran without a model).
        agent: who saw, decided or called.
        context: key of the conversation that it belongs to.
        text: what was said, came back or entered.
        calls: of a decision: its calls; of a tool: the call that it answers, by its id, or by its name and arguments.
        inputs: of a decision: the whole context, where the format repeats it; ``None``: what stands before it.
        delta: ``inputs`` holds only what is new.
        cut: ``inputs`` lost its end: of no use where the conversation is known.
        base: in a format that is a tree: the place from which ``inputs`` and ``prompt_ids`` go on, "" = its root.
        place: of a decision in such a tree: its context, and it.
        fresh: the context begins anew here.
        origin: where it stands in the document: a step, a message, a span.
        same_as: decisions with one name here are one call, reported several times; the last report counts.
        caller: id of the tool call that started this conversation.
        usage: numbers by the format's own names.
        reasoning: what the model thought, kept beside what it said.
    """

    kind: str
    agent: str = "agent"
    context: str = ""
    role: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()
    inputs: tuple[Event, ...] | None = None
    delta: bool = False
    cut: bool = False
    base: str | None = None
    place: tuple[str, str] = ("", "")
    fresh: bool = False
    token_ids: Any = ()
    prompt_ids: Any = None
    logp: Any = ()
    reward: Any = None
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    finish: Any = ""
    error: str = ""
    usage: Any = None
    reasoning: str = ""
    origin: str = ""
    same_as: str = ""
    caller: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Repairs:
    """What had to be mended or left out, counted, with the place of the first; a part of it counts into the whole."""

    def __init__(self, *, strict: bool = False, whole: Repairs | None = None) -> None:
        self.strict, self.whole = strict, whole
        self.counts, self.first = Counter[str](), dict[str, str]()

    def part(self) -> Repairs:
        """For one attempt."""
        return Repairs(strict=self.strict, whole=self)

    def add(self, what: str, where: str, n: int = 1, *, fault: bool = True) -> None:
        """Count ``n`` more.

        Raises:
            BadInput: a fault, where repairs are not wanted.
        """
        if self.strict and fault:
            raise BadInput(what, expected="a trace without faults", where=where, do="without --strict it is repaired")
        self.counts[what] += n
        self.first.setdefault(what, where)
        if self.whole is not None:
            self.whole.add(what, where, n, fault=False)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt of another harness: ``events`` in the order of the document.

    Attributes:
        format: the reader's name.
        key: what names the attempt in its format; the same in a file that is imported again.
        name: what people call it; "" = by its key.
        sha256: of its content.
        where: file and line, for messages.
        policy: who decided: agent, version, model.
        scores: outcomes of the attempt as a whole, by name; ``None`` = not scored.
        reward, success: the outcome, where the format says which one it is.
        limit: why the harness cut it off; "" = it did not.
        valid: False = the harness failed.
        fields: the document, for ``--task-key``; ``extra``: what of it has no other place.
        original: the document as it was written, kept where credit can go back into it.
        total_usage: what the document says of the whole, to compare with.
    """

    format: str
    key: str
    sha256: str
    where: str
    events: tuple[Event, ...]
    repairs: Repairs
    name: str = ""
    task: str = ""
    env: str = ""
    policy: str = ""
    scores: Mapping[str, Any] = field(default_factory=dict[str, Any])
    reward: Any = None
    success: Any = None
    limit: str = ""
    valid: bool = True
    stop: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    original: bytes = b""
    total_usage: Any = None


# -------------------------------------------------------------------------------------------------------- files
def read_bytes(path: Path) -> bytes:
    """The content of a document.

    Raises:
        BadInput: there is none, or it is larger than a document may be.
    """
    try:
        if path.stat().st_size > MAX_DOCUMENT:
            raise _too_large(str(path), path.stat().st_size)
        return path.read_bytes()
    except OSError as error:
        raise _not_read(path, error) from error


def parse(data: bytes, where: str, repairs: Repairs, *, longest: int | None = None, deepest: int = MAX_DEPTH) -> Any:
    """JSON of a document, its texts valid Unicode and bounded (``longest``, ``deepest``: by other bounds).

    Raises:
        BadInput: no JSON, too large, or nested deeper than a record may be.
    """
    if len(data) > MAX_DOCUMENT:
        raise _too_large(where, len(data))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("utf-8-sig", "replace")
        repairs.add("bytes that are not UTF-8, replaced", where)
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise _too_deep(where) from error
    except ValueError as error:
        raise BadInput("not JSON", got=str(error), where=where, do="a file that was cut has lost its end") from error
    return clean(value, where, repairs, longest=longest, levels=deepest)


def json_lines(
    path: Path, repairs: Repairs, *, longest: int | None = None, deepest: int = MAX_DEPTH
) -> Iterator[tuple[str, bytes, Any]]:
    """Place, bytes and value of each line; one that cannot be read is left out and counted, as is a torn last one.

    Raises:
        BadInput: no such file, or a line larger than a document may be.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise _not_read(path, error) from error
    with file:
        number = 0
        while line := file.readline(MAX_DOCUMENT + 2):
            number += 1
            where, line = f"{path.name}:{number}", line.strip()
            if len(line) > MAX_DOCUMENT:
                raise _too_large(where, len(line))
            try:
                if line:
                    yield where, line, parse(line, where, repairs, longest=longest, deepest=deepest)
            except BadInput as error:
                repairs.add(f"lines left out: {error.what}", where)


def clean(value: Any, where: str, repairs: Repairs, *, longest: int | None = None, levels: int = MAX_DEPTH) -> Any:
    """JSON with texts that can be written: lone surrogates replaced, long ones cut in the middle.

    Raises:
        BadInput: nested deeper than ``levels``.
    """
    if isinstance(value, str):
        return _clean_text(value, where, repairs, MAX_TEXT if longest is None else longest)
    if not isinstance(value, (dict, list)):
        return value
    if levels <= 0:
        raise _too_deep(where)

    def inner(item: Any) -> Any:
        if type(item) in (int, float):
            return item
        return clean(item, where, repairs, longest=longest, levels=levels - 1)

    if isinstance(value, dict):
        return {inner(key): inner(item) for key, item in value.items()}
    return [inner(item) for item in value]


def _clean_text(text: str, where: str, repairs: Repairs, longest: int) -> str:
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            repairs.add("lone surrogates, replaced", where)
    if len(text) > longest:
        repairs.add("texts cut in the middle", where)
        half = longest // 2
        text = f"{text[:half]} [{len(text) - 2 * half:,} characters left out] {text[-half:]}"
    return text


def _not_read(path: Path, error: OSError) -> BadInput:
    return BadInput("cannot be read", got=error.strerror, expected="a file", where=str(path))


def _too_large(where: str, size: int) -> BadInput:
    expected = f"at most {MAX_DOCUMENT:,}"
    return BadInput("the document is too large", got=f"{size:,} bytes", expected=expected, where=where)


def _too_deep(where: str) -> BadInput:
    return BadInput("nested too deep", expected=f"at most {MAX_DEPTH} levels", where=where)


# ------------------------------------------------------------------------------------------------------- values
def digest(*parts: str | bytes) -> str:
    """SHA-256 of the parts, in hex."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "replace") if isinstance(part, str) else part
        found.update(b"%d:" % len(data) + data)
    return found.hexdigest()


def compact(value: Any) -> str:
    """JSON with sorted keys, on one line."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def number(value: Any) -> float | None:
    """A finite number, a truth value as 0 or 1; ``None`` for anything else."""
    try:
        return float(value) if isinstance(value, (bool, int, float)) and math.isfinite(value) else None
    except OverflowError:  # an integer of hundreds of digits
        return None


def usage_of(record: Any) -> dict[str, float]:
    """Numbers of a call by our names; what is not known is left out, never 0."""
    found: dict[str, float] = {}
    for theirs, ours in USAGE.items():
        value = number(mapping(record).get(theirs))
        if value is not None and value >= 0:
            found.setdefault(ours, value)
    return found


def finish_of(told: Any) -> str:
    """How a completion ended, in our words."""
    return "length" if told in _TO_LENGTH else "stop" if told in _TO_STOP else ""


def mapping(value: Any) -> dict[str, Any]:
    """A JSON object, or an empty one."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """A JSON list, or an empty one."""
    return value if isinstance(value, list) else []


def mappings(value: Any) -> list[dict[str, Any]]:
    """The items of a JSON list as objects."""
    return [mapping(one) for one in listing(value)]


def first(record: Mapping[str, Any], *keys: str) -> Any:
    """The value of the first of the keys that is there and says something."""
    return next((value for key in keys if (value := record.get(key)) not in (None, "")), None)


def word(record: Mapping[str, Any], *keys: str) -> str:
    """The same as text; "" = none."""
    value = first(record, *keys)
    return "" if value is None else value if isinstance(value, str) else compact(value)


def rest(record: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """The fields of a record that no reader knows."""
    return {key: value for key, value in record.items() if key not in known and value not in (None, "", [], {})}
