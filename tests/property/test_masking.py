"""Masked rows of calls: whatever the schemas, the row comes back, and no name that could be known is left."""

import json
import keyword
import random
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.data.calls import assistant
from evolvent.data.fits import call_faults
from evolvent.data.masking import mask, swap, unmask
from evolvent.data.renaming import flat, is_name
from evolvent.data.rows import Row, all_text, leaves, of_training, training
from evolvent.data.schemas import each_part

NAMES = ["city", "get_weather", "getDate", "date", "unit", "x1", "größe", "n", "max.len", "items", "required", "room"]
WORDS = [
    "city",
    "Rome",
    "get_weather",
    "the",
    "'unit'",
    "date=",
    "1",
    "10",
    "11",
    "2021-01-01",
    "room",
    "°C",
    "getDate(",
]
VALUES = ["Rome", "10", "", "metric", 1, 10, 0, 2.5, True, False, None]
text = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
name = st.sampled_from(NAMES)


@st.composite
def schemas(draw, depth=2):
    """A schema and a value that fits it."""
    kinds = ["string", "integer", "number", "boolean", "enum"] + ["object", "array", "anyOf", "map"] * (depth > 0)
    kind, about = draw(st.sampled_from(kinds)), {"description": draw(text)}
    if kind == "enum":
        options = draw(st.lists(st.sampled_from(["city", "unit", "Rome", 1, True]), min_size=1, unique_by=repr))
        return {"enum": options, **about}, draw(st.sampled_from(options))
    if kind == "object":
        parts = draw(st.dictionaries(name, schemas(depth=depth - 1), max_size=3))
        required = draw(st.lists(st.sampled_from(sorted(parts)), unique=True)) if parts else []
        made = {"type": "object", "properties": {k: s for k, (s, _) in parts.items()}, "required": required, **about}
        return made, {k: v for k, (_, v) in parts.items() if k in required or draw(st.booleans())}
    if kind == "array":
        inner, value = draw(schemas(depth=depth - 1))
        return {"type": "array", "items": inner, **about}, [value] * draw(st.integers(0, 2))
    if kind == "anyOf":
        inner, value = draw(schemas(depth=depth - 1))
        return {"anyOf": [{"type": "null"}, inner], **about}, draw(st.sampled_from([None, value]))
    if kind == "map":
        inner, value = draw(schemas(depth=depth - 1))
        return {"type": "object", "additionalProperties": inner, **about}, {"city": value, "any key": value}
    of = {"string": str, "integer": int, "number": float, "boolean": bool}[kind]
    value = draw(st.sampled_from([one for one in VALUES if type(one) is of]))
    default = {"default": draw(st.sampled_from([value, *VALUES]))} if draw(st.booleans()) else {}
    return {"type": kind, **default, **about}, value


@st.composite
def rows(draw):
    tools, calls = [], []
    for fn in draw(st.lists(name, min_size=1, max_size=4, unique=True)):
        parts = draw(st.dictionaries(name, schemas(), max_size=4))
        schema = {"type": "object", "properties": {k: s for k, (s, _) in parts.items()}, "required": sorted(parts)[:1]}
        tools.append({"name": fn, "description": draw(text), "parameters": schema})
        calls.append({"name": fn, "arguments": {k: v for k, (_, v) in parts.items()}})
    picked = draw(st.lists(st.sampled_from(calls), max_size=3))
    before = [assistant(draw(text), [draw(st.sampled_from(calls))]), {"role": "tool", "content": draw(text)}]
    seen = [{"role": "system", "content": draw(text)}, {"role": "user", "content": draw(text)}]
    seen += [*before, {"role": "user", "content": draw(text)}] if draw(st.booleans()) else []
    return Row("r", "c", tuple(seen), tuple(tools), tuple(picked), said=draw(text))


options = st.fixed_dictionaries(
    {
        "scrub": st.sampled_from(["marked", "all", "none"]),
        "alphabet": st.sampled_from(["own", "published"]),
        "defaults": st.booleans(),
    }
)


def parts(schema):
    yield schema
    found = []
    each_part(schema, found.append)
    for one in found:
        yield from parts(one)


def enums(row):
    return sorted(json.dumps(one["enum"]) for tool in row.tools for one in parts(tool["parameters"]) if "enum" in one)


@settings(max_examples=100, deadline=None)
@given(rows(), options)
def test_the_row_comes_back(row, how):
    """Ten times a row: a thousand masks in all, as they stand in a file."""
    for epoch in range(10):
        masked = mask(row, random.Random(epoch), **how)
        assert unmask(masked) == row
        back = unmask(of_training(json.loads(json.dumps(training(masked, "chat")))))
        assert (back.messages, back.tools, back.gold, back.said) == (row.messages, row.tools, row.gold, row.said)


@settings(max_examples=100, deadline=None)
@given(rows(), st.integers(0, 2**32))
def test_what_a_mask_keeps_and_what_it_hides(row, seed):
    masked = mask(row, random.Random(seed), scrub="all")
    assert enums(masked) == enums(row)
    assert [bool(call_faults(call, masked.tools)) for call in masked.gold] == [
        bool(call_faults(call, row.tools)) for call in row.gold
    ]
    new = {tool["name"] for tool in masked.tools}
    for tree in masked.mask["parameters"].values():
        mine = list(flat(tree).values())
        assert len(mine) == len(set(mine)) and not new & set(mine)
        new |= set(mine)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", one) and not keyword.iskeyword(one) for one in new)
    assert len(masked.tools) == len(row.tools) == len({tool["name"] for tool in masked.tools})
    old = {one for tree in masked.mask["parameters"].values() for one in flat(tree)} | set(masked.mask["functions"])
    for tool in masked.tools:
        said = [tool["description"], *(one.get("description", "") for one in parts(tool["parameters"]))]
        assert not {one for one in old if len(one) >= 4} & set(re.findall(r"[\w.]+", " ".join(said)))
        keys = [
            key for one in parts(tool["parameters"]) for key in [*one.get("properties", {}), *one.get("required", [])]
        ]
        assert not old & set(keys) and tool["name"] not in old
    assert all(call["name"] in {tool["name"] for tool in masked.tools} for call in masked.gold)


@settings(max_examples=100, deadline=None)
@given(rows(), st.integers(0, 2**32))
def test_two_epochs_differ_and_types_stay(row, seed):
    first, second = (mask(row, random.Random(f"{seed}/{epoch}")) for epoch in range(2))
    assert {tool["name"] for tool in first.tools} & {tool["name"] for tool in second.tools} == set()
    assert mask(row, random.Random(f"{seed}/0")) == first
    kinds = [[type(one) for call in given.gold for one in leaves(call["arguments"])] for given in (row, first)]
    assert kinds[0] == kinds[1]


@settings(max_examples=100, deadline=None)
@given(rows(), st.integers(0, 2**32))
def test_swapped_names_stay_with_other_descriptions(row, seed):
    swapped = swap(row, random.Random(seed))
    assert sorted(tool["name"] for tool in swapped.tools) == sorted(tool["name"] for tool in row.tools)
    if len(row.tools) > 1:
        for old, new in zip(row.tools, swapped.tools, strict=True):
            assert old["name"] != new["name"] and {**old, "name": ""} == {**new, "name": ""}
    assert [call_faults(call, swapped.tools) for call in swapped.gold] == [
        call_faults(call, row.tools) for call in row.gold
    ]


def test_names_are_told_from_words():
    assert [one for one in ["city", "getDate", "get_x", "x1", "City", "a.b", "HTTP", "two-way"] if is_name(one)] == [
        "getDate",
        "get_x",
        "x1",
        "a.b",
        "two-way",
    ]
    assert "city" not in all_text(Row("a", "b", (), (), ()))
