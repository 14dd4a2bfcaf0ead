"""``functions:``: an answer is judged by the calls that were right, whatever it is written in."""

import json
from dataclasses import replace
from functools import partial

import pytest

from evolvent import envs
from evolvent.cli import main
from evolvent.core.errors import BadInput
from evolvent.core.protocols import cut
from evolvent.data.rows import read_rows
from evolvent.envs.text import functions
from evolvent.memory import embedders
from evolvent.models.served.acting import Served
from evolvent.models.served.remote import Remote
from evolvent.play.attempt import play
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.play.together import run_players
from evolvent.testing.chat import Call, ChatServer
from evolvent.testing.env import check_env

HOUSES = {"type": "string", "enum": ["Harbour", "Station"]}
TOOLS = [
    {
        "name": "book_table",
        "description": "Reserve a table.",
        "input_schema": {
            "type": "object",
            "properties": {"house": HOUSES, "guests": {"type": "integer", "default": 2}},
            "required": ["house"],
        },
    },
    {
        "name": "cancel",
        "description": "Undo a booking.",
        "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}},
    },
    {
        "name": "opening_hours",
        "description": "When it is open.",
        "input_schema": {"type": "object", "properties": {"house": HOUSES}},
    },
    {
        "name": "lost_item",
        "description": "Report what was left.",
        "input_schema": {"type": "object", "properties": {"item": {"type": "string"}}},
    },
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("functions")
    (place / "tools.json").write_text(json.dumps(TOOLS))
    calls = [
        lambda i: ("book_table", {"house": "Harbour", "guests": 3 + i}),
        lambda i: ("cancel", {"id": f"B{i}"}),
        lambda i: ("opening_hours", {"house": "Station"}),
        lambda i: ("lost_item", {"item": f"hat {i}"}),
    ]
    lines = []
    for i in range(48):
        name, arguments = calls[i % 4](i)
        block = {"type": "tool_use", "id": "a", "name": name, "input": arguments}
        said = [{"role": "user", "content": f"request {i}"}, {"role": "assistant", "content": [block]}]
        lines.append({"id": f"c{i}", "messages": said, **({"outcome": True} if i < 40 else {})})
    (place / "calls.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    main(
        [
            "data",
            "functions",
            str(place / "tools.json"),
            str(place / "calls.jsonl"),
            "--out",
            str(place / "fc"),
            "--irrelevant",
            ".2",
            "--seed",
            "3",
        ]
    )
    return place / "fc"


@pytest.mark.parametrize("options", ["", ",names=random", ",names=swapped", ",held=unseen", ",held=seen"])
def test_it_keeps_its_promises(folder, options):
    with_options = envs.load(f"functions:{folder}{options}")
    check_env(with_options, n=4)
    check_env(envs.load(f"functions:{folder / 'rows.jsonl'}{options}"), n=2)


@pytest.mark.parametrize("pick", ["words", "nearest"])
def test_one_tool_is_shown_or_none(folder, pick, monkeypatch):
    monkeypatch.setattr(embedders, "load", partial(embedders.load, "hash:512"))
    env = envs.load(f"functions:{folder},pick={pick}")
    check_env(env, n=4)
    rows = read_rows(folder / "rows.jsonl")
    told = [replace(r, messages=({"role": "user", "content": f"{r.tools[-1]['description']} {r.id}"},)) for r in rows]
    told += [replace(r, id=f"no{r.id}", messages=({"role": "user", "content": "Sing!"},), gold=()) for r in rows]
    env = functions.Functions([r for r in told if r.because], "own", "all", pick=pick)
    shown = {bool(row.gold): [] for row in told}
    for task in env.tasks("heldout", 20, 0):
        row, turn = env.row(task.id), env.reset(task)
        listed = [tool["function"]["name"] for tool in turn.chat.tools] if turn.chat else []
        shown[bool(row.gold)].append(listed == [row.tools[-1]["name"]])
        assert (turn.admissible is None) == bool(listed) and turn.observation.count('"parameters"') == len(listed)
        if not listed:
            assert env.step("[]").success == (not row.gold)
    assert all(shown[True]) and not any(shown[False])
    with pytest.raises(BadInput, match="way to pick"):
        envs.load(f"functions:{folder},pick=near")


def a_task(env, kind, split="train"):
    return next(task for task in env.tasks(split, 40, 0) if task.kind == kind)


def played(env, task, answer):
    env.reset(task)
    return env.step(answer)


def test_every_way_to_write_the_right_call_is_right(folder):
    env = envs.load(f"functions:{folder}")
    task = a_task(env, "book_table")
    gold = json.loads(env.review(task, 0).body)
    (call,) = gold
    text = json.dumps(call)
    ways = [text, f"[{text}]", f"```json\n[{text}]\n```", f"Of course. {text}", f"<tool_call>\n{text}\n</tool_call>"]
    ways += [
        f"<think>[] ?</think>[{text}]",
        json.dumps({"tool_calls": [{"function": {**call, "arguments": json.dumps(call["arguments"])}}]}),
    ]
    for way in ways:
        turn = played(env, task, way)
        assert turn.reward == 1.0 and turn.success and turn.info["differs"] == [], way
        assert turn.info["action"] == json.dumps([call])


def test_what_is_wrong_is_said(folder):
    env = envs.load(f"functions:{folder}")
    task = a_task(env, "book_table")
    (call,) = json.loads(env.review(task, 0).body)
    guests = call["arguments"]["guests"]
    wrong = {
        "[]": "book_table is not called",
        "I cannot do that.": "book_table is not called",
        '[{"name": "book_table", "argu': "the answer cannot be read",
        '{"house": "Harbour"}': "the answer cannot be read",
        json.dumps({**call, "name": "cancel"}): "calls cancel, not book_table",
        json.dumps({**call, "arguments": {"house": "Harbour"}}): "guests is missing",
        json.dumps(
            {**call, "arguments": {**call["arguments"], "guests": str(guests)}}
        ): f'guests is "{guests}", not {guests}',
        json.dumps([call, call]): "book_table is called",
    }
    for answer, words in wrong.items():
        turn = played(env, task, answer)
        assert turn.reward == 0.0 and not turn.success and words in turn.info["differs"], answer
    extra = json.dumps({**call, "arguments": {**call["arguments"], "window": True}})
    turn = played(env, task, extra)
    assert turn.reward == 0.0 and turn.info["function_right"] and not turn.info["arguments_right"]


def test_a_default_that_is_only_repeated_counts_as_left_out(folder):
    env = envs.load(f"functions:{folder}")
    task = a_task(env, "book_table")
    row = env.row(task.id)
    bare = {"name": "book_table", "arguments": {"house": "Harbour"}}
    env._rows[task.id] = type(row)(**{**vars(row), "gold": (bare,)})
    env._shown.cache_clear()
    assert played(env, task, json.dumps({**bare, "arguments": {"house": "Harbour", "guests": 2}})).reward == 1.0
    assert played(env, task, json.dumps({**bare, "arguments": {"house": "Harbour", "guests": 3}})).reward == 0.0
    assert played(env, task, json.dumps({**bare, "arguments": {"house": "Harbour", "guests": True}})).reward == 0.0


def test_refusals_are_right_where_the_tool_was_taken_away(folder):
    env = envs.load(f"functions:{folder}")
    task = a_task(env, "none")
    assert task.meta["why none"] == "irrelevant"
    for answer in ("[]", "```json\n[]\n```", "None of the tools can do that.", ""):
        assert played(env, task, answer).reward == 1.0, answer
    assert played(env, task, '[{"name": "cancel", "arguments": {}}]').info["differs"] == ["cancel is called"]
    assert played(env, task, '[{"name": "can').reward == 0.0, "what was cut off is no refusal"


def test_names_are_others_and_the_right_calls_too(folder):
    own, other, swapped = (envs.load(f"functions:{folder}{o}") for o in ("", ",names=random", ",names=swapped"))
    task = a_task(own, "cancel")
    gold = own.review(task, 0).body
    assert played(other, task, gold).reward == 0.0 == played(swapped, task, gold).reward
    assert "cancel" not in other.reset(task).observation and "cancel" in swapped.reset(task).observation
    assert played(other, task, other.review(task, 0).body).reward == 1.0
    assert json.loads(swapped.review(task, 0).body)[0]["arguments"] == json.loads(gold)[0]["arguments"]
    assert other.reset(task).observation == other.reset(task).observation


def test_held_out_parts(folder):
    kinds = {
        held: {t.kind for t in envs.load(f"functions:{folder},held={held}").tasks("heldout", 12, 0)} - {"none"}
        for held in ("seen", "unseen", "all")
    }
    trained = {task.kind for task in envs.load(f"functions:{folder}").tasks("train", 40, 0)}
    assert not kinds["unseen"] & trained and kinds["seen"] <= trained and kinds["unseen"] < kinds["all"]


def test_a_judge_pays_where_nobody_said_what_is_right(folder, tmp_path):
    (tmp_path / "mine.py").write_text(
        "def right(asked):\n    return any(c['name'] == 'cancel' for c in asked['calls'])\n"
    )
    untold = {row.id for row in read_rows(folder / "rows.jsonl") if not row.because}
    env = envs.load(f"functions:{folder},judge={tmp_path / 'mine.py'}:right")
    task = next(task for task in env.tasks("train", 60, 0) if task.id in untold)
    assert untold and not untold & {task.id for task in envs.load(f"functions:{folder}").tasks("train", 60, 0)}
    assert env.review(task, 0) is None
    assert played(env, task, '[{"name": "cancel", "arguments": {}}]').reward == 1.0
    assert played(env, task, "[]").reward == 0.0 == played(env, task, '[{"name": "canc').reward
    (tmp_path / "broken.py").write_text("def judge(asked):\n    return asked['gone']\n")
    env = envs.load(f"functions:{folder},judge={tmp_path / 'broken.py'}:judge")
    with pytest.raises(BadInput, match="the judge failed"):
        played(env, task, "[]")


def test_a_chat_endpoint_gets_messages_and_tools_and_its_calls_are_the_answer(folder):
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")

    def dotted(tools):
        return [{**one, "name": f"my.{one['name']}"} for one in tools]

    rows = [row for row in read_rows(folder / "rows.jsonl") if row.because]
    rows = [replace(row, tools=dotted(row.tools), gold=dotted(row.gold)) for row in rows]
    env = functions.Functions(rows, "own", "all")
    task = a_task(env, "my.cancel")
    (call,) = json.loads(env.review(task, 0).body)
    right, wrong = Call("my_cancel", call["arguments"]), Call("my_lost_item", {})
    said = iter([[right], [wrong], "None can do that.", f"```json\n{json.dumps(call)}\n```"])
    with ChatServer(lambda body: next(said)) as chat:
        engine = Served(Remote("m", chat.base_url))
        done = [run_players([play(env, task, AttemptSettings(Text()), seed=0)], engine)[0].success for _ in range(4)]
    assert done == [True, False, False, True]
    asked = chat.requests[0]
    assert [one["role"] for one in asked["messages"]] == ["system", "user"]
    assert asked["messages"][1]["content"] == task.text
    assert "my_cancel" in [tool["function"]["name"] for tool in asked["tools"]], "endpoints take no dots"


def test_what_is_no_data_says_what_to_do(folder, tmp_path):
    with pytest.raises(BadInput, match="no rows") as caught:
        envs.load(f"functions:{tmp_path}")
    assert "evolvent data functions" in caught.value.do
    with pytest.raises(BadInput, match="kind of names"):
        envs.load(f"functions:{folder},names=other")
    row = read_rows(folder / "rows.jsonl")[0]
    (tmp_path / "rows.jsonl").write_text(json.dumps({**row.to_dict(), "because": ""}) + "\n")
    with pytest.raises(BadInput, match="no row says") as caught:
        envs.load(f"functions:{tmp_path}")
    assert "judge=FILE:FN" in caught.value.do


def test_what_a_stop_leaves_of_an_answer_is_whole():
    """A base model writes its list, and goes on behind it with the next tool: there it is stopped."""
    stops = functions.Functions.stop
    call = {"name": "cancel", "arguments": {"id": "B7"}}
    for calls in ([], [call], [call, call]):
        for behind in (' {"name": "lost_item"', "\nAs the request says", "\nAssistant: done", "\n\n", " Requests: []"):
            said, stopped = cut(f"{json.dumps(calls)}{behind}", stops)
            assert functions.answered(said) == calls and (stopped or not calls), behind
    assert functions.answered('[{"name": "cancel", "arguments": {"id": "B7"') is None
