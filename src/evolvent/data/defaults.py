"""Defaults that an answer uses become other values: what is to be used must be read, and not known."""

from __future__ import annotations

import dataclasses
import random
import re
import string
from collections.abc import Mapping
from typing import Any

from evolvent.data.asking import calls_in
from evolvent.data.fits import faults
from evolvent.data.rows import Row, all_text, leaves
from evolvent.data.schemas import Schema, Tool
from evolvent.formulas.call_match import Call

_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def other_defaults(row: Row, draw: random.Random) -> tuple[Row, list[dict[str, Any]]]:
    """The row with other values for defaults that the answer uses, and what was changed."""
    changed: list[dict[str, Any]] = []
    for tool in row.tools:
        for name, schema in tool["parameters"].get("properties", {}).items():
            one = _changeable(row, tool, name, dict(schema), draw) if isinstance(schema, Mapping) else None
            if one is not None:
                row = with_default(row, one)
                changed.append(one)
    return row, changed


def _changeable(row: Row, tool: Tool, name: str, schema: Schema, draw: random.Random) -> dict[str, Any] | None:
    """What a change of a default would be; ``None`` where there is no reason, or it could damage something."""
    old = schema.get("default")
    if (
        type(old) not in (int, float, str)
        or old == ""
        or {"enum", "const", "format", "pattern", "multipleOf"} & schema.keys()
    ):
        return None
    used = [c for c in row.gold if c["name"] == tool["name"] and _same(c["arguments"].get(name), old)]
    calls = [*row.gold, *(c for m in row.messages for c in calls_in(m))]
    if not used or sum(_same(value, old) for call in calls for value in leaves(call["arguments"])) != len(used):
        return None
    word = _word(old)
    talk = "\n".join(m.get("content") or "" for m in row.messages)
    said = [(i, found[0]) for i, m in enumerate(row.messages) for found in word.finditer(m.get("content") or "")]
    spelled = isinstance(old, int) and 0 <= old < len(_WORDS) and re.search(rf"\b{_WORDS[old]}\b", talk, re.I)
    if len(said) > 1 or spelled or any(row.messages[i]["role"] != "user" for i, _ in said):
        return None
    if (
        len(word.findall(schema.get("description", ""))) > 1
        or word.search(tool["description"])
        or word.search(row.said)
    ):
        return None
    text = all_text(row)
    for _ in range(20):
        new = _other(old, draw)
        if not _word(new).search(text) and str(new).lower() not in text.lower() and not faults(new, schema):
            place, mark = said[0] if said else (-1, "")
            return {"function": tool["name"], "parameter": name, "old": old, "new": new, "place": place, "mark": mark}
    return None


def with_default(row: Row, one: Mapping[str, Any], *, back: bool = False) -> Row:
    """The row with a default changed: in schema and description, in the answer, and where the request names it."""
    old, new = (one["new"], one["old"]) if back else (one["old"], one["new"])
    function, name = one["function"], one["parameter"]

    def tool(given: Tool) -> Tool:
        if given["name"] != function:
            return given
        schema = given["parameters"]
        changed = {**schema["properties"][name], "default": new}
        if "description" in changed:
            changed["description"] = _word(old).sub(lambda _: str(new), changed["description"])
        return {**given, "parameters": {**schema, "properties": {**schema["properties"], name: changed}}}

    def call(given: Call) -> Call:
        if given["name"] != function or not _same(given["arguments"].get(name), old):
            return given
        return {**given, "arguments": {**given["arguments"], name: new}}

    messages = list(row.messages)
    if one["mark"]:
        message = messages[one["place"]]
        text = _word(old).sub(lambda _: one["mark"] if back else str(new), message["content"])
        messages[one["place"]] = {**message, "content": text}
    return dataclasses.replace(
        row, tools=tuple(map(tool, row.tools)), gold=tuple(map(call, row.gold)), messages=tuple(messages)
    )


def _other(old: Any, draw: random.Random) -> Any:
    if isinstance(old, int):
        return old + draw.randint(1, 4)
    if isinstance(old, float):
        return round(old + draw.random(), 2)
    return "".join(draw.choices(string.ascii_letters, k=5))


def _same(a: Any, b: Any) -> bool:
    """The same value of the same type: "10" is not 10, and 1 is not true."""
    return type(a) is type(b) and a == b


def _word(value: Any) -> re.Pattern[str]:
    """A value as a whole word of a text; of a number no part of a date, a time or a decimal."""
    text = re.escape(str(value))
    if re.fullmatch(r"-?[\d.]+", str(value)):
        return re.compile(rf"(?<![\w.,:/+-]){text}(?!\w|[.,:/-]\d)")
    return re.compile(rf"(?<!\w){text}(?!\w)", re.I)
