"""BFCL's conversations with classes and a checker of our own making in the sandbox, from a wheel of our own."""

import json
import zipfile

import pytest

from evolvent.core.errors import BadInput
from evolvent.core.fetch import sha256_file
from evolvent.envs import load
from evolvent.envs.text import bfcl_guest, bfcl_items, bfcl_turns
from evolvent.envs.text.bfcl_guest import as_text
from evolvent.testing.env import check_env

UTILS = '''
import re

STATE = {}


def execute_multi_turn_func_call(calls, config, classes, model, entry, long=False):
    """A box per model in which names are put."""
    box = STATE.setdefault(model + entry, list(config["TicketAPI"]["box"]))

    def put(what):
        if what == "hang":
            while True:
                pass
        box.append(what)
        return box

    def look():
        return box

    out = []
    for call in calls:
        try:
            out.append(str(eval(call, {"put": put, "look": look})))
        except Exception as error:
            out.append(f"Error during execution: {error}")
    return out, box
'''
CHECKER = """
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call as run


def multi_turn_checker(said, gold, entry, category, model):
    args = entry["initial_config"], entry["involved_classes"]
    for turn, wanted in zip(said, gold, strict=True):
        for step in turn:
            mine = run(step, *args, "checked", entry["id"])[1]
        theirs = run(wanted, *args, "gold", entry["id"])[1]
        if wanted and (not turn or mine != theirs):
            return {"valid": False, "error_type": "multi_turn:state"}
    return {"valid": True}
"""


def tool(name, **types):
    properties = {key: {"type": kind, "description": key} for key, kind in types.items()}
    parameters = {"type": "dict", "properties": properties, "required": list(types)}
    return {"name": name, "description": f"{name} it", "parameters": parameters, "response": {}}


def conversation(category, i):
    turns = [[{"role": "user", "content": f"Put an apple {i}"}], [{"role": "user", "content": "And a pear"}]]
    gold = [["put(what='apple')"], ["look()", "put(what='pear')"]]
    row = {"id": f"{category}_{i}", "question": turns, "initial_config": {"TicketAPI": {"box": []}}}
    if category == "multi_turn_miss_func":
        row |= {"question": [[*turns[0]], []], "missed_function": {"1": ["put"]}}
        gold = [[], ["put(what='apple')"]]
    return row | {"involved_classes": ["TicketAPI"]}, {"id": row["id"], "ground_truth": gold}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "bfcl_eval-2026.3.23-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in bfcl_guest._FILES:
            ours = {"multi_turn_checker.py": CHECKER, "multi_turn_utils.py": UTILS}
            archive.writestr(name, ours.get(name.rpartition("/")[2], ""))
        for file in bfcl_turns._DOCS.values():
            docs = [tool("put", what="string"), tool("look")] if file == "ticket_api" else []
            archive.writestr(f"bfcl_eval/data/multi_turn_func_doc/{file}.json", "\n".join(map(json.dumps, docs)))
        for category in bfcl_turns.CATEGORIES:
            made = [conversation(category, i) for i in range(12)]
            for at, place in enumerate(("", "possible_answer/")):
                lines = "\n".join(json.dumps(one[at]) for one in made)
                archive.writestr(f"bfcl_eval/data/{place}BFCL_v4_{category}.json", lines)
    monkeypatch.setattr(bfcl_items, "SHA256", sha256_file(path))
    return tmp_path


def said(name, **arguments):
    return json.dumps([{"name": name, "arguments": arguments}])


APPLE, PEAR = said("put", what="apple"), said("put", what="pear")


def played(env, task, *answers):
    turns = [env.reset(task)]
    for answer in answers:
        turns.append(env.step(answer))
    return turns


def test_it_keeps_the_promises_of_an_environment(folder):
    env = load(f"bfcl_turns:multi_turn_base,folder={folder}")
    assert "attempts" in check_env(env, n=2)
    env.close()


def test_calls_are_done_until_an_answer_holds_none(folder):
    env = load(f"bfcl_turns:folder={folder}")
    task = env.tasks("heldout", 1, 0)[0]
    turns = played(env, task, APPLE, "Done.", said("look"), PEAR, "[]")
    assert turns[0].observation.startswith(task.text) and '"response"' not in turns[0].observation
    assert [turn.observation for turn in turns[1:4]] == ["Result: ['apple']", "And a pear", "Result: ['apple']"]
    assert turns[1].follows and not turns[2].follows
    assert turns[-1].success and turns[-1].reward == 1.0 and turns[-1].info["error"] == ""


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        (["[]", "[]"], "multi_turn:state"),
        ([APPLE, "[]", APPLE, "[]"], "multi_turn:state"),
        ([APPLE] * 3, "multi_turn:force_terminated"),
        ([said("no_such"), "[]", "[]"], "multi_turn:state"),
        ([said("put", what="hang")], "sandbox: time"),
    ],
)
def test_what_is_wrong_is_said(folder, monkeypatch, answers, error):
    if error == "sandbox: time":
        monkeypatch.setattr(bfcl_guest, "LIMITS", bfcl_guest.Limits(wall=5.0))
    env = load(f"bfcl_turns:folder={folder},steps=3")
    last = played(env, env.tasks("heldout", 1, 0)[0], *answers)[-1]
    assert last.terminated and not last.success and last.reward == 0.0 and last.info["error"] == error


def test_functions_that_come_later_are_shown_then(folder):
    env = load(f"bfcl_turns:multi_turn_miss_func,folder={folder}")
    turns = played(env, env.tasks("heldout", 1, 0)[0], APPLE, "[]", APPLE, "[]")
    assert '"put"' not in turns[0].observation and "no_such_function" in turns[1].observation
    assert '"put"' in turns[2].observation and turns[-1].info["error"] == ""


def test_nothing_but_a_call_with_literals_is_evaluated():
    assert as_text({"name": "put", "arguments": {"what": "it's\n"}}, ["put"]) == 'put(what="it\'s\\n")'
    for name, arguments in [("eval", {}), ("put", {"x=1) or put(what": 2}), ("put", {"class": 1}), ("put()", {})]:
        assert as_text({"name": name, "arguments": arguments}, ["put"]) == "no_such_function()"


def test_the_same_story_is_in_one_split_alone(folder):
    env = load(f"bfcl_turns:multi_turn_base+multi_turn_miss_func,n=10,folder={folder}")
    train, held = ({t.id.rpartition("_")[2] for t in env.tasks(s, 10, 0)} for s in ("train", "heldout"))
    assert train and held and not train & held


@pytest.mark.parametrize(
    ("spec", "words"),
    [("bfcl_turns:multiple", "unknown category"), ("bfcl_turns:steps=1", "2 or more"), ("bfcl_turns:n=13", "1 to 12")],
)
def test_what_cannot_be_asked_is_refused(folder, spec, words):
    with pytest.raises(BadInput, match=words):
        load(f"{spec},folder={folder}")


@pytest.mark.slow
def test_gold_is_valid_and_doing_nothing_is_not():
    """With the wheel's own classes and checker; both wheels are fetched."""
    env = load(f"bfcl_turns:{'+'.join(bfcl_turns.CATEGORIES)},n=800")
    for task in env.tasks("heldout", 24, 0):
        row = env.conversation_of(task)
        errors = []
        for said_calls in ([[calls] if calls else [] for calls in row.gold], [[] for _ in row.gold]):
            judge = bfcl_guest.Judge(bfcl_items.wheel(), row.entry)
            errors.append(judge.judged(said_calls, row.gold))
            judge.close()
        assert errors == ["", "multi_turn:empty_turn_model_response"], task.id
