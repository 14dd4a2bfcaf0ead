"""Where the released masking errs, case by case; names written as names, and words."""

import random
from dataclasses import replace

import pytest

from evolvent.core.errors import BadInput
from evolvent.data.asking import calls_in
from evolvent.data.masking import left, mask, unmask
from evolvent.data.rows import Row


def row(default, value, request, *, kind="integer", about="How many.", more=None, **schema):
    one = {"type": kind, "description": about, "default": default, **schema}
    parameters = {"type": "object", "properties": {"n": one, "other": {"type": "integer"}}, "required": ["n"]}
    tool = {"name": "book_room", "description": "Reserve.", "parameters": parameters}
    call = {"name": "book_room", "arguments": {"n": value, **({} if more is None else {"other": more})}}
    return Row("r", "c", ({"role": "user", "content": request},), (tool,), (call,))


def changed(given, seeds=20):
    """What changes of defaults were made, over some draws; the row comes back every time."""
    made = []
    for seed in range(seeds):
        masked = mask(given, random.Random(seed))
        assert unmask(masked) == given
        n = masked.mask["parameters"]["book_room"]["n"]["as"]
        schema = masked.tools[0]["parameters"]["properties"][n]
        said = (schema["default"], masked.gold[0]["arguments"][n], masked.request, schema["description"])
        made += [said] if masked.mask["defaults"] else []
    return made


def test_a_default_that_is_used_changes_everywhere_at_once():
    found = changed(row(2, 2, "A table for 2, at 12:02 on 2021-02-02.", about="Guests, 2 if nobody says."))
    assert found
    for default, value, request, about in found:
        assert default == value in (3, 4, 5, 6)
        assert (
            request == f"A table for {value}, at 12:02 on 2021-02-02." and about == f"Guests, {value} if nobody says."
        )
    for default, value, _, _ in changed(row(1.5, 1.5, "x", kind="number")):
        assert default == value and 1.5 < value < 2.5
    for default, value, request, _ in changed(row("Rome", "Rome", "see rome, not Romeo", kind="string")):
        assert default == value != "Rome" and request == f"see {value}, not Romeo"


@pytest.mark.parametrize(
    "given",
    [
        row(True, True, "x", kind="boolean"),
        row("10", 10, "x"),
        row(10, "10", "x", kind="string"),
        row(1, True, "x"),
        row(1, 1.0, "x", kind="number"),
        row(1, 1, "Book 1 room for 1 night"),
        row(1, 1, "Book one room"),
        row(1, 1, "Book a room", more=1),
        row(1, 1, "Book a room", about="1 or more, else 1"),
        row("a", "a", "x", kind="string", enum=["a", "b"]),
        row("2021-01-01", "2021-01-01", "x", kind="string", format="date"),
        row(5, 5, "x", maximum=5),
        row(1, 2, "x"),
        row([1], [1], "x", kind="array"),
        row({"a": 1}, {"a": 1}, "x", kind="object"),
        row("", "", "x", kind="string"),
    ],
    ids=lambda given: given.request,
)
def test_what_could_teach_a_wrong_value_is_left(given):
    assert changed(given) == []


def test_numbers_inside_others_are_not_touched():
    """The released code makes "Book 4 room for 44 nights from 2024-04-04" of it."""
    found = changed(row(1, 1, "Book 1 room for 11 nights from 2021-01-01 at 1.5 or 1,000"))
    assert found
    for _, value, request, _ in found:
        assert request == f"Book {value} room for 11 nights from 2021-01-01 at 1.5 or 1,000"


def full():
    city = {"type": "string", "description": "The city, as in book_room(city=…)", "enum": ["city", "book_room"]}
    where = {
        "type": "object",
        "description": "Use 'zip_code'.",
        "properties": {"zip_code": {"type": "string"}, "city": city},
    }
    parameters = {
        "type": "object",
        "properties": {
            "where": where,
            "guests": {"type": "array", "items": {"type": "object", "properties": {"name": {}}, "required": ["name"]}},
        },
        "required": ["where"],
    }
    tools = (
        {"name": "book_room", "description": "Unlike cancel this reserves in a city.", "parameters": parameters},
        {
            "name": "cancel",
            "description": 'Undo book_room; call "cancel" once.',
            "parameters": {"type": "object", "properties": {}},
        },
    )
    arguments = {"where": {"zip_code": "00100", "city": "city"}, "guests": [{"name": "Ada"}]}
    seen = (
        {"role": "system", "content": "Prefer book_room. Say where."},
        {"role": "user", "content": "A room in the city."},
    )
    return Row("r", "c", seen, tools, ({"name": "book_room", "arguments": arguments},))


def test_names_go_everywhere_and_words_stay():
    before = full()
    masked = mask(before, random.Random(1))
    book, cancel = (masked.mask["functions"][tool["name"]] for tool in before.tools)
    masked = replace(masked, tools=tuple(sorted(masked.tools, key=lambda tool: tool["name"] != book)))
    names = masked.mask["parameters"]["book_room"]
    where = masked.tools[0]["parameters"]["properties"][names["where"]["as"]]
    assert masked.tools[0]["parameters"]["required"] == [names["where"]["as"]]
    inner = {old: one["as"] for old, one in names["where"]["in"].items()}
    assert where["description"] == f"Use '{inner['zip_code']}'." and set(where["properties"]) == set(inner.values())
    city = where["properties"][inner["city"]]
    assert city["enum"] == ["city", "book_room"], "values are data"
    assert city["description"] == f"The city, as in {book}({inner['city']}=…)"
    assert masked.tools[0]["description"] == "Unlike cancel this reserves in a city."
    assert masked.tools[1]["description"] == f'Undo {book}; call "{cancel}" once.'
    assert masked.messages[0]["content"] == f"Prefer {book}. Say where." and masked.messages[1] == before.messages[1]
    (call,) = masked.gold
    guest = names["guests"]["in"]["name"]["as"]
    assert call == {
        "name": book,
        "arguments": {
            names["where"]["as"]: {inner["zip_code"]: "00100", inner["city"]: "city"},
            names["guests"]["as"]: [{guest: "Ada"}],
        },
    }
    assert left(masked) == ["cancel", "city"] and left(before) == []
    assert left(mask(before, random.Random(1), scrub="all")) == []
    with pytest.raises(BadInput, match="masked already"):
        mask(masked, random.Random(2))


def test_calls_before_are_renamed_with_it():
    one = full()
    called = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "cancel", "arguments": "{}"}}],
    }
    one = Row(
        "r",
        "c",
        (*one.messages, called, {"role": "tool", "tool_call_id": "a", "content": "cancel: done"}),
        one.tools,
        one.gold,
    )
    masked = mask(one, random.Random(1))
    assert calls_in(masked.messages[2]) == [{"name": masked.mask["functions"]["cancel"], "arguments": {}}]
    assert masked.messages[3]["content"] == "cancel: done", "what came back is data"
    assert unmask(masked) == one


def test_the_published_alphabet_is_there_to_reproduce():
    names = [mask(full(), random.Random(i), alphabet="published").tools[0]["name"] for i in range(200)]
    assert any("." in name for name in names) and any(name[0].isdigit() for name in names)
    assert {len(name) for name in names} == set(range(5, 16))
