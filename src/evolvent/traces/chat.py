"""Conversations as JSON lines, one attempt a line, in three dialects: Chat, items of Responses, Anthropic messages.

``{"id", "task_id", "messages": [...], "reward", "success", "rewards", "tools", "metadata"}``; a message of the
assistant may carry ``reward``, ``token_ids``, ``logp`` and ``prompt_ids``. ``prompt`` + ``completion`` and ``input`` +
``output`` are read too: what is asked there is context.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evolvent.traces.events import Attempt, Event, Repairs, digest, json_lines, listing, mapping, number, rest, word
from evolvent.traces.messages import message_events

FORMAT = "openai"
_SAID = ("messages", "items", "completion", "output")
_LINE = ("id", "task_id", "prompt", "input", "instructions", "system", "reward", "success", "rewards", "model", "usage")


def read(path: Path, repairs: Repairs) -> Iterator[Attempt]:
    """The attempts of a file, a line each.

    Raises:
        BadInput: no such file, or a line larger than a document may be.
    """
    seen = Counter[str]()
    for where, line, record in json_lines(path, repairs):
        if any(listing(mapping(record).get(key)) for key in _SAID):
            key = word(record, "id")
            if not key:  # equal lines are as many attempts; of the file once more, the same ones
                seen[same := digest(line)] += 1
                key = same if seen[same] == 1 else digest(line, str(seen[same]))
            yield attempt(where, line, key, record, repairs.part())
        else:
            repairs.add("lines without messages left out", where)


def attempt(where: str, line: bytes, key: str, record: Mapping[str, Any], repairs: Repairs) -> Attempt:
    """One line of such a file: ``line`` as bytes, for its checksum, its ``key`` and ``record`` as JSON."""
    asked = _texts(record.get("system") or record.get("instructions"), "system")
    asked += _texts(record.get("prompt"), "user") + _texts(record.get("input"), "user")
    context = [  # what stood in the prompt was decided elsewhere
        dataclasses.replace(event, kind="message", role="assistant") if event.kind == "decision" else event
        for event in _events(asked, where)
    ]
    said = [one for key in _SAID for one in listing(record.get(key))]
    return Attempt(
        format=FORMAT,
        key=key,
        sha256=digest(line),
        where=where,
        events=(*context, *_events(said, where)),
        repairs=repairs,
        name=word(record, "id") or where,
        task=word(record, "task_id"),
        policy=word(record, "model") or word(mapping(record.get("metadata")), "model"),
        scores=mapping(record.get("rewards")),
        reward=record.get("reward"),
        success=record.get("success"),
        fields=record,
        extra=rest(record, *_SAID, *_LINE),
        total_usage=record.get("usage"),
    )


def _texts(value: Any, role: str) -> list[Any]:
    """A prompt as messages."""
    if isinstance(value, list) and any(mapping(one).get("role") or mapping(one).get("call_id") for one in value):
        return value
    return [{"role": role, "content": value}] if value else []


def _events(messages: Sequence[Any], where: str) -> list[Event]:
    """The messages in order; items of one response, or a turn that was paused and its rest, are one decision."""
    events: list[Event] = []
    last, goes_on = 0, False
    for place, message in enumerate(map(mapping, messages)):
        role, kind = word(message, "role"), word(message, "type")
        for event in message_events(message, f"{where} message {place}"):
            if event.kind != "decision":
                events.append(event)
            elif goes_on:
                events[last] = _joined(events[last], event)
            else:
                last, goes_on = len(events), True
                events.append(dataclasses.replace(event, same_as=word(message, "id") if role else ""))
        item = kind and not kind.endswith("_output") and role in ("", "assistant")
        goes_on = goes_on and bool(item or message.get("stop_reason") == "pause_turn")
    return events


def _joined(a: Event, b: Event) -> Event:
    """Two parts of one decision."""
    used, more = mapping(a.usage), mapping(b.usage)
    return dataclasses.replace(
        a,
        text="\n".join(text for text in (a.text, b.text) if text),
        calls=(*a.calls, *b.calls),
        reasoning="\n".join(text for text in (a.reasoning, b.reasoning) if text),
        token_ids=[*a.token_ids, *b.token_ids],
        logp=[*a.logp, *b.logp],
        reward=_sum(a.reward, b.reward),
        finish=b.finish or a.finish,
        usage={key: _sum(used.get(key), more.get(key)) for key in {**used, **more}},
        extra={**a.extra, **b.extra},
    )


def _sum(*values: Any) -> float | None:
    known = [n for value in values if (n := number(value)) is not None]
    return sum(known) if known else None
