"""Traces of verifiers (version 1): trees of messages with token ids, masks and log-probabilities.

A line is a trace, or an episode with the ``traces`` of its agents, as the package writes its ``traces.jsonl``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from evolvent.traces.events import (
    Attempt,
    Event,
    Repairs,
    compact,
    digest,
    json_lines,
    listing,
    mapping,
    mappings,
    number,
    rest,
    word,
)
from evolvent.traces.messages import message_events

FORMAT = "verifiers"
_TRACE = ("version", "id", "nodes", "calls", "rewards", "task", "agent", "stop_condition", "is_timeout", "ok", "errors")
_NODE = ("parent", "message", "sampled", "token_ids", "mask", "logprobs", "timestamp", "is_content")


def read(path: Path, repairs: Repairs) -> Iterator[Attempt]:
    """The traces of a file, an attempt each.

    Raises:
        BadInput: no such file, or a line larger than a document may be.
    """
    for where, line, record in json_lines(path, repairs):
        found = mapping(record).get("traces")
        for trace in mappings([record] if found is None else found):
            if listing(trace.get("nodes")) and trace.get("version", 1) == 1:
                content = line if found is None else compact(trace).encode()
                yield _attempt(where, content, trace, repairs.part())
            else:
                repairs.add("traces that are not of version 1, or empty, left out", where)


def _attempt(where: str, content: bytes, record: Mapping[str, Any], repairs: Repairs) -> Attempt:
    task, agent = mapping(record.get("task")), word(mapping(record.get("agent")), "name")
    rewards = {name: mapping(one) for name, one in mapping(record.get("rewards")).items() if one is not None}
    paid = [_product(number(one.get("score")), number(one.get("weight", 1.0))) for one in rewards.values()]
    stop = word(record, "stop_condition")
    errors = [word(one, "type") or "error" for one in mappings(record.get("errors"))]
    models = [word(one, "model") for one in mappings(record.get("calls")) if one.get("model")]
    return Attempt(
        format=FORMAT,
        key=word(record, "id") or digest(content),
        sha256=digest(content),
        where=where,
        events=tuple(_events(where, record, agent or "agent", repairs)),
        repairs=repairs,
        name=word(record, "id") or where,
        task=word(task, "key", "hash") or (compact(task["data"]) if task.get("data") else ""),
        env=word(task, "type"),
        policy=" ".join(text for text in (agent, *models[:1]) if text),
        scores={name: one.get("score", "none") for name, one in rewards.items()},
        reward=sum(paid) if paid else None,
        limit="timeout" if record.get("is_timeout") else stop if stop.startswith("max_") else "",
        valid=not errors or bool(rewards),
        stop=errors[0] if errors else stop,
        fields=record,
        extra=rest(record, *_TRACE),
    )


def _product(score: float | None, weight: float | None) -> float:
    """What a score pays: no number, where it is none."""
    return math.nan if score is None or weight is None else score * weight


def _events(where: str, record: Mapping[str, Any], agent: str, repairs: Repairs) -> Iterator[Event]:
    """A decision for each message that was sampled, with what entered its context since the one before it."""
    nodes = mappings(record.get("nodes"))
    calls = {word(one, "node"): one for one in mappings(record.get("calls"))}
    parents: list[int] = []
    after: dict[
        int, list[Any]
    ] = {}  # of each sampled node: its tokens that were not sampled and follow those that were
    contexts: set[str] = set()
    for i, node in enumerate(nodes):
        origin, parent = f"{where} node {i}", node.get("parent")
        if parent is not None and not (type(parent) is int and 0 <= parent < i):
            repairs.add("parents that come later, cut", origin)
            parent = None
        parents.append(-1 if parent is None else parent)
        if not node.get("sampled"):
            continue
        head, sampled, after[i] = _tokens(node, origin, repairs)
        at, entered = parents[i], list[int]()
        here = compact([at, head])
        while here not in contexts and at >= 0 and at not in after:
            entered.append(at)
            at = parents[at]
        entered.reverse()
        before = (
            []
            if here in contexts
            else [*after.get(at, ()), *chain.from_iterable(_ids(nodes[k]) for k in entered), *head]
        )
        said = next((one for one in _message(node, origin) if one.kind == "decision"), Event(kind="decision"))
        call = mapping(calls.get(str(i)))
        yield dataclasses.replace(
            said,
            agent=agent,
            base=here if here in contexts else str(at) if at >= 0 else "",
            place=(here, str(i)),
            inputs=tuple(one for k in entered for one in _message(nodes[k], f"{where} node {k}")),
            token_ids=sampled,
            prompt_ids=before,
            logp=listing(node.get("logprobs")) if sampled else (),
            finish=call.get("finish_reason"),
            error=word(mapping(call.get("error")), "type"),
            usage=_usage(mapping(call.get("usage"))),
            origin=origin,
            extra={**said.extra, **rest(node, *_NODE)},
        )
        contexts.add(here)


def _tokens(node: Mapping[str, Any], origin: str, repairs: Repairs) -> tuple[list[Any], list[Any], list[Any]]:
    """Token ids of a sampled message: of its template, those that were sampled, and what follows them."""
    ids, mask = _ids(node), listing(node.get("mask"))
    begin = mask.index(True) if True in mask else len(ids)
    end = begin + sum(map(bool, mask))
    if len(mask) == len(ids) and all(mask[begin:end]):
        return ids[:begin], ids[begin:end], ids[end:]
    repairs.add("masks that do not fit their tokens, ids left out", origin)
    return [], [], ids


def _ids(node: Mapping[str, Any]) -> list[Any]:
    return listing(node.get("token_ids"))


def _message(node: Mapping[str, Any], origin: str) -> list[Event]:
    return message_events({**mapping(node.get("message")), "id": ""}, origin)


def _usage(used: Mapping[str, Any]) -> dict[str, Any]:
    """Prompts with what was read from a cache, which the package counts apart."""
    prompt, cached = number(used.get("prompt_tokens")), number(used.get("cached_input_tokens"))
    return {**used, "prompt_tokens": None if prompt is None else prompt + (cached or 0)}
