"""Rows of a user's own data: a prompt, as text or as messages with tools, and what else the reward is to know.

    {"prompt": "2 + 2 =", "answer": "4"}
    {"messages": [{"role": "user", "content": "2 + 2 ="}], "tools": [...], "answer": "4"}

``messages`` may stand under ``prompt``, as in data for TRL. Tools have OpenAI's form, or are that as JSON text; calls
of them are an answer, which the reward judges. A list of rows and a ``datasets.Dataset`` are the same here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from evolvent.core.conversation import Conversation, check_messages, check_tools
from evolvent.core.errors import BadInput
from evolvent.envs.text._text import flat

Row = Mapping[str, Any]


def checked_rows(rows: Any, where: str) -> list[Row]:
    """The rows as dictionaries whose ``prompt`` is a text or a list of messages.

    Raises:
        BadInput: naming the row.
    """
    if hasattr(rows, "column_names") and hasattr(rows, "__len__") and not isinstance(rows, Mapping):  # a Dataset
        rows = list(rows)
    if not isinstance(rows, list) or not rows:
        expected, do = 'PROMPTS = [{"prompt": …}, …], or a datasets.Dataset', ""
        if isinstance(rows, Mapping):
            do = f"take one of its splits: {', '.join(map(repr, rows))}"
        raise BadInput("no prompts", got=type(rows).__name__, expected=expected, where=where, do=do)
    made = [_checked(row, f"{where}, PROMPTS[{number}]") for number, row in enumerate(rows)]
    if any("split" in row for row in made):
        splits: dict[str, str] = {}
        for row in made:
            split = row.get("split", "train")
            if splits.setdefault(flat(words_of(row)), split) != split:
                expected = "one of them: the model sees nothing else of a row"
                raise BadInput("one prompt in both splits", got=words_of(row)[:100], where=where, expected=expected)
    return made


def chat_of(row: Row) -> Conversation | None:
    """What a row asks as messages, with its tools, where it has such."""
    if isinstance(row["prompt"], str):
        return None
    return Conversation(tuple(row["prompt"]), tuple(row.get("tools", ())))


def words_of(row: Row) -> str:
    """What a row asks as text."""
    chat = chat_of(row)
    return str(row["prompt"]) if chat is None else chat.text


def held_out(rows: list[Row], seed: int, by: str) -> set[int]:
    """Rows for evaluation: those that say so, or else a fifth of the prompts, which a hash draws.

    The model sees the prompt alone: rows that differ in other keys are one task to it. Data that cycles through topics
    or grows harder is no order to count in, and a prompt keeps its place where rows are added or moved.
    """
    if any("split" in row for row in rows):
        return {i for i, row in enumerate(rows) if row.get("split") == "heldout"}
    if by == "row":
        words = [_without_split(row) for row in rows]
        order = {word: i for i, word in enumerate(dict.fromkeys(words))}
        return {i for i, word in enumerate(words) if order[word] % 5 == 4}
    said = [flat(words_of(row)) for row in rows]
    prompts = set(said)
    drawn = sorted(prompts, key=lambda prompt: hashlib.sha256(f"{seed} {prompt}".encode("utf-8", "replace")).digest())
    held = set(drawn[: len(prompts) // 5])
    return {i for i, prompt in enumerate(said) if prompt in held}


def _checked(row: Any, where: str) -> Row:
    if isinstance(row, Mapping) and isinstance(row.get("messages"), list | tuple) and "prompt" not in row:
        row = {"prompt": row["messages"], **{key: value for key, value in row.items() if key != "messages"}}
    if not isinstance(row, Mapping) or not isinstance(row.get("prompt"), str | list | tuple):
        expected = '{"prompt": text, …} or {"messages": [{"role", "content"}, …], …}'
        raise BadInput("not a prompt", got=repr(row)[:100], expected=expected, where=where)
    if (split := row.get("split", "train")) not in ("train", "heldout"):
        raise BadInput("no such split", got=repr(split), expected='"train" or "heldout"', where=where)
    if not isinstance(row["prompt"], str):
        row = _conversation(row, where)
    try:
        json.dumps(dict(row))
    except (TypeError, ValueError) as error:
        raise BadInput("a row is not plain data", got=str(error), where=where) from error
    return row


def _conversation(row: Row, where: str) -> Row:
    """A row of messages, without the empty fields that columns of tables have."""
    made = {**row, "prompt": _filled(row["prompt"])}
    check_messages(made["prompt"], where)
    if row.get("tools") is None:
        made.pop("tools", None)
        return made
    try:
        given = json.loads(row["tools"]) if isinstance(row["tools"], str) else row["tools"]
    except ValueError as error:
        raise BadInput("tools are no JSON", got=str(error), where=where) from error
    made["tools"] = _filled(given)
    check_tools(made["tools"], where)
    return made


def _filled(value: Any) -> Any:
    """``value`` without keys whose value is ``None``."""
    if isinstance(value, Mapping):
        return {key: _filled(one) for key, one in value.items() if one is not None}
    return [_filled(one) for one in value] if isinstance(value, list | tuple) else value


def _without_split(row: Row) -> str:
    return json.dumps({key: value for key, value in row.items() if key != "split"}, sort_keys=True)
