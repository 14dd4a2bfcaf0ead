"""A record as messages in the dialect of chat."""

from __future__ import annotations

from typing import Any, TypeAlias

from evolvent.core.episode import Episode
from evolvent.core.jsonfile import dump

Message: TypeAlias = dict[str, Any]
_ROLES = {"action": "assistant", "tool": "tool", "observation": "user"}


def messages(episode: Episode) -> dict[int, Message]:
    """What was seen, said and called, by node; every message has the same keys, arguments are text.

    What shows no text to a model has no message: observations of tokens alone, recalls, components.
    """
    nodes, source = list(episode.nodes), episode.meta.get("source", {})
    made: dict[int, Message] = {}
    waiting: dict[int, list[str]] = {}  # by the node before a result: the ids of calls whose results have not come
    for one in nodes:
        about = source.get("nodes", {}).get(str(one.index), {})
        if one.kind not in _ROLES or (one.kind == "observation" and not one.text):
            continue
        role = about.get("role", _ROLES[one.kind]) if one.kind == "observation" else _ROLES[one.kind]
        message = made[one.index] = {"role": role, "content": one.text, "tool_calls": [], "tool_call_id": ""}
        if one.kind == "action":
            called, told = _called(nodes, one.index), about.get("calls", ())
            if called and source:
                message["content"] = about.get("said", "")
            ids = [(told[n] if n < len(told) else "") or f"call_{one.index + 1 + n}" for n in range(len(called))]
            message["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": tool["name"], "arguments": dump(tool["arguments"])}}
                for id, tool in zip(ids, called, strict=True)
            ]
            waiting[one.index] = ids
        elif one.kind == "tool":
            ids = waiting.pop(one.parent, [])
            message["tool_call_id"], waiting[one.index] = (ids[0], ids[1:]) if ids else ("", [])
    return made


def _called(nodes: list[Any], action: int) -> list[dict[str, Any]]:
    """The tools that a decision called: those that follow it, one after the other."""
    found: list[dict[str, Any]] = []
    at = action
    while at + 1 < len(nodes) and nodes[at + 1].kind == "tool" and nodes[at + 1].parent == at:
        at += 1
        found.append(nodes[at].data)
    return found
