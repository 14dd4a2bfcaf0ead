"""Conversations as JSON lines, one attempt a line, in three dialects: Chat, items of Responses, Anthropic messages.

``{"id", "task_id", "messages": [...], "reward", "success", "rewards", "tools", "metadata"}``; a message of the
assistant may carry ``reward``, ``token_ids``, ``logp`` and ``prompt_ids``. Which dialect a message has is seen from its
keys. ``prompt`` + ``completion`` and ``input`` + ``output`` are read too: what is asked there is context.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evolvent.traces.events import (
    MAX_ATTEMPTS,
    Attempt,
    Call,
    Event,
    Repairs,
    compact,
    digest,
    finish_of,
    json_lines,
    listing,
    mapping,
    number,
    rest,
    sealed,
    text_of,
    usage_of,
)

FORMAT = "openai"
_LINE = ("id", "task_id", "messages", "prompt", "completion", "input", "output", "instructions", "system", "reward")
_LINE += ("success", "rewards", "model", "usage", "items")
_MESSAGE = ("role", "content", "tool_calls", "function_call", "tool_call_id", "refusal", "finish_reason", "logprobs")
_MESSAGE += (
    "reward",
    "token_ids",
    "logp",
    "prompt_ids",
    "stop_reason",
    "status",
    "incomplete_details",
    "usage",
    "type",
)
_MESSAGE += ("id", "name", "reasoning_content", "is_error")
_USAGE = {
    "prompt": ("prompt_tokens", "input_tokens"),
    "completion": ("completion_tokens", "output_tokens"),
    "cached": ("cached_tokens", "cache_read_input_tokens"),
    "cost_usd": ("cost_usd", "cost"),
}


def read(path: Path, repairs: Repairs) -> Iterator[Attempt]:
    """The attempts of a file, a line each.

    Raises:
        BadInput: no such file, or a line larger than a document may be.
    """
    for count, (where, line, record) in enumerate(json_lines(path, repairs)):
        if count >= MAX_ATTEMPTS:
            repairs.add(f"lines after the first {MAX_ATTEMPTS:,} left out", where)
            return
        if not isinstance(record, dict) or not any(
            listing(record.get(k)) for k in ("messages", "completion", "output", "items")
        ):
            repairs.add("lines without messages left out", where)
            continue
        yield _attempt(where, line, record, repairs.part())


def _attempt(where: str, line: bytes, record: Mapping[str, Any], repairs: Repairs) -> Attempt:
    asked = [*_texts(record.get("system") or record.get("instructions"), "system")]
    asked += _texts(record.get("prompt"), "user") + _texts(record.get("input"), "user")
    said = [one for key in ("messages", "items", "completion", "output") for one in listing(record.get(key))]
    context = [_as_context(event) for event in _events(asked)]
    metadata = mapping(record.get("metadata"))
    scores = {str(k): n for k, v in mapping(record.get("rewards")).items() if (n := number(v)) is not None}
    if len(scores) < len(mapping(record.get("rewards"))) or (
        number(record.get("reward")) is None and record.get("reward")
    ):
        repairs.add("rewards that are no numbers, left out", where)
    success = record.get("success")
    return Attempt(
        format=FORMAT,
        key=str(record.get("id") or digest(line)),
        sha256=digest(line),
        where=where,
        events=tuple(dataclasses.replace(e, origin=f"{where} {e.origin}") for e in [*context, *_events(said)]),
        repairs=repairs,
        name=str(record.get("id") or where),
        task=str(record.get("task_id") or ""),
        policy=str(record.get("model") or metadata.get("model") or ""),
        scores=scores,
        reward=number(record.get("reward")),
        success=success if isinstance(success, bool) else None,
        fields=record,
        extra=rest(record, *_LINE),
        total_usage=usage_of(record.get("usage"), _USAGE),
    )


def _texts(value: Any, role: str) -> list[Any]:
    """A prompt as messages."""
    if isinstance(value, list) and any(mapping(one).get("role") or mapping(one).get("call_id") for one in value):
        return value
    return [{"role": role, "content": value}] if value else []


def _as_context(event: Event) -> Event:
    """What stood in the prompt was decided elsewhere."""
    return dataclasses.replace(event, kind="message", role="assistant") if event.kind == "decision" else event


def _events(messages: Sequence[Any]) -> list[Event]:
    """The messages in order; items of one response, or a turn that was paused and its rest, are one decision."""
    events: list[Event] = []
    whole = True
    for place, message in enumerate(map(mapping, messages)):
        for event in message_events(message, f"message {place}"):
            if event.kind == "decision" and not whole:
                at = max(i for i, one in enumerate(events) if one.kind == "decision")
                events[at] = _joined(events[at], event)
            else:
                events.append(event)
            whole = whole and event.kind != "decision"
        kind = str(message.get("type", ""))
        item = kind and not kind.endswith("_output") and message.get("role") in (None, "assistant")
        whole = whole or not (item or message.get("stop_reason") == "pause_turn")
    return events


def _joined(a: Event, b: Event) -> Event:
    """Two parts of one decision."""
    return dataclasses.replace(
        a,
        text="\n".join(text for text in (a.text, b.text) if text),
        calls=(*a.calls, *b.calls),
        reasoning="\n".join(text for text in (a.reasoning, b.reasoning) if text),
        token_ids=[*a.token_ids, *b.token_ids],
        logp=[*a.logp, *b.logp],
        reward=a.reward if b.reward is None else b.reward + (a.reward or 0.0),
        finish=b.finish or a.finish,
        usage={k: a.usage.get(k, 0.0) + b.usage.get(k, 0.0) for k in {**a.usage, **b.usage}},
        extra={**a.extra, **b.extra},
    )


def message_events(message: dict[str, Any], origin: str) -> list[Event]:
    """One message or item: what the assistant did, what came back, or what somebody said."""
    kind, role = str(message.get("type", "")), str(message.get("role", ""))
    if not role and kind:
        return _item(message, kind, origin)
    if role in ("tool", "function"):
        name = str(message.get("name") or "")
        call = str(message.get("tool_call_id") or "")
        error = "error" if message.get("is_error") or message.get("status") == "error" else ""
        text = text_of(message.get("content"))
        return [
            Event(
                kind="tool",
                call_id=call,
                name=name,
                text=text,
                error=error,
                origin=origin,
                extra=rest(message, *_MESSAGE),
            )
        ]
    blocks = [one for one in listing(message.get("content")) if isinstance(one, dict)]
    results = [_result(one, origin) for one in blocks if str(one.get("type", "")).endswith("tool_result")]
    plain = message.get("content")
    if blocks:
        plain = [
            one
            for one in blocks
            if one.get("type") not in ("tool_use", "server_tool_use", "thinking", "redacted_thinking")
            and not str(one.get("type", "")).endswith("tool_result")
        ]
    text, extra = text_of(plain), rest(message, *_MESSAGE)
    if role == "assistant":
        return [_decision(message, blocks, text or str(message.get("refusal") or ""), extra, origin), *results]
    said = Event(
        kind="message", role="system" if role == "developer" else role or "user", text=text, origin=origin, extra=extra
    )
    return [*results, said] if text or not results else results


def _decision(message: dict[str, Any], blocks: Sequence[Any], text: str, extra: dict[str, Any], origin: str) -> Event:
    calls = [
        Call(str(c.get("id") or ""), str(f.get("name") or ""), f.get("arguments"))
        for c in map(mapping, listing(message.get("tool_calls")))
        for f in [mapping(c.get("function") or c.get("custom") or c)]
    ]
    if old := mapping(message.get("function_call")):
        calls.append(Call("", str(old.get("name") or ""), old.get("arguments")))
    calls += [
        Call(str(b.get("id") or ""), str(b.get("name") or ""), b.get("input"))
        for b in blocks
        if b.get("type") in ("tool_use", "server_tool_use")
    ]
    thought = [str(b.get("thinking") or "") for b in blocks if b.get("type") == "thinking"]
    hidden = [
        sealed(b.get("signature") or b.get("data"))
        for b in blocks
        if b.get("signature") or b.get("type") == "redacted_thinking"
    ]
    logps = [
        n
        for one in listing(mapping(message.get("logprobs")).get("content"))
        if (n := number(mapping(one).get("logprob"))) is not None
    ]
    if hidden:
        extra["sealed"] = hidden
    if logps:
        extra["logp_sum"] = sum(logps)
    return Event(
        kind="decision",
        text=text,
        calls=tuple(calls),
        reasoning="\n".join([*thought, str(message.get("reasoning_content") or "")]).strip(),
        token_ids=message.get("token_ids") or (),
        prompt_ids=message.get("prompt_ids"),
        logp=message.get("logp") or (),
        reward=number(message.get("reward")),
        finish=finish_of(message.get("finish_reason") or message.get("stop_reason") or _cut_off(message)),
        usage=usage_of(message.get("usage"), _USAGE),
        same_as=str(message.get("id") or ""),
        origin=origin,
        extra=extra,
    )


def _cut_off(message: Mapping[str, Any]) -> str:
    """How an item of Responses ended."""
    if message.get("status") == "incomplete":
        return str(mapping(message.get("incomplete_details")).get("reason") or "max_output_tokens")
    return ""


def _result(block: dict[str, Any], origin: str) -> Event:
    error = "error" if block.get("is_error") else ""
    call, text = str(block.get("tool_use_id") or ""), text_of(block.get("content"))
    return Event(kind="tool", call_id=call, text=text, error=error, origin=origin)


def _item(item: dict[str, Any], kind: str, origin: str) -> list[Event]:
    """An item of Responses without a role."""
    call = str(item.get("call_id") or item.get("id") or "")
    if kind.endswith("_output"):
        error = "error" if item.get("status") == "failed" else ""
        return [Event(kind="tool", call_id=call, text=text_of(item.get("output")), error=error, origin=origin)]
    finish = finish_of(_cut_off(item))
    if kind == "reasoning":
        thought = text_of(item.get("content")) or text_of(item.get("summary"))
        extra = {"sealed": [sealed(item["encrypted_content"])]} if item.get("encrypted_content") else {}
        return [Event(kind="decision", reasoning=thought, finish=finish, origin=origin, extra=extra)]
    if kind.endswith("_call"):
        known = kind in ("function_call", "custom_tool_call", "mcp_call")
        name = str(item.get("name") or "") if known else kind.removesuffix("_call")
        given = (
            item.get("arguments", item.get("input"))
            if known
            else rest(item, "type", "id", "call_id", "status", "output", "outputs", "results", "result")
        )
        events = [Event(kind="decision", calls=(Call(call, name, given),), finish=finish, origin=origin)]
        result = next(
            (item[key] for key in ("output", "outputs", "results", "result") if item.get(key) is not None), None
        )
        if result is not None:  # the provider ran it
            events.append(
                Event(
                    kind="tool",
                    call_id=call,
                    text=text_of(result) if isinstance(result, (str, list)) else compact(result),
                    origin=origin,
                )
            )
        return events
    if kind == "compaction":
        return [
            Event(kind="message", role="system", text="[compaction]", origin=origin, extra={"sealed": sealed(item)})
        ]
    return [Event(kind="message", role="user", text=text_of(item), origin=origin, extra={"type": kind})]
