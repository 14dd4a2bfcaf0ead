"""Logs in their dialects: decisions, and whose word makes them right."""

import json

import pytest

from evolvent.core.errors import BadInput
from evolvent.data.calls import outcome_of, read_log
from evolvent.data.gather import complete, gather
from evolvent.data.irrelevance import irrelevant
from evolvent.data.rows import Row, of_training, read_rows, split, training
from evolvent.formulas.call_text import calls_of
from evolvent.traces.events import Repairs

LOOK = {
    "name": "look",
    "description": "See a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
BUY = {
    "name": "buy",
    "description": "Pay for a ticket to go there.",
    "parameters": {"type": "object", "properties": {}},
}
SING = {"name": "sing", "description": "Make music aloud.", "parameters": {"type": "object", "properties": {}}}
CHAT = {
    "messages": [
        {"role": "user", "content": "Rome?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "function": {"name": "look", "arguments": '{"city": "Rome"}'}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "sunny"},
        {"role": "assistant", "content": "It is sunny."},
    ]
}
CLAUDE = {
    "system": "Be short.",
    "messages": [
        {"role": "user", "content": "Rome?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "a", "name": "look", "input": {"city": "Rome"}},
                {"type": "tool_use", "id": "b", "name": "buy", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "b", "content": "no money", "is_error": True},
                {"type": "tool_result", "tool_use_id": "a", "content": "sunny"},
            ],
        },
    ],
}
XLAM = {
    "id": 7,
    "query": "Rome?",
    "tools": json.dumps([LOOK]),
    "answers": '[{"name": "look", "arguments": {"city": "Rome"}}]',
}
RESPONSES = {
    "items": [
        {"role": "user", "content": "Rome?"},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": '{"city": "Rome"}'},
        {"type": "function_call_output", "call_id": "a", "output": "sunny"},
    ]
}


def log(tmp_path, *lines):
    path = tmp_path / "calls.jsonl"
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
    return path


def gathered(tmp_path, *lines, tools=(LOOK, BUY), repairs=None, **verdicts):
    repairs = repairs or Repairs()
    return gather(read_log(log(tmp_path, *lines), repairs), tools, repairs, **verdicts)


@pytest.mark.parametrize("line", [CHAT, XLAM, RESPONSES], ids=["chat", "xlam", "responses"])
def test_a_call_in_three_dialects_is_one(tmp_path, line):
    (row,) = gathered(tmp_path, line).rows
    assert row.gold == ({"name": "look", "arguments": {"city": "Rome"}},) and row.request == "Rome?"
    assert [message["role"] for message in row.messages] == ["user"]
    assert row.because == ("xLAM's answers" if line is XLAM else "")


def test_anthropics_blocks_keep_results_with_their_calls(tmp_path):
    (one,) = read_log(log(tmp_path, CLAUDE), Repairs())
    (decision,) = one.decisions
    assert [call["name"] for call in decision.calls] == ["look", "buy"] and decision.said == "I look."
    assert decision.results == ("sunny", "no money") and decision.failed == (False, True)
    assert gathered(tmp_path, CLAUDE, accept=True).rows[0].because == "", "an error came back"


def test_whose_word_counts(tmp_path):
    said = [
        gathered(tmp_path, {**CHAT, "outcome": told}, **how).rows[0].because
        for told, how in [(None, {}), (True, {}), (0, {}), ("failure", {"accept": True}), (None, {"accept": True})]
    ]
    assert said == ["", "field outcome", "", "", "a result without an error"]
    failed = json.loads(json.dumps(CHAT).replace("sunny", "Error: no such city"))
    assert gathered(tmp_path, {**failed, "outcome": True}).rows[0].because == "", (
        "the call failed in a good conversation"
    )
    seen = []

    def judge(asked):
        seen.append(asked)
        return asked["calls"][0]["arguments"]["city"] == "Rome"

    assert gathered(tmp_path, {**failed, "outcome": False}, judge=judge).rows[0].because == "the judge"
    assert seen[0]["results"] == ["Error: no such city"] and seen[0]["messages"][0]["content"] == "Rome?"
    with pytest.raises(BadInput, match="says nothing"):
        gathered(tmp_path, CHAT, judge=lambda asked: "yes")


def test_lines_of_one_name_are_two_and_equal_ones_are_counted_once(tmp_path):
    other = json.loads(json.dumps(CHAT).replace("Rome", "Oslo"))
    lines = [{**CHAT, "id": "a", "outcome": True}, {**other, "id": "a", "outcome": True}, {**CHAT, "outcome": 1}]
    found = gathered(tmp_path, *lines)
    assert [row.id for row in found.rows] == ["a/0", "a/0~2"]
    assert {call["arguments"]["city"] for row in found.rows for call in row.gold} == {"Rome", "Oslo"}
    assert found.verdicts == {"right: field outcome": 2}, "as many as there are rows"
    assert len({row.split for row in split(found.rows, unseen=0, heldout=0.5)}) == 1, "one conversation, one side"
    path = tmp_path / "rows.jsonl"
    path.write_text(2 * (json.dumps(found.rows[0].to_dict()) + "\n"))
    with pytest.raises(BadInput, match="two rows have one id"):
        read_rows(path)


def test_what_was_said_without_a_call_is_a_row_only_as_an_answer_to_the_user(tmp_path):
    lines = {
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}],
        "outcome": True,
    }
    (row,) = gathered(tmp_path, lines).rows
    assert row.kind == "none" and row.gold == () and training(row, "chat")["messages"][-1]["content"] == "Hello."
    assert len(gathered(tmp_path, CHAT).rows) == 1, "what is said of a result decides about no call"


def test_bad_lines_are_counted_with_their_place(tmp_path):
    repairs = Repairs()
    cut = json.loads(json.dumps(CHAT).replace('\\"Rome\\"}', '\\"Ro'))
    other = json.loads(json.dumps(CHAT).replace('"look"', '"leap"'))
    wrong = json.loads(json.dumps(CHAT).replace("city", "town"))
    good = {**CHAT, "outcome": True}
    found = gathered(
        tmp_path,
        "{broken",
        {"x": 1},
        cut,
        {**other, "outcome": True},
        {**wrong, "outcome": 1},
        good,
        good,
        repairs=repairs,
    )
    assert repairs.first == {
        "lines left out: not JSON": "calls.jsonl:1",
        "lines without messages, or query and answers, left out": "calls.jsonl:2",
        "decisions left out: the arguments of a call cannot be read": "calls.jsonl:3",
        "lines without a decision that can be read, left out": "calls.jsonl:3",
        "decisions left out: leap is not among the tools": "calls.jsonl:4",
        "right by what is said, but the call does not fit its schema: wrong": "calls.jsonl:5: city: missing",
        "decisions that stand there twice, once kept": "",
    }
    assert [row.because for row in found.rows] == ["", "field outcome"]
    with pytest.raises(BadInput, match="neither right nor wrong") as caught:
        gathered(tmp_path, {**CHAT, "outcome": "perhaps"})
    assert caught.value.where == "calls.jsonl:1"
    with pytest.raises(BadInput, match="without tools"):
        gathered(tmp_path, CHAT, tools=())
    assert outcome_of({"success": False}, "") is False
    with pytest.raises(ValueError):
        calls_of([{"arguments": {}}])


def test_fewer_tools_keep_those_that_are_called(tmp_path):
    many = [LOOK, *({**SING, "name": f"sing_{i}"} for i in range(199))]
    rows = gather(read_log(log(tmp_path, CHAT), Repairs()), many, Repairs(), candidates=8).rows
    assert len(rows[0].tools) == 8 and LOOK in rows[0].tools


# ------------------------------------------------------------------------------------------------------- splits
def rows_of(n, functions=("look", "buy", "sing", "walk", "draw", "hide")):
    tools = tuple({**SING, "name": name, "description": f"{name} only."} for name in functions)
    made = []
    for i in range(n):
        name = functions[i % len(functions)]
        seen = ({"role": "user", "content": f"request {i // 2}"},)
        made.append(Row(f"r{i}", f"c{i}", seen, tools, ({"name": name, "arguments": {}},), because="x"))
    return made


def test_a_split_is_by_function_and_by_conversation():
    rows = split(rows_of(120), unseen=0.3, heldout=0.25, seed=3)
    by = {name: [row for row in rows if row.split == name] for name in ("train", "heldout", "unseen")}
    assert all(by.values())
    called = {name: {call["name"] for row in of for call in row.gold} for name, of in by.items()}
    listed = {tool["name"] for name in ("train", "heldout") for row in by[name] for tool in row.tools}
    assert called["unseen"] and not called["unseen"] & (called["train"] | called["heldout"] | listed)
    assert not {row.request for row in by["train"]} & {
        row.request for name in ("heldout", "unseen") for row in by[name]
    }
    assert rows == split(rows_of(120), unseen=0.3, heldout=0.25, seed=3) != split(rows_of(120), unseen=0.3, seed=4)


def test_no_row_is_left_without_a_tool():
    rows = split(rows_of(60), unseen=0.5, seed=1)
    for row in rows:
        assert {call["name"] for call in row.gold} <= {tool["name"] for tool in row.tools} != set()


def test_irrelevant_rows_lack_their_tool_and_list_others():
    rows = complete(rows_of(60), irrelevance=0.2, unseen=0.2, heldout=0.2, seed=0)
    made = [row for row in rows if row.kind == "irrelevant"]
    by_id = {row.id: row for row in rows}
    for part in ("train", "heldout", "unseen"):
        mine = [row for row in rows if row.split == part]
        assert 0.1 < sum(row.kind == "irrelevant" for row in mine) / len(mine) < 0.3, part
    for row in made:
        before = by_id[row.id.removesuffix("/irrelevant")]
        assert row.tools and row.gold == () and row.split == before.split
        assert not {tool["name"] for tool in row.tools} & {call["name"] for call in before.gold}
    told = training(made[0], "chat")["messages"][-1]
    assert told["content"].startswith("None of the tools") and "tool_calls" not in told
    alike = {**LOOK, "name": "look_at", "description": "See a city."}
    one = Row(
        "r",
        "c",
        ({"role": "user", "content": "Rome?"},),
        (LOOK, alike, BUY, SING),
        ({"name": "look", "arguments": {}},),
    )
    import random

    (taken,) = irrelevant([one], 0.5, [LOOK, alike, BUY, SING], random.Random(0))
    assert [tool["name"] for tool in taken.tools] == ["buy", "sing"], "what does the same goes, too"
    assert irrelevant([one], 0.5, [LOOK], random.Random(0))[0].tools
    alone = Row("r", "c", one.messages, (LOOK,), one.gold)
    assert irrelevant([alone], 0.5, [LOOK, alike], random.Random(0)) == [], "an empty list says nothing"


def test_files_come_back(tmp_path):
    rows = rows_of(4)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row.to_dict()) + "\n" for row in rows))
    assert read_rows(path) == rows
    assert of_training(training(rows[0], "chat")).gold == rows[0].gold
    text = training(rows[0], "text")["messages"]
    assert text[-1]["content"] == '[{"name": "look", "arguments": {}}]' and "request 0" in text[1]["content"]
    path.write_text("")
    with pytest.raises(BadInput, match="holds no rows"):
        read_rows(path)
    path.write_text('{"id": "x"}\n')
    with pytest.raises(BadInput, match="not a row of calls"):
        read_rows(path)
