"""Spans of OpenInference, whose messages are flat attributes, as messages that ``traces.otel`` reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_OPERATIONS = {"LLM": "chat", "AGENT": "invoke_agent", "TOOL": "execute_tool", "RETRIEVER": "retrieval"}
_MESSAGE = re.compile(r"llm\.(input|output)_messages\.(\d+)\.message\.(.+)")
_PART = re.compile(r"contents\.(\d+)\.message_content\.(type|text|image\.image\.url)")
_CALL = re.compile(r"tool_calls\.(\d+)\.tool_call\.(id|function\.name|function\.arguments)")
_VALUES = ("input.value", "output.value", "input.mime_type", "output.mime_type", "openinference.span.kind")


def operation(attributes: Mapping[str, Any]) -> str:
    """What a span is, in the words of ``gen_ai``; "" = none of them."""
    return _OPERATIONS.get(str(attributes.get("openinference.span.kind", "")).upper(), "")


def known(attributes: Mapping[str, Any]) -> list[str]:
    """The keys that ``messages`` reads."""
    return [key for key in attributes if _MESSAGE.match(key) or key in _VALUES]


def messages(attributes: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Messages that entered and that came out; of a span with texts only, these."""
    found: dict[str, dict[int, dict[str, Any]]] = {"input": {}, "output": {}}
    for key, value in attributes.items():
        if match := _MESSAGE.match(key):
            message = found[match[1]].setdefault(int(match[2]), {"calls": {}, "contents": {}})
            if call := _CALL.match(match[3]):
                message["calls"].setdefault(int(call[1]), {})[call[2].rpartition(".")[2]] = value
            elif part := _PART.match(match[3]):
                message["contents"].setdefault(int(part[1]), {})[part[2].partition(".")[0]] = value
            else:
                message[match[3]] = value
    if not found["input"] and not found["output"]:
        asked, said = attributes.get("input.value"), attributes.get("output.value")
        return [asked] if asked else [], [said] if said else []
    return _in_order(found["input"]), _in_order(found["output"])


def _in_order(by_place: Mapping[int, Mapping[str, Any]]) -> list[Any]:
    made: list[Any] = []
    for _, message in sorted(by_place.items()):
        calls = [{"id": c.get("id"), "function": c} for _, c in sorted(message["calls"].items())]
        parts = [{**p, "image_url": p["image"]} if "image" in p else p for _, p in sorted(message["contents"].items())]
        content = parts if parts else message.get("content")
        rest = {key: message[key] for key in ("role", "tool_call_id", "name") if key in message}
        made.append({**rest, "content": content, **({"tool_calls": calls} if calls else {})})
    return made
