"""Whether a value fits its schema, and a call its tool: the part of JSON Schema (2020-12) that tools use.

Held against the package ``jsonschema`` in the tests. What is not looked at, ``unchecked`` names: formats, conditions,
and the like; nor whether ``oneOf`` fits twice. What a schema of an object does not name is refused where it does not
say ``additionalProperties``: no function takes such an argument.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evolvent.data.schemas import Schema, Tool, each_part
from evolvent.formulas.call_match import same_value

_OF = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: _number(v) and float(v).is_integer(),
    "number": lambda v: _number(v),
    "boolean": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, Mapping),
    "null": lambda v: v is None,
}

_RULES = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
    "multipleOf": lambda v, of: not of or abs(v / of - round(v / of)) < 1e-9,
}
_CHECKED = {
    *("type", "nullable", "enum", "const", "allOf", "anyOf", "oneOf", "not", *_RULES, "pattern"),
    *("properties", "patternProperties", "required", "additionalProperties"),
    *("items", "prefixItems", "uniqueItems"),
    *(f"{end}{what}" for end in ("min", "max") for what in ("Items", "Length", "Properties")),
}
_ABOUT = {"title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly", "$comment"}
"""Keywords that ask nothing of a value."""


def call_faults(call: Mapping[str, Any], tools: Iterable[Tool]) -> list[str]:
    """What is wrong with a call of one of the tools; empty where it fits."""
    tool = next((one for one in tools if one["name"] == call["name"]), None)
    return [f"{call['name']} is not listed"] if tool is None else faults(call["arguments"], tool["parameters"])


def faults(value: Any, schema: Schema | bool, at: str = "", *, strict: bool = True) -> list[str]:
    """What is wrong with a value, each fault with the way to it; empty where it fits.

    ``strict=False`` takes arguments that the schema does not name, as JSON Schema itself does.
    """
    return list(_faults(value, schema, at, strict))


def unchecked(schema: Schema) -> set[str]:
    """The keywords of a schema that ``faults`` does not look at, those that ask nothing of a value aside."""
    found = {key for key in schema if key not in _CHECKED | _ABOUT and not key.startswith("x-")}
    each_part(schema, lambda part: found.update(unchecked(part)))
    return found


def _faults(value: Any, schema: Schema | bool, at: str, strict: bool) -> Iterator[str]:
    if isinstance(schema, bool):
        if not schema:
            yield f"{_at(at)}nothing is allowed here"
        return
    if value is None and schema.get("nullable"):
        return
    kinds = schema.get("type")
    if kinds is not None:
        names = kinds if isinstance(kinds, list) else [kinds]
        if not any(_OF.get(name, lambda _: True)(value) for name in names):
            yield f"{_at(at)}{_short(value)} is no {' or '.join(names)}"
            return
    for key, allowed in (("enum", schema.get("enum")), ("const", [schema["const"]] if "const" in schema else None)):
        if allowed is not None and not any(same_value(value, one) for one in allowed):
            yield f"{_at(at)}{_short(value)} is none of {', '.join(map(_short, allowed))} ({key})"
    yield from _combined(value, schema, at, strict)
    if isinstance(value, Mapping):
        yield from _of_object(value, schema, at, strict)
    elif isinstance(value, list):
        yield from _of_list(value, schema, at, strict)
    elif isinstance(value, str) or _number(value):
        yield from _bounds(value, schema, at)


def _combined(value: Any, schema: Schema, at: str, strict: bool) -> Iterator[str]:
    for one in schema.get("allOf", ()):
        yield from _faults(value, one, at, strict and "properties" not in schema)
    for key in ("anyOf", "oneOf"):
        found = [list(_faults(value, one, at, strict)) for one in schema.get(key, ())]
        if found and all(found):
            yield min(found, key=len)[0]
    if "not" in schema and not faults(value, schema["not"], at, strict=False):
        yield f"{_at(at)}{_short(value)} is what the schema excludes (not)"


def _of_object(value: Mapping[str, Any], schema: Schema, at: str, strict: bool) -> Iterator[str]:
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{_at(at, name)}missing"
    parts = any(key in schema for key in ("anyOf", "oneOf", "allOf"))  # they say more about its properties
    other = schema.get("additionalProperties", not (strict and "properties" in schema and not parts))
    for name, one in value.items():
        mine = [properties[name]] if name in properties else []
        mine += [part for pattern, part in patterns.items() if _matches(pattern, name)]
        if not mine and other is False:
            yield f"{_at(at, name)}not in the schema"
            continue
        for part in mine or [other]:
            yield from _faults(one, part, f"{at}.{name}" if at else name, strict)
    yield from _size(len(value), schema, "Properties", at)


def _of_list(value: list[Any], schema: Schema, at: str, strict: bool) -> Iterator[str]:
    first = schema.get("prefixItems", [])
    for i, one in enumerate(value):
        yield from _faults(one, first[i] if i < len(first) else schema.get("items", True), f"{at}[{i}]", strict)
    yield from _size(len(value), schema, "Items", at)
    if schema.get("uniqueItems") is True:
        twice = (one for i, one in enumerate(value) if any(same_value(one, other) for other in value[:i]))
        yield from (f"{_at(at)}{_short(one)} stands there twice (uniqueItems)" for one in twice)


def _bounds(value: Any, schema: Schema, at: str) -> Iterator[str]:
    if isinstance(value, str):
        yield from _size(len(value), schema, "Length", at)
        if "pattern" in schema and not _matches(schema["pattern"], value):
            yield f"{_at(at)}{_short(value)} does not match {schema['pattern']}"
        return
    for key, holds in _RULES.items():
        if _number(schema.get(key)) and not holds(value, schema[key]):
            yield f"{_at(at)}{_short(value)} breaks {key} {schema[key]}"


def _size(n: int, schema: Schema, what: str, at: str) -> Iterator[str]:
    least, most = schema.get(f"min{what}", 0), schema.get(f"max{what}", n)
    if not least <= n <= most:
        yield f"{_at(at)}{what.lower()} {n}, the schema wants {f'at least {least}' if n < least else f'at most {most}'}"


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:  # of another dialect: nothing is known
        return True


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _at(at: str, name: str = "") -> str:
    way = ".".join(part for part in (at, name) if part)
    return f"{way}: " if way else ""


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:59] + "…"
