"""Logs of inspect_ai (``.eval`` and ``.json``, version 2), read by its own library; a sample's epoch is an attempt.

Its events are taken, not its messages: in those an agent's submission is folded into text, and calls of agents that
were handed the task are missing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput, missing_extra
from evolvent.traces.events import (
    Attempt,
    Call,
    Event,
    Repairs,
    clean,
    compact,
    digest,
    listing,
    mapping,
    mappings,
    rest,
    word,
)
from evolvent.traces.messages import message_events, text_of

FORMAT = "inspect"
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_MESSAGE = ("role", "content", "tool_calls", "tool_call_id", "error", "logprobs")
_SAMPLE = ("id", "epoch", "uuid", "input", "messages", "output", "scores", "events", "limit", "error", "attachments")
_SAMPLE += ("store", "model_usage", "role_usage", "invalidation")


def read(path: Path, repairs: Repairs) -> Iterator[Attempt]:
    """The samples of a log.

    Raises:
        MissingExtra: inspect_ai is not installed.
        BadInput: no log, or one that was cut.
    """
    try:
        from inspect_ai.log import read_eval_log, read_eval_log_samples
    except ImportError as error:
        raise missing_extra("inspect_ai", "inspect", "evolvent import --from inspect") from error
    try:
        header = read_eval_log(str(path), header_only=True).eval.model_dump(mode="json", exclude_none=True)
        for sample in read_eval_log_samples(str(path), all_samples_required=False, resolve_attachments=True):
            record = sample.model_dump(mode="json", exclude_none=True)
            part = repairs.part()
            where = f"{path.name}: sample {record.get('id')}, epoch {record.get('epoch')}"
            yield attempt_of(header, clean(record, where, part), where, part)
    except BadInput:
        raise
    except Exception as error:  # the library's own errors, and those of what it reads with
        do = "a log that was cut cannot be read; `inspect log recover` rebuilds a crashed run from its buffer"
        raise BadInput("the log cannot be read: cut?", got=str(error), where=str(path), do=do) from error


def attempt_of(header: Mapping[str, Any], sample: Mapping[str, Any], where: str, repairs: Repairs) -> Attempt:
    """A sample, as JSON, as an attempt."""
    task, broken = word(header, "task"), mapping(sample.get("error"))
    events = _events(mappings(sample.get("events")), repairs)
    if not any(event.kind == "decision" for event in events):
        repairs.add("logs without events, messages taken instead", where, fault=False)
        events = [e for i, m in enumerate(mappings(sample.get("messages"))) for e in _message(m, f"message {i}")]
    scores: dict[str, Any] = {}
    for scorer, score in mapping(sample.get("scores")).items():
        found = mapping(score).get("value")
        parts = found if isinstance(found, dict) else dict(enumerate(found)) if isinstance(found, list) else {"": found}
        for part, value in parts.items():
            name = f"{scorer}.{part}" if part != "" else str(scorer)
            scores[name] = _LETTERS.get(value, value) if isinstance(value, str) else value
    return Attempt(
        format=FORMAT,
        key=word(sample, "uuid") or f"{header.get('eval_id')} {sample.get('id')} {sample.get('epoch')}",
        sha256=digest(compact(sample)),
        where=where,
        events=tuple(events),
        repairs=repairs,
        name=f"{sample.get('id')}, epoch {sample.get('epoch')}",
        task=f"{task}/{sample.get('id')}",
        env=task,
        policy=word(header, "model"),
        scores=scores,
        limit=word(mapping(sample.get("limit")), "type"),
        valid=not sample.get("invalidation") and (not broken or bool(scores)),
        stop=word(broken, "message")[:200],
        fields={**sample, "eval": header},
        extra={"epoch": sample.get("epoch"), **rest(sample, *_SAMPLE)},
    )


def _events(events: Sequence[dict[str, Any]], repairs: Repairs) -> list[Event]:
    """Calls of the model and of tools; an agent is the nearest span that is one."""
    spans = {word(one, "id"): one for one in events if one.get("event") == "span_begin"}
    made: list[Event] = []
    handed: dict[str, str] = {}
    for one in events:
        if one.get("event") not in ("tool", "model") or one.get("pending"):
            continue
        agent = _agent(spans, word(one, "span_id"), repairs)
        who, context = word(agent, "name") or "agent", word(agent, "id")
        if one["event"] == "model":
            made.append(_decision(one, who, context, handed.get(who, "")))
            continue
        error = mapping(one.get("error"))
        handed[word(one, "agent")] = word(one, "id")
        made.append(
            Event(
                kind="tool",
                agent=who,
                context=context,
                calls=(Call(word(one, "id"), word(one, "function"), one.get("arguments")),),
                text=text_of(one.get("result")) or word(error, "message"),
                error=word(error, "type"),
                origin=word(one, "uuid"),
            )
        )
    return made


def _decision(one: Mapping[str, Any], who: str, context: str, caller: str) -> Event:
    output, error = mapping(one.get("output")), one.get("error")
    choice = mapping(next(iter(listing(output.get("choices"))), {}))
    said = _message({**mapping(choice.get("message")), "logprobs": choice.get("logprobs")}, word(one, "uuid"))
    event = next((e for e in said if e.kind == "decision"), Event(kind="decision"))
    return dataclasses.replace(
        event,
        agent=who,
        context=context,
        inputs=tuple(e for m in mappings(one.get("input")) for e in _message(m, "")),
        finish=choice.get("stop_reason") or output.get("stop_reason"),
        error=error if isinstance(error, str) else word(mapping(error), "message"),
        usage=output.get("usage"),
        caller=caller,
        extra={**event.extra, **{key: one[key] for key in ("retries", "role", "model") if one.get(key)}},
    )


def _agent(spans: Mapping[str, dict[str, Any]], at: str, repairs: Repairs) -> dict[str, Any]:
    """The nearest span of an agent, upward."""
    seen: set[str] = set()
    while at in spans and at not in seen:
        if spans[at].get("type") == "agent":
            return spans[at]
        seen.add(at)
        at = word(spans[at], "parent_id")
    if at in seen:
        repairs.add("spans that are their own ancestors, cut", at)
    return {}


def _message(message: dict[str, Any], origin: str) -> list[Event]:
    return message_events({key: message.get(key) for key in _MESSAGE}, origin)
