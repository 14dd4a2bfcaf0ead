"""Calls of functions on a page: numbers, confusion and marks counted by hand, whatever stands in the names."""

import json

import pytest

from evolvent.evaluate.blocks import Section, Table, Text
from evolvent.evaluate.pages.draw import draw
from evolvent.formulas.call_match import judgement, match
from evolvent.running import write_report
from evolvent.runs.account import calls
from evolvent.runs.account.tasks import Seen, seen_in
from sample_calls_run import sample_calls_run

BOOK = {
    "name": "book",
    "parameters": {
        "properties": {
            "day": {"type": "string", "description": "when"},
            "guests": {"type": "integer", "default": 2},
            "house": {"type": "string", "enum": ["A", "B"]},
        },
        "required": ["day"],
    },
}
HOURS = {"name": "hours", "parameters": {"properties": {}}}
PROMPT = f"{json.dumps(BOOK)}\n{json.dumps(HOURS)}\nRequest: a table on Monday"


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


def seen(*answers, prompt=PROMPT):
    """An attempt with answers: pairs of calls (``None``: unreadable) and gold (``None``: unknown)."""
    told = []
    for said, gold in answers:
        found = match(said or (), gold or ())
        told.append(judgement(said, gold, found, right=said is not None and gold is not None and found.right))
    return Seen(prompt, judged=tuple(told), asked=(prompt,) * len(answers))


MONDAY, NONE = [call("book", day="Monday")], []
AFTER = [
    seen((MONDAY, MONDAY)),
    seen(([call("book", day="Tuesday", guests=2)], MONDAY)),
    seen(([call("hours")], MONDAY)),
    seen((NONE, MONDAY)),
    seen((None, MONDAY)),
    seen((NONE, NONE)),
    seen(([call("hours")], NONE)),
    seen(([call("hours")], None)),
]


def tables(found):
    out = []
    for one in found:
        out += [one] if isinstance(one, Table) else tables(one.blocks) if isinstance(one, Section) else []
    return out


def test_function_arguments_refusals_and_call_rate_stand_together():
    numbers = tables(calls.blocks({"before": AFTER[:2], "after": AFTER}))[0]
    assert numbers.columns == ("answers", "before [95 %]", "after [95 %]") and numbers.said
    rows = {row[0]: [str(cell).split(" [")[0] for cell in row[1:]] for row in numbers.rows}
    assert rows == {
        "right function, of 2 and 5 that need a call": ["100 %", "40 %"],
        "right arguments, of 2 and 5 that need a call": ["50 %", "20 %"],
        "right refusal, of 0 and 2 that need none": ["None", "50 %"],
        "answer with a call, of 2 and 8": ["100 %", "75 %"],  # one of them cannot be read
    }


def test_several_answers_of_an_attempt_are_not_independent():
    alone = calls.blocks({"a": [seen((MONDAY, MONDAY))] * 2 + [seen((NONE, MONDAY))] * 2})[0]
    joined = calls.blocks({"a": [seen((MONDAY, MONDAY), (MONDAY, MONDAY)), seen((NONE, MONDAY), (NONE, MONDAY))]})[0]
    assert alone.rows[0][1] == "50 % [15, 85]" and joined.rows[0][1] == "50 % [0, 100]"


def test_the_confusion_has_every_pair_once():
    found = [one for one in tables(calls.blocks({"after": AFTER})) if one.shaded]
    (table,) = found
    assert table.columns == ("right ↓ called →", "book", "hours", "(none)", "(unread)")
    assert {row[0]: row[1:] for row in table.rows} == {
        "book": (2, 1, 1, 1),
        "hours": (0, 0, 0, 0),
        "(none)": (0, 1, 1, 0),
    }


def test_rare_functions_are_taken_together():
    many = [seen(([call(f"f{i % 20}")], [call(f"f{i % 20}")])) for i in range(60)]
    (table,) = [one for one in tables(calls.blocks({"after": many})) if one.shaded]
    assert len(table.rows) == 14 and [row[0] for row in table.rows][-2:] == ["(other)", "(none)"]
    assert sum(n for row in table.rows for n in row[1:]) == 60 and {r[0]: r[13] for r in table.rows}["(other)"] == 24


def test_names_that_are_each_there_once_are_not_confused():
    once = [seen(([call(f"f{i}")], [call(f"f{i}")])) for i in range(9)]
    assert not [one for one in tables(calls.blocks({"after": once})) if one.shaded]


def test_calls_in_parallel_are_paired_by_name():
    gold = [call("a"), call("a"), call("b")]
    pairs = list(calls._pairs(judgement([call("b"), call("c"), call("a")], gold, match([], gold), right=False)))
    assert sorted(pairs) == [("a", "a"), ("a", "c"), ("b", "b")]


def test_a_call_stands_beside_its_schema_with_what_differs_marked():
    (example,) = [
        one for one in calls.blocks({"after": AFTER[:2]}) if isinstance(one, Section) and "wrong" in one.title
    ]
    (shown,) = example.blocks
    (request, _, table) = shown.blocks
    assert request == Text(("Request: a table on Monday",), "code")
    rows = {row[0]: row[1:] for row in table.rows}
    assert shown.blocks[1] == Text(("book is called.",)) and table.marked == (0, 1)
    assert rows["day"] == ("✗ another value", '"Tuesday"', '"Monday"', "required, string: when")
    assert rows["guests"] == ("✗ argument too much", "2", None, "integer, default 2")
    assert rows["house"] == ("", None, None, 'string, one of ["A", "B"]')


def test_each_kind_of_fault_is_shown_once():
    sections = [one for one in calls.blocks({"after": [*AFTER, *AFTER]}) if isinstance(one, Section)]
    titles = [one.title for one in sections[-1].blocks]
    assert titles == ["Another value", "Another function", "No call where one is due", "The answer cannot be read"]


def test_what_differs_in_words():
    assert calls.in_words(AFTER[0]) == ""
    assert calls.in_words(AFTER[1]) == 'day is "Tuesday", not "Monday"; guests is too much'
    assert "calls hours, not book" in calls.in_words(AFTER[2])
    assert calls.in_words(AFTER[3]) == "book is not called" and calls.in_words(AFTER[4]) == "the answer cannot be read"


@pytest.mark.parametrize(
    "told",
    [
        7,
        {},
        {"calls": 3, "gold": [], "differs": []},
        {"calls": [{"name": 3, "arguments": {}}], "gold": [], "differs": []},
        {"calls": [], "gold": [{"name": "a"}], "differs": []},
        {"calls": [], "gold": [], "differs": ["day is wrong"]},
    ],
)
def test_what_is_no_verdict_is_left_out(told):
    assert calls.blocks({"after": [Seen("", judged=(told,))]}) == []
    assert len(calls.answers([Seen("", judged=(told, *AFTER[0].judged))])) == 1


def test_schemas_of_no_form_and_prompts_without_them_cost_nothing():
    for prompt in (
        "",
        '{"name": "book", "parameters": 3}',
        '{"name": "book", "parameters": {"properties": [1]}}',
        '{"',
    ):
        found = calls.blocks({"after": [seen(([call("book", day=1)], MONDAY), prompt=prompt)]})
        assert any(
            row[0] == "day" and row[4].endswith("not in the schema")
            for table in tables(found)
            for row in table.rows
            if len(row) == 5
        )


def test_names_and_values_are_never_markup(tmp_path):
    nasty = "<script>alert(1)</script>"
    tool = {"name": nasty, "parameters": {"properties": {nasty: {"type": nasty, "description": nasty}}}}
    prompt = f"{json.dumps(tool)}\nRequest: {nasty}"
    gold, said = [call(nasty, **{nasty: nasty})], [call(nasty, **{nasty: f"{nasty} {nasty}"})]
    page = draw(calls.blocks({nasty: [seen((said, gold), prompt=prompt)] * 2}), tmp_path)
    assert "<script" not in page and page.count("&lt;script") > 8


def test_recorded_attempts_are_read():
    record = {
        "meta": {"judged": [judgement(NONE, MONDAY, match(NONE, MONDAY), right=False)]},
        "nodes": [{"kind": "observation", "text": PROMPT}, {"kind": "action", "text": "[]", "finish": "length"}],
    }
    found = seen_in(json.loads(json.dumps(record)))
    assert found.cut and found.asked == (PROMPT,) and calls.in_words(found) == "book is not called"


def test_the_page_of_a_run_has_them_and_no_name_is_markup(tmp_path):
    html = write_report(sample_calls_run(tmp_path / "r", nasty="<script>alert(1)</script>")).read_text("utf-8")
    assert "<script" not in html and html.count('<table class="shaded">') == 2
    for part in (
        "Calls of functions",
        "right refusal, of 8 that need none",
        "(unread)",
        "First wrong answer of each",
    ):
        assert part in html, part
