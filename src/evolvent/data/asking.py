"""How calls are asked for, the same by every environment: as text, as messages with tools, and where an answer ends."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from evolvent.core.conversation import Conversation
from evolvent.data.calls import written
from evolvent.data.schemas import LEGAL, tool_of, wrapped
from evolvent.formulas.call_match import Call
from evolvent.formulas.call_text import calls_of
from evolvent.traces.events import Repairs

EXAMPLE = '[{"name": "wind_clock", "arguments": {"room": "hall", "turns": 3}}]'
"""A call of what nobody has as a tool: small models copy it."""
FORM = (
    "Answer a request with the calls of tools that it needs, as a JSON list on one line and nothing else. Give values "
    "as the request has them, and optional parameters only where it says something of them. "
)
SHOWN = f"""With nothing but a tool wind_clock:
Request: Wind the clock in the hall, three turns.
Calls: {EXAMPLE}
Request: What is the time in Rome?
Calls: []

"""
INSTRUCTIONS = f"{FORM}If no tool does what is asked, or a required value is not said, answer [].\n\n{SHOWN}"
LABELS: tuple[str, str] = ("Tools and request", "Calls")
_NEXT = ("{", "[", "Request", "Assistant", "Tool", "Result", "Calls")
STOP: tuple[str, ...] = (
    "\n\n",
    "}]\n",
    "\nAssistant:",
    "\nRequest",
    "\nResult:",
    f"{LABELS[0]}:",
    *(f"] {word}" for word in _NEXT),
)
"""What ends an answer: a base model goes on behind its list, with the next tool or with what could be said next. Some
take brackets with them, which ``formulas.call_text`` puts back."""


def prompt(tools: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]) -> str:
    """The tools, one a line, what was said before, and the request: what changes least stands first."""
    return "\n".join([*(json.dumps(tool, ensure_ascii=False) for tool in tools), *map(_said, messages)])


def chat(tools: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]) -> Conversation | None:
    """The same for models that read messages and tools, under names that endpoints take: ``legal``.

    ``None`` where the assistant has said something last, which no endpoint answers.
    """
    if messages[-1]["role"] == "assistant":
        return None
    names = legal(tools)
    offered = [tool_of({**tool, "name": names[tool["name"]]}, str(tool["name"]), Repairs()) for tool in tools]
    said = [
        {**one, "tool_calls": [_renamed(c, names) for c in one["tool_calls"]]} if one.get("tool_calls") else one
        for one in messages
    ]
    return Conversation(tuple(said), tuple(wrapped(tool) for tool in offered if tool))


def legal(tools: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Of each tool the name that endpoints take, its own where they do: letters, digits, ``_`` and ``-``."""
    names = [str(tool["name"]) for tool in tools]
    made = {name: name for name in names if LEGAL.fullmatch(name)}
    for name in names:
        if name not in made:
            plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:60]
            made[name] = plain if plain not in made.values() else f"{plain}_{len(made)}"
    return made


def own(calls: Sequence[Call], tools: Sequence[Mapping[str, Any]]) -> list[Call]:
    """Calls with the tools' own names where they have those of ``legal``."""
    names = {new: name for name, new in legal(tools).items()}
    return [{**call, "name": names.get(call["name"], call["name"])} for call in calls]


def calls_in(message: Mapping[str, Any]) -> list[Call]:
    """The calls in a message of an assistant."""
    return [*calls_of(message.get("tool_calls") or [])]


def _renamed(call: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "name": names.get(function["name"], function["name"])}}


def _said(message: Mapping[str, Any]) -> str:
    role = {"user": "Request", "tool": "Result", "system": "Rules"}.get(message["role"], "Assistant")
    calls = calls_in(message)
    text = " ".join(filter(None, (message.get("content") or "", written(calls) if calls else "")))
    return f"{role}: {text}"
