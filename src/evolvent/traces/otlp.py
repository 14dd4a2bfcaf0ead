"""Files of OTLP JSON: their spans and log records, with attributes as plain values, under our names for their keys."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.traces import openinference
from evolvent.traces.events import (
    MAX_DOCUMENT,
    Repairs,
    clean,
    compact,
    json_lines,
    listing,
    mapping,
    parse,
    read_bytes,
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
USAGE = {
    "prompt": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "completion": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    "cached": ("gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read"),
    "cost_usd": ("llm.cost.total",),
}
READ = [key for names in (*KEYS.values(), *USAGE.values()) for key in names]


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
    up: list[Span] = field(default_factory=list["Span"])
    """Its ancestors, the nearest first."""
    scores: dict[str, float] = field(default_factory=dict[str, float])
    dropped: bool = False

    def get(self, name: str) -> Any:
        """The attribute that we call ``name``, whatever its generation calls it."""
        return next((v for key in KEYS[name] if (v := self.attributes.get(key)) is not None), None)

    def text(self, name: str) -> str:
        """The same as text."""
        value = self.get(name)
        return "" if value is None else value if isinstance(value, str) else compact(value)

    @property
    def operation(self) -> str:
        """What it is, in the words of ``gen_ai``."""
        return self.text("operation") or openinference.operation(self.attributes)

    @property
    def agent(self) -> Span | None:
        """The nearest agent that it belongs to."""
        return next((one for one in self.up if one.operation == "invoke_agent"), None)


def values_of(path: Path, repairs: Repairs) -> Iterator[tuple[str, Any]]:
    """The objects of a file: one a line, or the whole file is one."""
    with path.open("rb") if path.is_file() else _missing(path) as file:
        head = file.read(1 << 16)
    if re.search(rb'"(trace_id|span_id)": "0x', head):
        do = "write OTLP JSON: opentelemetry-exporter-otlp-json-file, or a collector's file exporter"
        raise BadInput("the SDK's dump for a console is no OTLP", got=str(path), where=str(path), do=do)
    first = head.lstrip().partition(b"\n")[0].strip()
    if (b"\n" in head.strip() and first in (b"{", b"[")) or first.endswith((b"[", b",")):
        value = parse(read_bytes(path), path.name, repairs, longest=MAX_DOCUMENT)
        yield from ((path.name, one) for one in (value if isinstance(value, list) else [value]))
        return
    for where, _, value in json_lines(path, repairs, longest=MAX_DOCUMENT):
        yield where, value


def _missing(path: Path) -> Any:
    raise BadInput("cannot be read", got=str(path), expected="a file", where=str(path))


def records(value: Mapping[str, Any], where: str, repairs: Repairs) -> Iterator[tuple[Span, str]]:
    """The spans and log records of one object, each with its kind."""
    for outer, inner, kind in (("resourceSpans", "scopeSpans", "spans"), ("resourceLogs", "scopeLogs", "logRecords")):
        for resource in map(mapping, listing(value.get(outer))):
            shared = _attributes(mapping(resource.get("resource")).get("attributes"), where, repairs)
            for scope in map(mapping, listing(resource.get(inner))):
                for one in map(mapping, listing(scope.get(kind))):
                    yield _record(one, where, shared, repairs), kind


def _record(one: dict[str, Any], where: str, resource: dict[str, Any], repairs: Repairs) -> Span:
    events = [
        (str(e.get("name")), _int(e.get("timeUnixNano")), _attributes(e.get("attributes"), where, repairs))
        for e in map(mapping, listing(one.get("events")))
    ]
    attributes = _attributes(one.get("attributes"), where, repairs)
    for name, _, values in events:
        if name in ("gen_ai.content.prompt", "gen_ai.content.completion", "gen_ai.client.inference.operation.details"):
            attributes = {**values, **attributes}
    if body := mapping(_plain(one.get("body"))):
        attributes |= {"body": body}
    return Span(
        trace=_id(one.get("traceId")),
        id=_id(one.get("spanId")),
        parent=_id(one.get("parentSpanId")),
        name=str(one.get("eventName") or attributes.get("event.name") or one.get("name") or ""),
        start=_int(one.get("startTimeUnixNano") or one.get("timeUnixNano") or one.get("observedTimeUnixNano")),
        place=where,
        attributes=attributes | ({"resource": resource} if resource else {}),
        events=events,
        failed=mapping(one.get("status")).get("code") in (2, "STATUS_CODE_ERROR"),
    )


def _attributes(values: Any, where: str, repairs: Repairs) -> dict[str, Any]:
    """Attributes as plain values; texts that are JSON keep their length, it is bounded when they are read."""
    found: dict[str, Any] = {}
    for one in map(mapping, listing(values)):
        value = _plain(one.get("value"))
        is_json = isinstance(value, str) and value[:1] in ("[", "{")
        found[str(one.get("key"))] = value if is_json else clean(value, where, repairs)
    return found


def _plain(value: Any) -> Any:
    """A value of OTLP as JSON has it."""
    for kind, inner in mapping(value).items():
        if kind == "intValue":
            return _int(inner)
        if kind == "doubleValue":
            return float(inner) if isinstance(inner, (int, float, str)) else None
        if kind == "arrayValue":
            return [_plain(one) for one in listing(mapping(inner).get("values"))]
        if kind == "kvlistValue":
            return {
                str(one.get("key")): _plain(one.get("value"))
                for one in map(mapping, listing(mapping(inner).get("values")))
            }
        return inner
    return None


def _int(value: Any) -> int:
    text = str(value)
    return int(text) if re.fullmatch(r"-?\d{1,19}", text) else 0


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
