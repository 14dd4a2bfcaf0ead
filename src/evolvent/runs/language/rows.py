"""Rows to learn from, before any model has read them: JSON lines of messages with tools, or of prompt and completion.

    {"messages": [{"role", "content", "tool_calls"?, "tool_call_id"?, "weight"?}, …], "tools": [schemas]}
    {"prompt": text or messages, "completion": text or messages, "tools"?}

As Chat endpoints, TRL's data sets and ``evolvent export jsonl`` write them. Every answer of the assistant is learned
from but those with ``weight`` 0; of a row with a prompt, those behind it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput

ROLES = ("system", "developer", "user", "assistant", "tool")
Message = dict[str, Any]
_FORMS = '{"messages": […]} or {"prompt": …, "completion": …}'


@dataclass(frozen=True)
class Example:
    """One row.

    Attributes:
        where: its file and line.
        text: prompt and completion of a row without messages; ``None`` of the others.
        messages: of a conversation, contents as texts, arguments of calls as objects.
        tools: schemas of the tools that the assistant had.
        trained: places of the messages that are learned from.
        digest: of what it says: equal rows have the same.
    """

    where: str
    text: tuple[str, str] | None = None
    messages: tuple[Message, ...] = ()
    tools: tuple[Message, ...] = ()
    trained: tuple[int, ...] = ()
    digest: str = field(default="", compare=False)


def read_rows(path: Path, flag: str = "--data") -> list[Example]:
    """The rows of a file, in order.

    Raises:
        BadInput: no such file, no row in it, or a row that cannot be learned from: names the line.
    """
    if not path.is_file():
        raise BadInput("no such file", got=str(path), expected=f"lines of JSON, {_FORMS}", where=flag)
    rows = [_example(row, f"{path}:{number}") for number, row in json_lines(path, _FORMS)]
    if not rows:
        raise BadInput("no row to learn from", got=f"{path}, which is empty", expected=_FORMS, where=flag)
    return rows


def split_rows(rows: Sequence[Example], share: float) -> tuple[list[Example], list[Example]]:
    """Rows to learn from, and ``share`` of the different ones to be judged by; equal rows are on one side.

    Which ones does not depend on their order. Of two different rows or more at least one is on either side, unless
    ``share`` is 0.
    """
    order = sorted({row.digest for row in rows})
    n = min(max(round(share * len(order)), 1), len(order) - 1) if share > 0 else 0
    apart = set(order[:n])
    return [row for row in rows if row.digest not in apart], [row for row in rows if row.digest in apart]


def json_lines(path: Path, expected: str, *, first: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and object of each line that is not empty.

    Raises:
        BadInput: a line that is none.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            got, where = line[:80].decode(errors="replace"), f"{path}:{number}"
            try:
                row = json.loads(line.decode())
            except ValueError as error:  # bytes that are no UTF-8, too
                raise BadInput("not JSON", got=got, where=where) from error
            if not isinstance(row, dict):
                raise BadInput("not an object", got=got, expected=expected, where=where)
            yield number, row
            if first:
                return


def in_words(said: Any) -> Any:
    """Messages whose contents are parts, with what the parts of text say; anything else as it is."""
    if not isinstance(said, list) or not all(isinstance(one, dict) for one in said):
        return said
    return [{**one, "content": _joined(one.get("content"))} for one in said]


def _joined(content: Any) -> Any:
    parts = content if isinstance(content, list) else []
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return "".join(texts) if parts and len(texts) == len(parts) else content


def _example(row: dict[str, Any], where: str) -> Example:
    prompt, completion = row.get("prompt", row.get("messages")), row.get("completion")
    if completion is None and "messages" in row:
        prompt, completion = [], row["messages"]
    if isinstance(prompt, str) and isinstance(completion, str):
        if not prompt or not completion:
            raise BadInput("a row with nothing to learn", got=row, expected="two texts, not empty", where=where)
        return Example(where, text=(prompt, completion), digest=_digest([prompt, completion]))
    before, said = _messages(prompt, "user", where), _messages(completion, "assistant", where)
    messages = (*before, *said)
    learned = [_learned(one, where) for one in messages]
    trained = tuple(i for i, one in enumerate(learned) if one and i >= len(before))
    if not trained:
        raise BadInput(
            "a row with no answer of the assistant to learn from",
            got=[one["role"] for one in messages],
            expected="a message of the role assistant (weight 0 leaves one out)",
            where=where,
            do="leave the row out",
        )
    tools = row.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise BadInput("tools are no list of schemas", got=tools, expected="a list of objects", where=where)
    return Example(where, None, messages, tuple(tools), trained, _digest([messages, tools, trained]))


def _messages(said: Any, role: str, where: str) -> list[Message]:
    """Messages of a row, checked; a text is one message of ``role``."""
    if isinstance(said, str):
        said = [{"role": role, "content": said}]
    said = in_words(said)
    if not isinstance(said, list) or not all(isinstance(one, dict) for one in said):
        raise BadInput("not a row to learn from", got=str(said)[:80], expected=_FORMS, where=where)
    return [_message(one, where) for one in said]


def _message(one: Message, where: str) -> Message:
    if one.get("role") not in ROLES:
        raise BadInput("unknown role", got=one.get("role"), expected=", ".join(ROLES), where=where)
    calls = one.get("tool_calls") or []
    content = one.get("content")
    if not isinstance(content, str) and not (content is None and calls):
        raise BadInput("content is not text", got=type(content).__name__, expected="text, or tool_calls", where=where)
    out = {**one, "content": content or ""}
    out.pop("tool_calls", None)
    return out | {"tool_calls": [_call(call, where) for call in calls]} if calls else out


def _call(call: Any, where: str) -> Message:
    """A call with its arguments as an object: endpoints give them as JSON in a text."""
    inner = call.get("function", call) if isinstance(call, dict) else {}
    given = inner.get("arguments", {}) if isinstance(inner, dict) else None
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except ValueError as error:
            raise BadInput("arguments of a call are not JSON", got=str(given)[:80], where=where) from error
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str) or not isinstance(given, dict):
        expected = '{"type": "function", "function": {"name": …, "arguments": {…}}}'
        raise BadInput("not a call", got=str(call)[:80], expected=expected, where=where)
    extra = {"id": call["id"]} if "id" in call else {}
    return {**extra, "type": "function", "function": {"name": inner["name"], "arguments": given}}


def _learned(message: Message, where: str) -> bool:
    weight = message.pop("weight", 1)
    if weight not in (0, 1):
        raise BadInput("a weight of a message", got=weight, expected="0 or 1", where=where)
    return message["role"] == "assistant" and bool(weight)


def _digest(said: Any) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
