"""Tools in four forms are one, and what cannot be a tool says so."""

import json

import pytest

from evolvent.core.errors import BadInput
from evolvent.data.fits import call_faults, faults, unchecked
from evolvent.data.schemas import of_python, read_tools, tools_of
from evolvent.traces.events import Repairs

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FLAT = {
    "city": {"type": "str", "description": "Where"},
    "days": {"type": "int, optional", "description": "", "default": "3"},
}


def tool(parameters, name="look", description="See."):
    return {"name": name, "description": description, "parameters": parameters}


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "function", "function": tool(SCHEMA)},
        {"type": "function", **tool(SCHEMA)},
        tool(SCHEMA),
        {"name": "look", "description": "See.", "input_schema": SCHEMA},
        {"name": "look", "description": "See.", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
        tool(json.dumps(SCHEMA)),
        tool({"type": "dict", "properties": {"city": {"type": "STRING", "title": "City"}}, "required": ["city"]}),
        tool(
            {
                "$ref": "#/$defs/In",
                "$defs": {"In": SCHEMA | {"properties": {"city": {"$ref": "#/$defs/C"}}}, "C": {"type": "string"}},
            }
        ),
        tool({"city": {"type": "str"}}),
    ],
    ids=["chat", "responses", "bare", "anthropic", "mcp", "text", "other types", "references", "xlam"],
)
def test_every_form_is_one(entry):
    assert tools_of([entry], "here", Repairs()) == [tool(SCHEMA)]
    assert tools_of({"result": {"tools": [entry]}}, "here", Repairs()) == [tool(SCHEMA)]


def test_a_flat_table_has_no_required_and_types_of_python():
    (found,) = tools_of([tool(FLAT)], "here", Repairs())
    assert found["parameters"]["required"] == ["city"]
    assert found["parameters"]["properties"]["days"] == {"type": "integer", "description": "", "default": "3"}
    named = tool(
        {"type": {"type": "str", "description": "Kind"}, "properties": {"type": "List[int]", "description": ""}}
    )
    (found,) = tools_of([named], "here", Repairs())
    assert set(found["parameters"]["properties"]) == {"type", "properties"}, "parameters may be called as keywords are"
    assert of_python("Union[int, Optional[str]]") == {
        "anyOf": [{"type": "int"}, {"anyOf": [{"type": "str"}, {"type": "null"}]}]
    }


def test_titles_go_unless_they_are_all_that_is_said():
    given = {
        "type": "object",
        "title": "lookArguments",
        "properties": {"is_in": {"title": "Is In", "type": "string"}, "x": {"title": "How far"}},
    }
    (found,) = tools_of([tool(given)], "here", Repairs())
    assert found["parameters"] == {
        "type": "object",
        "properties": {"is_in": {"type": "string"}, "x": {"description": "How far"}},
    }


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([], "no tools"),
        ([{"description": "no name"}], "not a tool"),
        ([tool(SCHEMA), tool({"type": "object"})], "two tools have one name"),
        ([tool({"city": "string"})], "parameters are no schema"),
        ([tool({"type": "array"})], "parameters are no object"),
        (
            [tool({"$ref": "#/$defs/N", "$defs": {"N": {"properties": {"next": {"$ref": "#/$defs/N"}}}}})],
            "refers to itself",
        ),
        ([tool({"$ref": "#/$defs/Gone"})], "a reference leads nowhere"),
        ([tool({"$ref": "https://example.org/x.json"})], "a reference leads nowhere"),
        ("[{", "the tools are no JSON"),
    ],
)
def test_what_is_no_tool_says_what_and_where(value, says):
    with pytest.raises(BadInput, match=says) as caught:
        tools_of(value, "tools.json", Repairs())
    assert "tools.json" in caught.value.where


def test_references_that_double_do_not_fill_the_memory():
    defs = {
        f"D{i}": {"properties": {"a": {"$ref": f"#/$defs/D{i + 1}"}, "b": {"$ref": f"#/$defs/D{i + 1}"}}}
        for i in range(30)
    }
    with pytest.raises(BadInput, match="too large"):
        tools_of([tool({"$ref": "#/$defs/D0", "$defs": {**defs, "D30": {}}})], "here", Repairs())


def test_files(tmp_path):
    (tmp_path / "empty.json").write_text(" ")
    with pytest.raises(BadInput, match="empty"):
        read_tools(tmp_path / "empty.json", Repairs())
    (tmp_path / "cut.json").write_text('[{"name": "a"')
    with pytest.raises(BadInput, match="not JSON"):
        read_tools(tmp_path / "cut.json", Repairs())
    many = [tool(SCHEMA, name=f"größe_{i}") for i in range(200)]
    notes = Repairs()
    (tmp_path / "many.jsonl").write_text("\n".join(json.dumps(one) for one in [*many, many[3]]))
    assert len(read_tools(tmp_path / "many.jsonl", notes)) == 200
    assert notes.counts["tools that stand there twice, once kept"] == 1
    provided = [{"type": "web_search"}, {"type": "web_search_20250305", "name": "web_search"}]
    given = [*provided, {"type": "custom", "name": "look", "description": "See.", "input_schema": SCHEMA}]
    assert tools_of(given, "here", notes) == [tool(SCHEMA)]
    assert notes.counts["tools that run at the provider, left out"] == 2


# ------------------------------------------------------------------------------------------------------- fitting
def test_what_is_wrong_is_said_with_its_place():
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "enum": ["Rome", "Oslo"]},
            "who": {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}, "required": ["age"]},
            "list": {"type": "array", "items": {"type": "number"}, "maxItems": 2},
        },
        "required": ["city"],
    }
    look = tool(schema)
    assert call_faults({"name": "look", "arguments": {"city": "Rome"}}, [look]) == []
    assert call_faults({"name": "gone", "arguments": {}}, [look]) == ["gone is not listed"]
    wrong = {"city": "Paris", "who": {"age": -1}, "list": [1, True, 2.5], "town": 1}
    assert faults(wrong, schema) == [
        'city: "Paris" is none of "Rome", "Oslo" (enum)',
        "who.age: -1 breaks minimum 0",
        "list[1]: true is no number",
        "list: items 3, the schema wants at most 2",
        "town: not in the schema",
    ]
    assert faults({}, schema) == ["city: missing"]
    assert faults({"who": {}}, {"properties": {"who": {"required": ["age"]}}}) == ["who.age: missing"]


def test_what_is_not_checked_is_named():
    schema = {
        "type": "object",
        "properties": {
            "format": {"type": "string", "description": "A word", "x-order": 1},
            "day": {"type": "string", "format": "date"},
            "all": {"type": "array", "items": {"anyOf": [{"if": {"minimum": 1}, "then": {"multipleOf": 2}}]}},
        },
        "dependentRequired": {"day": ["all"]},
    }
    assert unchecked(schema) == {"format", "if", "then", "dependentRequired"}
    assert not any(map(unchecked, SCHEMAS)), "these are, as the table below holds"


SCHEMAS = [
    {"type": "string", "minLength": 1, "maxLength": 2, "pattern": "^a"},
    {"type": ["integer", "null"], "minimum": 0, "exclusiveMaximum": 3},
    {"type": "number", "maximum": 2},
    {"enum": [1, "a", None, [1]]},
    {"const": True},
    {"type": "array", "items": {"type": "integer"}, "minItems": 1},
    {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False},
    {"type": "object", "properties": {"a": True}, "additionalProperties": {"type": "string"}},
    {"anyOf": [{"type": "string"}, {"type": "object", "required": ["a"]}]},
    {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    {"allOf": [{"type": "integer"}, {"minimum": 1}]},
    {},
    {"type": "number", "multipleOf": 0.5, "not": {"enum": [2]}},
    {"type": "array", "uniqueItems": True},
    {"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": False, "minProperties": 1},
    {"properties": {"a": {"type": ["integer", "boolean"]}}, "patternProperties": {"a|b": {"not": {"type": "boolean"}}}},
]
VALUES = [None, True, False, 0, 1, 1.0, 2, 2.5, 3, -1, "", "a", "ab", "abc", "b", [], [1], [1, 1], [True, 1], ["a", 1]]
VALUES += [["a", "b"], {}, {"a": 1}, {"a": 1.0, "b": "x"}, {"a": "x"}, {"b": 1}, [1.5], [[1]], {"a": True}]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_it_says_what_jsonschema_says(schema):
    """Held against the package over every pair; without it the table of verdicts below stands for it."""
    jsonschema = pytest.importorskip("jsonschema", reason="the package jsonschema is the judge here")
    judge = jsonschema.Draft202012Validator(schema)
    assert [not faults(value, schema, strict=False) for value in VALUES] == [judge.is_valid(v) for v in VALUES]


def test_its_verdicts_are_those_that_jsonschema_gave():
    """As printed by jsonschema 4.26 on the same pairs; 1 = valid."""
    assert ["".join("01"[not faults(v, s, strict=False)] for v in VALUES) for s in SCHEMAS] == TABLE


TABLE = [
    "00000000000110000000000000000",
    "10011110000000000000000000000",
    "00011110010000000000000000000",
    "10001100000100001000000000000",
    "01000000000000000000000000000",
    "00000000000000001100000000000",
    "00000000000000010001000000000",
    "00000000000000000000001000000",
    "00000000000000000000011110001",
    "00000000001111100000001110001",
    "00011110111111100000000000000",
    "00001110100000000000000000000",
    "11111111111111111111111111111",
    "00011101110000000000000000000",
    "00000000000000011011100000110",
    "11111111111111111111101000110",
    "11111111111111111111111101110",
]
