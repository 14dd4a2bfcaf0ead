"""Calls of functions as a log holds them.

A call is ``{"name": str, "arguments": dict}``. Logs are JSON lines: conversations in the dialects of
``evolvent.traces.chat`` (OpenAI's ``tool_calls``, items of Responses, Anthropic's blocks), or xLAM's rows ``query``,
``tools``, ``answers``. Every turn of the assistant that calls, or that answers the user without a call, is a decision.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from evolvent.core.errors import BadInput
from evolvent.formulas.call_match import Call
from evolvent.formulas.call_text import calls_of
from evolvent.traces import chat
from evolvent.traces.events import Event, Repairs, json_lines, mapping

Message: TypeAlias = "dict[str, Any]"
_FAILED = re.compile(r"\s*(?:error|exception|traceback|failed)\b", re.I)
_RIGHT = ("true", "success", "succeeded", "right", "correct", "ok", "pass", "passed", "resolved", "good", "1", "1.0")
_WRONG = ("false", "failure", "failed", "fail", "wrong", "incorrect", "error", "bad", "0", "0.0")


@dataclass(frozen=True)
class Decision:
    """What an assistant decided: ``calls``, or none; ``context`` is what it saw, in the dialect of Chat.

    ``results`` are the texts that came back, a call each, ``None`` where the log has none; ``failed`` says of which
    the log, or their text, says that they are errors. ``said`` is the text beside the calls.
    """

    context: tuple[Message, ...]
    calls: tuple[Call, ...]
    said: str = ""
    results: tuple[str | None, ...] = ()
    failed: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Conversation:
    """One line of a log: ``outcome`` is what it says of itself, ``None`` where it says nothing.

    ``tools`` is its own list, as it stands there; ``None`` = the one of the file. ``key`` holds the answers of a
    format that is an answer key (xLAM's).
    """

    id: str
    where: str
    decisions: tuple[Decision, ...]
    tools: Any = None
    outcome: bool | None = None
    key: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])


# ------------------------------------------------------------------------------------------------------- values
def written(calls: Sequence[Call]) -> str:
    """Calls as an answer: a JSON list on one line."""
    return json.dumps([{"name": one["name"], "arguments": one["arguments"]} for one in calls], ensure_ascii=False)


# ---------------------------------------------------------------------------------------------------------- logs
def read_log(path: Path, repairs: Repairs) -> Iterator[Conversation]:
    """The conversations of a file, a line each; lines that cannot be read are counted, with the place of the first.

    Raises:
        BadInput: no such file, or an ``outcome`` that means nothing.
    """
    for where, line, record in json_lines(path, repairs):
        fields = mapping(record)
        if "answers" in fields and "query" in fields:
            found = _of_xlam(fields, where)
        elif fields.get("messages") or fields.get("items"):
            events = chat.attempt(where, line, where, fields, repairs.part()).events
            found = conversation(events, fields, where, repairs)
        else:
            repairs.add("lines without messages, or query and answers, left out", where)
            continue
        if found is None or not found.decisions:
            repairs.add("lines without a decision that can be read, left out", where)
        else:
            yield found


def conversation(events: Sequence[Event], fields: Mapping[str, Any], where: str, repairs: Repairs) -> Conversation:
    """One conversation of events; decisions with a call that cannot be read are counted in ``repairs``.

    Raises:
        BadInput: an ``outcome`` that means nothing.
    """
    messages: list[Message] = []
    decisions: list[Decision] = []
    for place, event in enumerate(events):
        if event.kind == "message":
            messages.append({"role": event.role, "content": event.text})
        elif event.kind == "tool":
            about = event.calls[0] if event.calls else None
            messages.append({"role": "tool", "tool_call_id": about.id if about else "", "content": event.text})
        elif event.kind == "decision":
            calls = [_asked(call.name, call.arguments) for call in event.calls]
            ids = [call.id or f"call_{place}_{n}" for n, call in enumerate(event.calls)]
            context, before = tuple(messages), messages[-1]["role"] if messages else ""
            messages.append(assistant(event.text, [one for one in calls if one], ids))
            if None in calls:  # half a call is no example
                repairs.add("decisions left out: the arguments of a call cannot be read", where)
                continue
            if not messages[:-1] or (not calls and before != "user"):
                continue  # what is said of a result decides about no call
            results = _results(events[place + 1 :], ids)
            texts = tuple(one and one.text for one in results)
            failed = tuple(one is not None and is_error(one) for one in results)
            decisions.append(Decision(context, tuple(filter(None, calls)), event.text, texts, failed))
    told = outcome_of(fields.get("outcome"), where)
    name = str(fields.get("id") or fields.get("conversation_id") or where)
    return Conversation(name, where, tuple(decisions), fields.get("tools"), told, False, fields)


def assistant(text: str, calls: Sequence[Call], ids: Sequence[str] = ()) -> Message:
    """What an assistant said and called, in the dialect of Chat."""
    if not calls:
        return {"role": "assistant", "content": text}
    made = [
        {
            "id": ids[n] if n < len(ids) else f"call_{n}",
            "type": "function",
            "function": {"name": one["name"], "arguments": json.dumps(one["arguments"], ensure_ascii=False)},
        }
        for n, one in enumerate(calls)
    ]
    return {"role": "assistant", "content": text, "tool_calls": made}


def outcome_of(told: Any, where: str) -> bool | None:
    """What the field ``outcome`` says: right, wrong, or nothing.

    Raises:
        BadInput: something else.
    """
    if isinstance(told, Mapping):
        told = next((told[key] for key in ("success", "outcome", "reward") if key in told), None)
    if told is None or told == "":
        return None
    word = str(told).strip().lower()
    if word not in _RIGHT + _WRONG:
        expected = 'true or false, 1 or 0, "success" or "failure", or nothing'
        raise BadInput("an outcome that says neither right nor wrong", got=told, expected=expected, where=where)
    return word in _RIGHT


def is_error(result: Event) -> bool:
    """Whether the result of a tool is an error: the log says so, or its text does.

    A text does where it begins with "error", "exception", "traceback" or "failed", or is JSON with ``error``,
    ``success: false`` or ``status: "error"``.
    """
    if result.error:
        return True
    try:
        value = mapping(json.loads(result.text))
    except ValueError:
        return _FAILED.match(result.text) is not None
    said = value.get("error") or value.get("errors")
    return bool(said) or value.get("success") is False or str(value.get("status")).lower() in ("error", "failed")


# -------------------------------------------------------------------------------------------------------- inside
def _asked(name: str, arguments: Any) -> Call | None:
    try:
        return calls_of({"name": name, "arguments": arguments})[0]
    except ValueError:
        return None


def _results(events: Sequence[Event], ids: Sequence[str]) -> list[Event | None]:
    """What came back of the calls of a decision: by their ids, or else in order."""
    end = next((i for i, event in enumerate(events) if event.kind == "decision"), len(events))
    came = [event for event in events[:end] if event.kind == "tool"]
    by_id = {event.calls[0].id: event for event in came if event.calls and event.calls[0].id}
    in_order = [event for event in came if not (event.calls and event.calls[0].id)]
    return [by_id.get(id) or (in_order.pop(0) if in_order else None) for id in ids]


def _of_xlam(fields: Mapping[str, Any], where: str) -> Conversation | None:
    answers = fields["answers"]
    try:
        calls = calls_of(json.loads(answers) if isinstance(answers, str) else answers)
    except ValueError:
        return None
    context = ({"role": "user", "content": str(fields["query"])},)
    told, name = outcome_of(fields.get("outcome"), where), str(fields.get("id", where))
    return Conversation(name, where, (Decision(context, tuple(calls)),), fields.get("tools"), told, True, fields)
