"""Logs of inspect_ai (``.eval`` and ``.json``, version 2), read by its own library; a sample's epoch is an attempt.

Its events are taken, not its messages: in those an agent's submission is folded into text, and calls of agents that
were handed the task are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput, missing_extra
from evolvent.traces.chat import message_events
from evolvent.traces.events import (
    Attempt,
    Event,
    Repairs,
    clean,
    compact,
    digest,
    finish_of,
    listing,
    mapping,
    number,
    rest,
    text_of,
    usage_of,
)

FORMAT = "inspect"
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_USAGE = {
    "prompt": ("input_tokens",),
    "completion": ("output_tokens",),
    "cached": ("input_tokens_cache_read",),
    "cost_usd": ("total_cost",),
}
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
    task, limit = str(header.get("task", "")), mapping(sample.get("limit"))
    events = _events(listing(sample.get("events")), repairs)
    if not any(event.kind == "decision" for event in events):
        repairs.add("logs without events, messages taken instead", where, fault=False)
        events = [
            e for i, m in enumerate(listing(sample.get("messages"))) for e in _message(mapping(m), f"message {i}")
        ]
    scores: dict[str, float] = {}
    for scorer, score in mapping(sample.get("scores")).items():
        found = mapping(score).get("value")
        parts = (
            found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else [("", found)]
        )
        for part, value in parts:
            if (n := _LETTERS.get(value) if isinstance(value, str) else number(value)) is None:
                repairs.add("scores that are no numbers, left out", where, fault=False)
            else:
                scores[f"{scorer}.{part}" if part != "" else str(scorer)] = n
    broken = mapping(sample.get("error"))
    key = sample.get("uuid") or f"{header.get('eval_id')} {sample.get('id')} {sample.get('epoch')}"
    return Attempt(
        format=FORMAT,
        key=str(key),
        sha256=digest(compact(sample)),
        where=where,
        events=tuple(events),
        repairs=repairs,
        name=f"{sample.get('id')}, epoch {sample.get('epoch')}",
        task=f"{task}/{sample.get('id')}",
        env=task,
        policy=str(header.get("model", "")),
        scores=scores,
        limit=str(limit.get("type") or ""),
        valid=not sample.get("invalidation") and (not broken or bool(scores)),
        stop=str(broken.get("message") or "")[:200],
        fields={**sample, "eval": header},
        extra={"epoch": sample.get("epoch"), **rest(sample, *_SAMPLE)},
    )


def _events(events: list[Any], repairs: Repairs) -> list[Event]:
    """Calls of the model and of tools; an agent is the nearest span that is one."""
    spans = {str(e.get("id")): e for e in map(mapping, events) if e.get("event") == "span_begin"}
    made: list[Event] = []
    handed: dict[str, str] = {}
    for one in map(mapping, events):
        agent = _agent(spans, str(one.get("span_id") or ""), repairs)
        who, context = str(agent.get("name") or "agent"), str(agent.get("id") or "")
        if one.get("event") == "tool" and not one.get("pending"):
            handed[str(one.get("agent"))] = str(one.get("id"))
            error = mapping(one.get("error"))
            made.append(
                Event(
                    kind="tool",
                    agent=who,
                    context=context,
                    call_id=str(one.get("id") or ""),
                    name=str(one.get("function") or ""),
                    arguments=one.get("arguments"),
                    text=text_of(one.get("result")) or str(error.get("message") or ""),
                    error=str(error.get("type") or ""),
                    origin=str(one.get("uuid") or ""),
                )
            )
        elif one.get("event") == "model" and not one.get("pending"):
            made.append(_decision(one, who, context, handed.get(who, "")))
    return made


def _decision(one: Mapping[str, Any], who: str, context: str, caller: str) -> Event:
    output = mapping(one.get("output"))
    choice = mapping(next(iter(listing(output.get("choices"))), {}))
    said = _message({**mapping(choice.get("message")), "logprobs": choice.get("logprobs")}, "")
    event = next((e for e in said if e.kind == "decision"), Event(kind="decision"))
    error = one.get("error")
    return Event(
        kind="decision",
        agent=who,
        context=context,
        text=event.text,
        calls=event.calls,
        reasoning=event.reasoning,
        inputs=tuple(e for m in listing(one.get("input")) for e in _message(mapping(m), "")),
        finish=finish_of(choice.get("stop_reason") or output.get("stop_reason")),
        error=error if isinstance(error, str) else str(mapping(error).get("message") or ""),
        usage=usage_of(output.get("usage"), _USAGE),
        origin=str(one.get("uuid") or ""),
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
        at = str(spans[at].get("parent_id") or "")
    if at in seen:
        repairs.add("spans that are their own ancestors, cut", at)
    return {}


def _message(message: dict[str, Any], origin: str) -> list[Event]:
    """A message in the dialect of chat."""
    calls = [
        {"id": c.get("id"), "function": {"name": c.get("function"), "arguments": c.get("arguments")}}
        for c in map(mapping, listing(message.get("tool_calls")))
    ]
    content = message.get("content")
    if isinstance(content, list):
        content = [
            {**p, "type": "thinking", "thinking": p.get("reasoning")} if mapping(p).get("type") == "reasoning" else p
            for p in content
        ]
    error = mapping(message.get("error"))
    known = {
        "role": message.get("role"),
        "content": content or error.get("message"),
        "tool_calls": calls,
        "is_error": bool(error),
    }
    known |= {"tool_call_id": message.get("tool_call_id"), "logprobs": message.get("logprobs")}
    return message_events(known, origin)
