"""Files of OTLP JSON: their spans and log records, with attributes as plain values, under our names for their keys."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.strict_json import MAX_DEPTH
from evolvent.traces import openinference
from evolvent.traces.events import (
    MAX_DOCUMENT,
    USAGE,
    Repairs,
    clean,
    first,
    json_lines,
    listing,
    mapping,
    mappings,
    parse,
    read_bytes,
    word,
)

KEYS = {
    "operation": ("gen_ai.operation.name",),
    "conversation": ("gen_ai.conversation.id", "session.id"),
    "agent": ("gen_ai.agent.name", "agent.name", "gen_ai.agent.id"),
    "version": ("gen_ai.agent.version",),
    "model": ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name"),
    "input": ("gen_ai.input.messages", "gen_ai.prompt"),
    "output": ("gen_ai.output.messages", "gen_ai.completion"),
    "system": ("gen_ai.system_instructions",),
    "tool": ("gen_ai.tool.name", "tool.name"),
    "call": ("gen_ai.tool.call.id", "tool_call.id"),
    "arguments": ("gen_ai.tool.call.arguments", "gen_ai.memory.query.text", "input.value", "tool.parameters"),
    "result": ("gen_ai.tool.call.result", "gen_ai.memory.records", "output.value"),
    "finish": ("gen_ai.response.finish_reasons", "llm.finish_reason"),
    "response": ("gen_ai.response.id",),
    "previous": ("gen_ai.request.previous_response.id", "gen_ai.previous_response.id"),
    "error": ("error.type",),
    "score_name": ("gen_ai.evaluation.name",),
    "score": ("gen_ai.evaluation.score.value",),
}
_DETAILS = ("gen_ai.content.prompt", "gen_ai.content.completion", "gen_ai.client.inference.operation.details")
_DECISIONS = ("chat", "generate_content", "text_completion", "fetch_response")
_TOOLS = ("execute_tool", "retrieval", "search_memory", "create_memory", "update_memory", "upsert_memory")
_TOOLS += ("delete_memory", "create_memory_store", "delete_memory_store")
READ = [*(key for names in KEYS.values() for key in names), *USAGE]


@dataclass(eq=False)
class Span:
    """A span, or a log record (without a parent), with its attributes as plain values."""

    trace: str
    id: str
    parent: str
    name: str
    start: int
    place: str
    attributes: dict[str, Any]
    events: list[tuple[str, int, dict[str, Any]]]
    failed: bool = False
    scores: dict[str, float] = field(default_factory=dict[str, float])
    dropped: bool = False
    depth: int = -1
    """How many spans it is inside of; -1 = not known yet."""
    above: Span | None = None
    agent: Span | None = None
    """The nearest agent that it is inside of; likewise the nearest model call and tool."""
    decision: Span | None = None
    tool: Span | None = None
    conversation: str = ""
    """That it or a span above it names."""

    def get(self, name: str) -> Any:
        """The attribute that we call ``name``, whatever its generation calls it."""
        return next((v for key in KEYS[name] if (v := self.attributes.get(key)) is not None), None)

    def text(self, name: str) -> str:
        """The same as text."""
        return word(self.attributes, *KEYS[name])

    @property
    def operation(self) -> str:
        """What it is, in the words of ``gen_ai``."""
        return self.text("operation") or openinference.operation(self.attributes)

    @property
    def kind(self) -> str:
        """What it is an event of; "" = of none."""
        return "decision" if self.operation in _DECISIONS else "tool" if self.operation in _TOOLS else ""

    def place_in(self, above: Span | None) -> None:
        """It stands inside of ``above``, which has its place already; nowhere, if that is ``None``."""
        self.depth, self.above, self.conversation = 0, above, self.text("conversation")
        if above is None:
            return
        self.depth, self.conversation = above.depth + 1, self.conversation or above.conversation
        self.agent = above if above.operation == "invoke_agent" else above.agent
        self.decision = above if above.kind == "decision" else above.decision
        self.tool = above if above.operation == "execute_tool" else above.tool


def values_of(path: Path, repairs: Repairs) -> Iterator[tuple[str, Any]]:
    """The objects of a file: one a line, or the whole file is one.

    Raises:
        BadInput: no such file, one that is too large to be one object, or the SDK's dump for a console.
    """
    bounds = {"longest": MAX_DOCUMENT, "deepest": 4 * MAX_DEPTH}  # texts are JSON, and a level of it is four
    head = b""
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(1 << 16)
    if re.search(rb'"(trace_id|span_id)": "0x', head):
        do = "write OTLP JSON: opentelemetry-exporter-otlp-json-file, or a collector's file exporter"
        raise BadInput("the SDK's dump for a console is no OTLP", got=str(path), where=str(path), do=do)
    begin, more, _ = head.strip().partition(b"\n")
    if (more and begin.strip() in (b"{", b"[")) or begin.strip().endswith((b"[", b",")):
        found = iter([(path.name, b"", parse(read_bytes(path), path.name, repairs, **bounds))])
    else:
        found = json_lines(path, repairs, **bounds)
    yield from ((where, one) for where, _, value in found for one in (value if isinstance(value, list) else [value]))


def records(value: Any, where: str, repairs: Repairs) -> Iterator[tuple[Span, str]]:
    """The spans and log records of one object, each with its kind."""
    for outer, inner, kind in (("resourceSpans", "scopeSpans", "spans"), ("resourceLogs", "scopeLogs", "logRecords")):
        for resource in mappings(mapping(value).get(outer)):
            try:
                shared = _attributes(mapping(resource.get("resource")).get("attributes"), where, repairs)
                for one in (one for scope in mappings(resource.get(inner)) for one in mappings(scope.get(kind))):
                    yield _record(one, where, shared, repairs), kind
            except BadInput as error:
                repairs.add(f"{kind} left out: {error.what}", where)


def _record(one: dict[str, Any], where: str, resource: dict[str, Any], repairs: Repairs) -> Span:
    events = [
        (word(e, "name"), _int(e.get("timeUnixNano")), _attributes(e.get("attributes"), where, repairs))
        for e in mappings(one.get("events"))
    ]
    attributes = _attributes(one.get("attributes"), where, repairs)
    for name, _, values in events:
        if name in _DETAILS:
            attributes = {**values, **attributes}
    attributes |= {
        key: found for key, found in (("body", mapping(_plain(one.get("body")))), ("resource", resource)) if found
    }
    return Span(
        trace=_id(one.get("traceId")),
        id=_id(one.get("spanId")),
        parent=_id(one.get("parentSpanId")),
        name=word(one, "eventName") or word(attributes, "event.name") or word(one, "name"),
        start=_int(first(one, "startTimeUnixNano", "timeUnixNano", "observedTimeUnixNano")),
        place=where,
        attributes=attributes,
        events=events,
        failed=mapping(one.get("status")).get("code") in (2, "STATUS_CODE_ERROR"),
    )


def _attributes(values: Any, where: str, repairs: Repairs) -> dict[str, Any]:
    """Attributes as plain values; texts that are JSON keep their length, it is bounded when they are read."""
    found: dict[str, Any] = {}
    for one in mappings(values):
        value = _plain(one.get("value"))
        is_json = isinstance(value, str) and value[:1] in ("[", "{")
        found[word(one, "key")] = value if is_json else clean(value, where, repairs)
    return found


def _plain(value: Any) -> Any:
    """A value of OTLP as JSON has it."""
    for kind, inner in mapping(value).items():
        if kind == "intValue":
            return _int(inner)
        if kind == "doubleValue":
            return _double(inner)
        if kind == "arrayValue":
            return [_plain(one) for one in listing(mapping(inner).get("values"))]
        if kind == "kvlistValue":
            return {word(one, "key"): _plain(one.get("value")) for one in mappings(mapping(inner).get("values"))}
        return inner
    return None


def _double(value: Any) -> float | None:
    """A number; protobuf's JSON writes those that are not finite as text."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _int(value: Any) -> int:
    text = str(value)
    return int(text) if re.fullmatch(r"-?\d{1,20}", text) else 0


def _id(value: Any) -> str:
    """An id in hex; protobuf's own JSON has it in base64."""
    text = str(value or "")
    if re.fullmatch(r"([0-9a-fA-F]{16}){1,2}", text):
        return text.lower()
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text
    return data.hex() if len(data) in (8, 16) else text
