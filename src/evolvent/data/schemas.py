"""Tools in the forms that people have them, as one: ``{"name", "description", "parameters": JSON Schema}``.

Read are OpenAI's (Chat and Responses), Anthropic's (``input_schema``), MCP's (``inputSchema``, also the answer of
``tools/list``) and xLAM's, whose ``parameters`` are a flat table with types of Python and no ``required``: there a
parameter may be left out where its type says "optional" or it has a default. Types of Python or of Gemini ("dict",
"float", "STRING") become those of JSON Schema; ``$ref`` is put in place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from evolvent.core.errors import BadInput
from evolvent.traces.events import Repairs, parse, read_bytes

Schema: TypeAlias = "dict[str, Any]"
Tool: TypeAlias = "dict[str, Any]"
"""``{"name": str, "description": str, "parameters": Schema}``."""
MAX_PARTS, MAX_LEVELS = 5_000, 32
"""Parts of a schema whose references are put in place, and levels of nesting."""
LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What endpoints take as the name of a function."""
_TYPES = {
    "string": "str text char character date datetime",
    "integer": "int long short byte",
    "number": "float double decimal",
    "boolean": "bool",
    "array": "list tuple set arraylist sequence",
    "object": "dict hashmap map mapping",
    "null": "none",
}
_TYPE = {word: name for name, words in _TYPES.items() for word in (name, *words.split())}
_MAPS, _LISTS = ("properties", "patternProperties"), ("anyOf", "oneOf", "allOf", "prefixItems")
_KEYWORDS = {"type", "properties", "required", "additionalProperties", "$ref", *_LISTS}
_SINGLE = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")


def read_tools(path: Path, repairs: Repairs) -> list[Tool]:
    """The tools in a JSON file, or in a file of one tool a line.

    Raises:
        BadInput: no such file, nothing in it, what is no tool, or two tools of one name.
    """
    data = read_bytes(path)
    if not data.strip():
        expected = "a JSON list of tools"
        raise BadInput("the file of the tools is empty", got=str(path), expected=expected, where=str(path))
    try:
        value = parse(data, str(path), repairs)
    except BadInput:
        if path.suffix != ".jsonl":
            raise
        value = [parse(line, f"{path}:{i}", repairs) for i, line in enumerate(data.splitlines(), 1) if line.strip()]
    return tools_of(value, str(path), repairs)


def tools_of(value: Any, where: str, repairs: Repairs) -> list[Tool]:
    """The tools in a JSON value: a list, text of one, ``{"tools": [...]}``, or a single tool.

    Counted in ``repairs``: tools that stand there twice, and what runs at the provider and has no schema.

    Raises:
        BadInput: what is no tool, or two different tools of one name.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise BadInput("the tools are no JSON", got=str(error), expected="a list of tools", where=where) from error
    if isinstance(value, Mapping):
        value = next((value[key] for key in ("tools", "functions", "result") if key in value), [value])
        if isinstance(value, Mapping):  # the whole answer of MCP's tools/list
            value = value.get("tools", [])
    if not isinstance(value, Sequence) or not value:
        raise BadInput("no tools", got=repr(value)[:100], expected="a JSON list of tools", where=where)
    found: dict[str, Tool] = {}
    for place, entry in enumerate(value):
        tool = tool_of(entry, f"{where}, tool {place + 1}", repairs)
        if tool is None:
            continue
        before = found.setdefault(tool["name"], tool)
        if before is not tool and before != tool:
            raise BadInput(
                "two tools have one name",
                got=tool["name"],
                expected="a name for each",
                where=f"{where}, tool {place + 1}",
                do="give one of them another name, in the calls, too: put its server's name before it, say",
            )
        if before is not tool:
            repairs.add("tools that stand there twice, once kept", where)
    return list(found.values())


def tool_of(entry: Any, where: str, repairs: Repairs) -> Tool | None:
    """One tool in any of the forms; ``None`` for one that the provider runs, which has no schema.

    Raises:
        BadInput: it has no name, its parameters are no schema, or a reference in it leads nowhere or in a circle.
    """
    inner = entry.get("function", entry) if isinstance(entry, Mapping) else entry
    keys = ("parameters", "input_schema", "inputSchema")
    given = next((inner[key] for key in keys if inner.get(key) is not None), None) if isinstance(inner, Mapping) else {}
    if given is None and isinstance(inner.get("type"), str) and inner["type"] not in ("function", "custom"):
        repairs.add("tools that run at the provider, left out", where)  # {"type": "web_search_…", "name": "web_search"}
        return None
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str) or not inner["name"].strip():
        expected = '{"name", "description", "parameters"} of OpenAI, Anthropic, MCP or xLAM'
        raise BadInput("not a tool", got=repr(entry)[:120], expected=expected, where=where)
    given = {} if given is None else given
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    if not isinstance(given, Mapping):
        raise BadInput("parameters are no schema", got=repr(given)[:100], expected="a JSON object", where=where)
    schema = _of_xlam(given, where, repairs) if _is_flat(given) else _of_json(given, where, repairs)
    description = str(inner.get("description") or inner.get("title") or "")
    return {"name": inner["name"].strip(), "description": description, "parameters": schema}


def wrapped(tool: Tool) -> dict[str, Any]:
    """A tool as OpenAI's Chat endpoints take it."""
    return {"type": "function", "function": tool}


def each_part(schema: Schema, change: Callable[[Schema], Any]) -> Schema:
    """A schema with ``change`` applied to each schema directly in it; a property called "items" is no keyword."""
    made: Schema = {}
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, Mapping):
            made[key] = {name: change(dict(one)) if isinstance(one, Mapping) else one for name, one in value.items()}
        elif key in _LISTS and isinstance(value, list):
            made[key] = [change(dict(one)) if isinstance(one, Mapping) else one for one in value]
        elif key in _SINGLE and isinstance(value, Mapping):
            made[key] = change(dict(value))
        else:
            made[key] = value
    return made


def resolved(schema: Schema, where: str) -> Schema:
    """A schema with what ``$ref`` points at in place of it; keys beside a reference hold over it.

    Raises:
        BadInput: a reference that leads out of the schema, nowhere or in a circle, or a schema that grows too large.
    """
    parts = 0

    def inside(one: Schema, way: tuple[str, ...], level: int) -> Schema:
        nonlocal parts
        parts += 1
        if parts > MAX_PARTS or level > MAX_LEVELS:
            expected = f"at most {MAX_PARTS} parts and {MAX_LEVELS} levels, references in place"
            raise BadInput("the schema is too large", got=f"{parts} parts", expected=expected, where=where)
        to = one.get("$ref")
        if isinstance(to, str):
            if to in way:
                raise BadInput(
                    "the schema refers to itself",
                    got=" → ".join((*way[way.index(to) :], to)),
                    expected="parameters of some depth",
                    where=where,
                    do="write the inner levels out as deep as they are used, or leave the tool out",
                )
            rest = {key: value for key, value in one.items() if key != "$ref"}
            return inside({**_pointed(schema, to, where), **rest}, (*way, to), level + 1)
        kept = {key: value for key, value in one.items() if key not in ("$defs", "definitions", "$schema", "$id")}
        return each_part(kept, lambda part: inside(part, way, level + 1))

    return inside(schema, (), 0)


def _pointed(schema: Schema, to: str, where: str) -> Schema:
    at: Any = schema if to[:1] == "#" else None
    for step in to[1:].strip("/").split("/") if to != "#" else ():
        step = step.replace("~1", "/").replace("~0", "~")
        at = at.get(step) if isinstance(at, Mapping) else None
    if not isinstance(at, Mapping):
        raise BadInput("a reference leads nowhere", got=to, expected="#/$defs/NAME in the same schema", where=where)
    return dict(at)


# ------------------------------------------------------------------------------------------------------ dialects
def _is_flat(given: Mapping[str, Any]) -> bool:
    """Whether it is xLAM's table of parameters, of which one may be called "type" or "properties"."""
    inner = [one.get("type", one.get("description")) if isinstance(one, Mapping) else None for one in given.values()]
    return bool(inner) and all(isinstance(one, str) for one in inner)


def _of_json(given: Mapping[str, Any], where: str, repairs: Repairs) -> Schema:
    if given and not given.keys() & _KEYWORDS:
        expected = "JSON Schema, or a table of {type, description} a parameter"
        raise BadInput("parameters are no schema", got=repr(dict(given))[:100], expected=expected, where=where)
    schema = _typed(resolved(dict(given), where), where, repairs)
    schema.setdefault("type", "object")
    if schema["type"] != "object":
        raise BadInput("parameters are no object", got=repr(given.get("type")), expected="an object", where=where)
    schema.setdefault("properties", {})
    schema.pop("title", None)
    return schema


def _typed(schema: Schema, where: str, repairs: Repairs) -> Schema:
    """With types of JSON Schema in place of those of a language; one that nobody knows allows anything.

    Titles, which most libraries make from the name, are left out; one that says more where nothing else does is the
    description.
    """
    schema = each_part(schema, lambda part: _typed(part, where, repairs))
    if isinstance(schema.get("properties"), Mapping):
        schema["properties"] = {name: _untitled(one, name) for name, one in schema["properties"].items()}
    kind = schema.get("type")
    if kind is None:
        return schema
    names = kind if isinstance(kind, list) else [kind]
    known = [_TYPE.get(str(name).lower()) for name in names]
    if None in known:
        if "any" not in [str(name).lower() for name in names]:
            repairs.add("types that are unknown, taken as any", where)
        return {key: value for key, value in schema.items() if key != "type"}
    return {**schema, "type": known if isinstance(kind, list) else known[0]}


def _untitled(schema: Any, name: str) -> Any:
    if not isinstance(schema, Mapping) or not isinstance(schema.get("title"), str):
        return schema
    title, rest = schema["title"], {key: value for key, value in schema.items() if key != "title"}
    said = re.sub(r"\W|_", "", title).lower() == re.sub(r"\W|_", "", name).lower()
    return rest if said or rest.get("description") else {"description": title, **rest}


def _of_xlam(given: Mapping[str, Any], where: str, repairs: Repairs) -> Schema:
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for name, about in given.items():
        kind, optional = re.subn(r",\s*optional\s*$", "", str(about.get("type", "any")))
        rest = {key: value for key, value in about.items() if key not in ("type", "required")}
        properties[name] = _typed({**of_python(kind), **rest}, where, repairs)
        if about.get("required", not optional and "default" not in about) is True:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def of_python(text: str) -> Schema:
    """A type as Python writes it: ``List[int]``, ``Optional[str]``, ``Union[int, float]``, ``str | None``."""
    outer, _, inner = text.strip().removesuffix("]").partition("[")
    parts = [part.strip() for part in re.split(r",(?![^\[]*\])", inner)] if inner else []
    name = outer.rpartition(".")[2].strip().lower()
    if "|" in text and "[" not in text:
        return {"anyOf": [of_python(part) for part in text.split("|")]}
    if name == "optional" and parts:
        return {"anyOf": [of_python(parts[0]), {"type": "null"}]}
    if name == "union" and parts:
        return {"anyOf": [of_python(part) for part in parts]}
    if name == "literal":
        return {"enum": [part.strip("'\"") for part in parts]}
    if name in ("any", ""):
        return {}
    if _TYPE.get(name) == "array" and parts and name != "tuple":
        return {"type": "array", "items": of_python(parts[0])}
    return {"type": name}
