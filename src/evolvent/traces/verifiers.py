"""Traces of verifiers (version 1): a tree of messages a line, with token ids, masks and log-probabilities."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from evolvent.traces.chat import message_events
from evolvent.traces.events import (
    MAX_ATTEMPTS,
    Attempt,
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
    usage_of,
)

FORMAT = "verifiers"
_USAGE = {
    "prompt": ("prompt_tokens",),
    "completion": ("completion_tokens",),
    "cached": ("cached_input_tokens",),
    "cost_usd": ("cost",),
}
_TRACE = ("version", "id", "nodes", "calls", "rewards", "task", "agent", "stop_condition", "is_timeout", "ok", "errors")
_NODE = ("parent", "message", "sampled", "token_ids", "mask", "logprobs", "timestamp", "is_content")


def read(path: Path, repairs: Repairs) -> Iterator[Attempt]:
    """The traces of a file, a line each.

    Raises:
        BadInput: no such file, or a line larger than a document may be.
    """
    for count, (where, line, record) in enumerate(json_lines(path, repairs)):
        if count >= MAX_ATTEMPTS:
            repairs.add(f"lines after the first {MAX_ATTEMPTS:,} left out", where)
            return
        if not listing(mapping(record).get("nodes")) or record.get("version", 1) != 1:
            repairs.add("lines that are no trace of version 1, left out", where)
            continue
        yield _attempt(where, line, record, repairs.part())


def _attempt(where: str, line: bytes, record: Mapping[str, Any], repairs: Repairs) -> Attempt:
    task, agent = mapping(record.get("task")), mapping(record.get("agent"))
    rewards = {str(name): mapping(value) for name, value in mapping(record.get("rewards")).items() if value is not None}
    scores = {name: n for name, value in rewards.items() if (n := number(value.get("score"))) is not None}
    if len(scores) < len(rewards):
        repairs.add("rewards that are no numbers, left out", where)
    weights = {name: number(rewards[name].get("weight", 1.0)) or 0.0 for name in scores}
    stop = str(record.get("stop_condition") or "")
    errors = [str(mapping(one).get("type") or "error") for one in listing(record.get("errors"))]
    models = [str(one["model"]) for one in map(mapping, listing(record.get("calls"))) if one.get("model")]
    name = str(task.get("key") or task.get("hash") or (compact(task["data"]) if task.get("data") else ""))
    return Attempt(
        format=FORMAT,
        key=str(record.get("id") or digest(line)),
        sha256=digest(line),
        where=where,
        events=tuple(_events(where, record, str(agent.get("name") or "agent"), repairs)),
        repairs=repairs,
        name=str(record.get("id") or where),
        task=name,
        env=str(task.get("type") or ""),
        policy=" ".join([*([str(agent["name"])] if agent.get("name") else []), *models[:1]]),
        scores=scores,
        reward=sum(scores[one] * weights[one] for one in scores) if scores else None,
        limit="timeout" if record.get("is_timeout") else stop if stop.startswith("max_") else "",
        valid=not errors or bool(scores),
        stop=errors[0] if errors else stop,
        fields=record,
        extra=rest(record, *_TRACE),
    )


def _events(where: str, record: Mapping[str, Any], agent: str, repairs: Repairs) -> Iterator[Event]:
    """A decision for each message that was sampled, with all that stood before it."""
    nodes = [mapping(node) for node in listing(record.get("nodes"))]
    calls = {one.get("node"): one for one in map(mapping, listing(record.get("calls")))}
    ways: list[tuple[int, ...]] = []
    messages: list[list[Event]] = []
    for i, node in enumerate(nodes):
        parent = node.get("parent")
        if parent is not None and not (type(parent) is int and 0 <= parent < i):
            repairs.add("parents that come later, cut", f"{where} node {i}")
            parent = None
        ways.append((*(() if parent is None else ways[parent]), i))
        messages.append(message_events({**mapping(node.get("message")), "id": ""}, f"{where} node {i}"))
        if not node.get("sampled"):
            continue
        before = ways[i][:-1]
        said = next((one for one in messages[i] if one.kind == "decision"), Event(kind="decision"))
        ids, mask = listing(node.get("token_ids")), listing(node.get("mask"))
        call = mapping(calls.get(i))
        first = mask.index(True) if True in mask else len(ids)
        sampled = ids[first : first + sum(map(bool, mask))]
        fits = len(mask) == len(ids) and all(mask[first : first + len(sampled)])
        if not fits:
            repairs.add("masks that do not fit their tokens, ids left out", f"{where} node {i}")
        yield dataclasses.replace(
            said,
            agent=agent,
            inputs=tuple(chain.from_iterable(messages[k] for k in before)),
            token_ids=sampled if fits else (),
            prompt_ids=[*chain.from_iterable(listing(nodes[k].get("token_ids")) for k in before), *ids[:first]]
            if fits
            else None,
            logp=listing(node.get("logprobs")) if fits else (),
            finish=finish_of(call.get("finish_reason")),
            error=str(mapping(call.get("error")).get("type") or ""),
            usage=usage_of(call.get("usage"), _USAGE),
            extra={**said.extra, **rest(node, *_NODE)},
        )
