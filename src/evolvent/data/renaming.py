"""New names in schemas, calls and texts; the same code puts the old ones back."""

from __future__ import annotations

import dataclasses
import json
import keyword
import random
import re
import string
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from evolvent.data.calls import Message
from evolvent.data.rows import Row
from evolvent.data.schemas import Schema, Tool
from evolvent.formulas.call_match import Call
from evolvent.formulas.call_text import calls_of

Names: TypeAlias = "dict[str, Any]"
"""``{name: {"as": its other name, "in": Names of what is in it}}``; under "" what is in values of any other name."""
Alphabet = Literal["own", "published"]
Scrub = Literal["marked", "all", "none"]
_PUBLISHED = string.ascii_letters + "_." + string.digits
_OWN = string.ascii_letters + string.digits + "_"
_LENGTH = (4, 10)
"""Fewest and most letters of a parameter, as published."""
_PARTS = ("items", "additionalProperties", "not", "anyOf", "oneOf", "allOf", "prefixItems")


class Fresh:
    """Random names that are not in a text, and differ."""

    def __init__(self, draw: random.Random, text: str, alphabet: Alphabet) -> None:
        self._draw, self._text, self._taken, self._own = draw, text.lower(), set[str](), alphabet == "own"

    def name(self, length: tuple[int, int]) -> str:
        """A new name with fewest and most letters."""
        while True:
            n = self._draw.randint(*length)
            if self._own:
                made = self._draw.choice(string.ascii_letters) + "".join(self._draw.choices(_OWN, k=n - 1))
            else:
                made = "".join(self._draw.choices(_PUBLISHED, k=n))
            fits = not (self._own and (keyword.iskeyword(made) or made.endswith("_")))
            alone = not any(made.lower() in one or one in made.lower() for one in self._taken)
            if fits and alone and made.lower() not in self._text and not made.strip("_.").isdigit():
                self._taken.add(made.lower())
                return made


def tree_of(schema: Schema, taken: Fresh) -> Names:
    """A new name for each property, by its place; alternatives share theirs, and what an enum lists keeps its own."""
    tree: Names = {}
    _grow(tree, schema, taken)
    return tree


def _grow(tree: Names, schema: Schema, taken: Fresh) -> None:
    if "enum" in schema or "const" in schema:
        return
    for name, one in schema.get("properties", {}).items():
        if name and name not in tree:
            tree[name] = {"as": taken.name(_LENGTH), "in": {}}
        if name and isinstance(one, Mapping):
            _grow(tree[name]["in"], dict(one), taken)
    for key in _PARTS:
        for one in _listed(schema.get(key)):
            if key != "additionalProperties":
                _grow(tree, one, taken)
            else:
                _grow(tree.setdefault("", {"as": "", "in": {}})["in"], one, taken)


def _listed(value: Any) -> list[Schema]:
    return [dict(one) for one in (value if isinstance(value, list) else [value]) if isinstance(one, Mapping)]


def inverse(tree: Names) -> Names:
    """The names back."""
    return {one["as"]: {"as": name, "in": inverse(one["in"])} for name, one in tree.items()}


def flat(tree: Names) -> dict[str, str]:
    """Old names to new ones; of several with one name the first, outer ones before inner ones."""
    found = {name: one["as"] for name, one in tree.items() if name}
    for one in tree.values():
        found = flat(one["in"]) | found
    return found


def is_name(text: str) -> bool:
    """Whether it is written as a name, and not as a word: with an underscore, a digit, a dot, or a capital inside."""
    return re.search(r"[_.\-\d]|[a-z][A-Z]", text) is not None


def every_name(trees: Mapping[str, Names], functions: Mapping[str, str]) -> dict[str, str]:
    """Old names to new ones, of all functions and their parameters."""
    return {name: new for tree in trees.values() for name, new in flat(tree).items()} | dict(functions)


def texts_of(
    trees: Mapping[str, Names], functions: Mapping[str, str], scrub: Scrub, *, least: int = 4
) -> dict[str, Callable[[str], str] | None]:
    """What replaces names in the descriptions of each function: its own parameters before those of others."""
    every = every_name(trees, functions)
    return {name: replacer(every | flat(tree) | dict(functions), scrub, least=least) for name, tree in trees.items()}


def replacer(names: Mapping[str, str], scrub: Scrub, *, least: int = 4) -> Callable[[str], str] | None:
    """A function that replaces names in a text: as whole words, and, where only marked ones count, words in marks."""
    plain = [name for name in names if is_name(name) or (scrub == "all" and len(name) >= least)]
    marked = [name for name in names if name not in plain and scrub == "marked"]
    parts = []
    for given, form in (
        (plain, r"(?<!\w)(?:{})(?!\w)"),
        (marked, r"(?<=[`'\"])(?:{0})(?=[`'\"])|(?<!\w)(?:{0})(?=[(=])"),
    ):
        if given:
            parts.append(form.format("|".join(map(re.escape, sorted(given, key=len, reverse=True)))))
    if scrub == "none" or not parts:
        return None
    pattern = re.compile("|".join(parts))
    return lambda text: pattern.sub(lambda found: names[found[0]], text)


@dataclasses.dataclass(frozen=True)
class Renaming:
    """New names of functions, of the parameters of each, and what replaces names in texts, by function and in talk."""

    functions: Mapping[str, str]
    trees: Mapping[str, Names]
    texts: Mapping[str, Callable[[str], str] | None]
    said: Callable[[str], str] | None

    def row(self, row: Row) -> Row:
        """A row with them."""
        return dataclasses.replace(
            row,
            tools=tuple(map(self.tool, row.tools)),
            messages=tuple(map(self.message, row.messages)),
            gold=tuple(map(self.call, row.gold)),
            said=self.said(row.said) if self.said else row.said,
        )

    def tool(self, tool: Tool) -> Tool:
        """A tool with them."""
        change, name = self.texts.get(tool["name"]) or (lambda text: text), tool["name"]
        schema = _renamed(tool["parameters"], self.trees.get(name, {}), change)
        new = self.functions.get(name, name)
        return {**tool, "name": new, "description": change(tool["description"]), "parameters": schema}

    def call(self, call: Call) -> Call:
        """A call with them."""
        name = call["name"]
        arguments = _renamed_value(call["arguments"], self.trees.get(name, {}))
        return {"name": self.functions.get(name, name), "arguments": arguments}

    def message(self, message: Message) -> Message:
        """A message with them."""
        made = dict(message)
        if made.get("tool_calls"):
            made["tool_calls"] = [self._written(one) for one in made["tool_calls"]]
        if made["role"] != "tool" and self.said and made.get("content"):
            made["content"] = self.said(made["content"])
        if made["role"] == "tool" and "name" in made:
            made["name"] = self.functions.get(made["name"], made["name"])
        return made

    def _written(self, one: Mapping[str, Any]) -> dict[str, Any]:
        call = self.call(calls_of(one)[0])
        text = json.dumps(call["arguments"], ensure_ascii=False)
        return {**one, "function": {**one["function"], "name": call["name"], "arguments": text}}


def _renamed(schema: Any, tree: Names, change: Callable[[str], str]) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    made = dict(schema)
    if isinstance(made.get("description"), str):
        made["description"] = change(made["description"])
    if "enum" in schema or "const" in schema:
        tree = {}  # what it lists is data
    if isinstance(schema.get("properties"), Mapping):
        made["properties"] = {
            _name(name, tree): _renamed(one, _inner(name, tree), change) for name, one in schema["properties"].items()
        }
    for key in ("required", "propertyOrdering"):
        if isinstance(schema.get(key), list):
            made[key] = [_name(name, tree) for name in schema[key]]
    for key in ("default", "example", "examples"):
        made |= {key: _renamed_value(schema[key], tree)} if key in schema else {}
    for key in _PARTS:
        below = _inner("", tree) if key == "additionalProperties" else tree
        if isinstance(schema.get(key), list):
            made[key] = [_renamed(one, below, change) for one in schema[key]]
        elif key in schema:
            made[key] = _renamed(schema[key], below, change)
    return made


def _name(name: str, tree: Names) -> str:
    return tree[name]["as"] if name in tree else name


def _inner(name: str, tree: Names) -> Names:
    return tree[name]["in"] if name in tree else tree[""]["in"] if "" in tree else {}


def _renamed_value(value: Any, tree: Names) -> Any:
    if isinstance(value, list):
        return [_renamed_value(one, tree) for one in value]
    if not isinstance(value, Mapping):
        return value
    return {_name(name, tree): _renamed_value(one, _inner(name, tree)) for name, one in value.items()}
