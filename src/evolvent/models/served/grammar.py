"""JSON schema to GBNF, llama.cpp's grammar notation: the subset that tool calls and small records use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evolvent.core.errors import BadInput

_SHAPES = {"type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "$ref", "$defs", "definitions"}
_BOUNDS = {"minItems", "maxItems", "minLength", "maxLength"}
_NOTES = {"title", "description", "default", "examples", "$schema", "$id", "$comment"}
_KNOWN = _SHAPES | _BOUNDS | _NOTES | {"additionalProperties"}

_BASE = {
    "ws": '" "?',
    "char": r'[^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F])',
    "string": r'"\"" char* "\""',
    "integer": '"-"? ("0" | [1-9] [0-9]{0,15})',
    "number": 'integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?',
    "boolean": '"true" | "false"',
    "null": '"null"',
    "value": "object | array | string | number | boolean | null",
    "object": '"{" ws (string ws ":" ws value (ws "," ws string ws ":" ws value)*)? ws "}"',
    "array": '"[" ws (value (ws "," ws value)*)? ws "]"',
}


def schema_grammar(schema: Mapping[str, Any]) -> str:
    """A GBNF grammar whose language is JSON texts that fit ``schema``, with at most one space between tokens.

    Properties come in the order of the schema; properties that it does not name are not generated. Supported: type
    (one or a list), properties, required, items, minItems, maxItems, minLength, maxLength, enum, const, anyOf, oneOf
    (as anyOf), local ``$ref``. Annotations are ignored.

    Raises:
        BadInput: a keyword that would be silently ignored otherwise (pattern, minimum, allOf, …), with its place.
    """
    return _Writer(schema).text()


class _Writer:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root, self._rules, self._refs = schema, dict(_BASE), dict[str, str]()

    def text(self) -> str:
        rules = {"root": self._rule(self._root, "schema"), **self._rules}
        return "\n".join(f"{name} ::= {body}" for name, body in rules.items())

    def _rule(self, schema: Any, at: str) -> str:
        if schema is True or schema == {}:
            return "value"
        if not isinstance(schema, Mapping):
            raise BadInput("not a JSON schema", got=schema, expected="an object or true", where=at)
        if unknown := sorted(set(schema) - _KNOWN):
            raise BadInput(
                "a schema keyword that a grammar cannot enforce", got=unknown, expected=sorted(_KNOWN), where=at
            )
        if "$ref" in schema:
            return self._ref(schema["$ref"], at)
        if "const" in schema:
            return _literal(json.dumps(schema["const"], ensure_ascii=False))
        if "enum" in schema:
            return "(" + " | ".join(_literal(json.dumps(v, ensure_ascii=False)) for v in schema["enum"]) + ")"
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return "(" + " | ".join(self._rule(o, f"{at}/anyOf/{i}") for i, o in enumerate(options)) + ")"
        kind = schema.get("type", "object" if "properties" in schema else "array" if "items" in schema else "value")
        if isinstance(kind, list):
            return "(" + " | ".join(self._typed(k, schema, at) for k in kind) + ")"
        return self._typed(kind, schema, at)

    def _typed(self, kind: str, schema: Mapping[str, Any], at: str) -> str:
        if kind == "object" and schema.get("properties"):
            return self._object(schema, at)
        if kind == "array" and {"items", "minItems", "maxItems"} & set(schema):
            item, low, high = self._rule(schema.get("items", True), f"{at}/items"), *_bounds(schema, "Items", at)
            if high == 0:
                return '"[" ws "]"'
            more = f'(ws "," ws {item}){{{max(low - 1, 0)},{"" if high is None else high - 1}}}'
            return f'"[" ws ({item} {more}){"?" if low == 0 else ""} ws "]"'
        if kind == "string" and {"minLength", "maxLength"} & set(schema):
            low, high = _bounds(schema, "Length", at)
            return f'"\\"" char{{{low},{"" if high is None else high}}} "\\""'
        if kind in ("object", "array", "string", "integer", "number", "boolean", "null", "value"):
            return kind
        raise BadInput("an unknown JSON type", got=kind, where=at)

    def _object(self, schema: Mapping[str, Any], at: str) -> str:
        """Each property, required or optional, with a comma before it unless it is the first one present."""
        required, pairs = set(schema.get("required", ())), []
        for key, value in schema["properties"].items():
            name = _literal(json.dumps(key, ensure_ascii=False))
            pairs.append((f'{name} ws ":" ws {self._rule(value, f"{at}/properties/{key}")}', key in required))
        if missing := sorted(required - set(schema["properties"])):
            raise BadInput("required properties that are not described", got=missing, where=at)
        first = rest = ""  # built from the last property backwards: what may follow when none / one was written
        for pair, needed in reversed(pairs):
            self._rules[f"o{len(self._rules)}"] = rest or '""'
            after = f"o{len(self._rules) - 1}"
            first = f"{pair} {after}" if needed else f"({pair} {after} | {first or chr(34) * 2})"
            rest = f'ws "," ws {pair} {after}' if needed else f'(ws "," ws {pair})? {after}'
        return f'"{{" ws {first} ws "}}"'

    def _ref(self, ref: Any, at: str) -> str:
        if ref not in self._refs:
            target: Any = self._root
            for part in str(ref).removeprefix("#").strip("/").split("/") if ref != "#" else ():
                if not str(ref).startswith("#") or not isinstance(target, Mapping) or part not in target:
                    raise BadInput("a $ref that does not resolve", got=ref, expected="#/$defs/NAME", where=at)
                target = target[part]
            self._refs[ref] = f"ref{len(self._refs)}"  # named before it is written: schemas may be recursive
            self._rules[self._refs[ref]] = self._rule(target, str(ref))
        return self._refs[ref]


def _bounds(schema: Mapping[str, Any], what: str, at: str) -> tuple[int, int | None]:
    low, high = schema.get(f"min{what}", 0), schema.get(f"max{what}")
    if not isinstance(low, int) or low < 0 or (high is not None and (not isinstance(high, int) or high < low)):
        raise BadInput(f"min{what} and max{what} do not fit", got=(low, high), expected="0 <= min <= max", where=at)
    return low, high


def _literal(text: str) -> str:
    """A GBNF literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
