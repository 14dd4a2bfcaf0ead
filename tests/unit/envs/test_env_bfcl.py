"""BFCL's single-turn items, from a wheel of our own making: splits, verdicts, gold, and what is said when it fails."""

import json
import zipfile

import pytest

from evolvent.core.errors import BadInput, EnvError, EvolventError
from evolvent.core.fetch import sha256_file
from evolvent.envs import load
from evolvent.envs.text import bfcl_items
from evolvent.testing.env import check_env

WHEEL = "bfcl_eval-2026.3.23-py3-none-any.whl"


def function(name, *required, **types):
    properties = {key: {"type": kind, "description": key} for key, kind in types.items()}
    parameters = {"type": "dict", "properties": properties, "required": list(required)}
    return {"name": name, "description": f"Does {name}.", "parameters": parameters}


def rows(category, count=12):
    """Items ``count`` of a category and their gold: areas and weathers."""
    tools = [
        function("geometry.area", "base", base="integer", unit="string"),
        function("weather", "city", city="string"),
    ]
    tools = tools[:1] if "simple" in category else tools
    items, gold = [], []
    for i in range(count):
        messages = [{"role": "user", "content": f"{category}: area of base {i}, in São Paulo"}]
        if i == 3:
            messages.insert(0, {"role": "system", "content": "Be brief."})
        items.append({"id": f"{category}_{i}", "question": [messages], "function": tools})
        calls = [{"geometry.area": {"base": [i], "unit": ["Units", ""]}}]
        calls += [{"weather": {"city": ["São Paulo", "Sao Paulo"]}}] if "parallel" in category else []
        gold.append({"id": f"{category}_{i}", "ground_truth": calls})
    if category == "live_simple":
        gold[0]["ground_truth"][0]["geometry.area"]["other"] = [1]  # which its function does not take
    return items, gold


@pytest.fixture
def folder(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as archive:
        for category in bfcl_items.CATEGORIES:
            items, gold = rows(category)
            lines = "\n".join(map(json.dumps, items))
            archive.writestr(f"bfcl_eval/data/BFCL_v4_{category}.json", lines)
            if not category.endswith("relevance"):
                lines = "\n".join(map(json.dumps, gold))
                archive.writestr(f"bfcl_eval/data/possible_answer/BFCL_v4_{category}.json", lines)
    monkeypatch.setattr(bfcl_items, "SHA256", sha256_file(tmp_path / WHEEL))
    return tmp_path


def answered(env, task, text):
    env.reset(task)
    return env.step(text)


@pytest.mark.parametrize("variant", ["simple_python+multiple+irrelevance", "live_parallel_multiple", "live_relevance"])
def test_it_keeps_the_promises_of_an_environment(folder, variant):
    assert "reviewer" in check_env(load(f"bfcl:{variant},folder={folder}"))


def test_held_out_items_are_the_same_for_every_seed_and_of_each_category(folder):
    spec = f"bfcl:simple_python+multiple+irrelevance,n=9,folder={folder}"
    held = [load(spec).tasks("heldout", 9, seed) for seed in (0, 1)]
    assert {t.id for t in held[0]} == {t.id for t in held[1]} and [t.id for t in held[0]] != [t.id for t in held[1]]
    assert sorted(t.kind for t in held[0]) == ["irrelevance"] * 3 + ["multiple"] * 3 + ["simple_python"] * 3
    train = load(spec).tasks("train", 27, 0)
    assert len({t.id for t in train} | {t.id for t in held[0]}) == 36 and not any(t.repeats for t in train)
    assert load(spec).tasks("heldout", 10, 0)[9].repeats


def test_gold_is_right_and_the_reviewer_says_it(folder):
    env = load(f"bfcl:{'+'.join(bfcl_items.CATEGORIES)},folder={folder}")
    silent = set()
    for split in ("train", "heldout"):
        for task in env.tasks(split, 66, 0):
            if (correction := env.review(task, 0)) is None:
                silent.add(task.kind)
                assert task.kind == "live_relevance" or not answered(env, task, '[{"name": "weather"}]').success
            else:
                assert answered(env, task, correction.body).reward == 1.0
    assert silent == {"live_relevance", "live_simple"}


@pytest.mark.parametrize(
    ("answer", "right", "form", "kinds"),
    [
        ('[{"name": "geometry.area", "arguments": {"base": BASE}}]', True, "json", []),
        ("[geometry.area(base=BASE, unit='units')]", True, "python", []),
        ('{"name": "geometry.area", "arguments": {"base": "BASE"}}', False, "json", ["type"]),
        ('{"name": "weather", "arguments": {"base": BASE}}', False, "json", ["name"]),
        ("[]", False, "none", ["missing"]),
        ("I cannot do that.", False, "none", ["missing"]),
        ('[{"name": "geometry.area", "argum', False, "broken", ["missing"]),
    ],
)
def test_an_answer_is_judged_and_what_differs_is_said(folder, answer, right, form, kinds):
    env = load(f"bfcl:multiple,folder={folder}")
    task = env.tasks("heldout", 1, 0)[0]
    turn = answered(env, task, answer.replace("BASE", task.id.rpartition("_")[2]))
    assert (turn.success, turn.info["form"], [one["kind"] for one in turn.info["differs"]]) == (right, form, kinds)
    assert json.loads(turn.info["action"]) == turn.info["calls"]
    assert turn.info["rewards"] == {
        "name": float(kinds in ([], ["type"])),
        "arguments": float(kinds in ([], ["name"])),
        "called": float(form in ("json", "python")),
        "broken": float(form == "broken"),
    }


def test_no_call_is_right_where_nothing_fits(folder):
    env = load(f"bfcl:irrelevance+live_relevance,folder={folder}")
    call = '[{"name": "weather", "arguments": {}}]'
    for task in env.tasks("heldout", 12, 0):
        refused = [answered(env, task, text).success for text in ("[]", "Sorry.", "weather(", call)]
        assert refused == ([True, True, True, False] if task.kind == "irrelevance" else [False, False, False, True])


def test_the_prompt_holds_all_that_was_said_and_every_function(folder):
    env = load(f"bfcl:multiple,folder={folder}")
    tasks = [task for split in ("train", "heldout") for task in env.tasks(split, 6, 0)]
    task = next(task for task in tasks if task.id == "bfcl/multiple_3")
    turn = env.reset(task)
    assert turn.key == task.text == "system: Be brief.\nuser: multiple: area of base 3, in São Paulo"
    *tools, rules, request = turn.observation.split("\n")
    assert [json.loads(line)["name"] for line in tools] == turn.info["tools"]
    assert (rules, request) == ("Rules: Be brief.", "Request: multiple: area of base 3, in São Paulo")
    assert turn.info["tools"] == ["geometry.area", "weather"]
    assert turn.chat is not None and [one["role"] for one in turn.chat.messages] == ["system", "user"]
    first = turn.chat.tools[0]["function"]
    assert first["name"] == "geometry_area" and first["parameters"]["type"] == "object", "what endpoints take"
    assert env.step('[{"name": "geometry_area", "arguments": {"base": 3}}]').success
    with pytest.raises(BadInput, match="not a task of this world"):
        load(f"bfcl:parallel,folder={folder}").reset(task)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("bfcl:simple_pyton", "did you mean 'simple_python'"),
        ("bfcl:multi_turn_base", "unknown category"),
        ("bfcl:+", "unknown category"),
        ("bfcl:multiple,n=13", "1 to 12"),
        ("bfcl:multiple,n=-1", "1 to 12"),
        ("bfcl:multiple,max_tokens=0", "no room"),
    ],
)
def test_what_cannot_be_asked_is_refused(folder, spec, words):
    with pytest.raises(BadInput, match=words):
        load(f"{spec},folder={folder}")


def test_one_function_is_shown_or_none(folder):
    env = load(f"bfcl:multiple+irrelevance,n=8,pick=words,folder={folder}")
    assert "reviewer" in check_env(env)
    env._split["train"] = [name for name in env._items if env._items[name].category == "multiple"]
    task = next(task for task in env.tasks("heldout", 8, 0) if task.kind == "multiple")
    turn = env.reset(task)
    assert turn.info["tools"] == ["geometry.area", "weather"] and turn.observation.count('"parameters"') == 1
    assert env.step(env.review(task, 0).body).success


def test_all_items_held_out_leave_none_to_learn_from(folder):
    with pytest.raises(BadInput, match="no items are left"):
        load(f"bfcl:multiple,n=12,folder={folder}").tasks("train", 1, 0)


def test_another_release_is_refused(tmp_path):
    (tmp_path / WHEEL).write_bytes(b"something else")
    with pytest.raises(EnvError, match="not the release") as caught:
        load(f"bfcl:multiple,folder={tmp_path}")
    assert "remove the file" in str(caught.value)


def test_without_network_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("evolvent.core.fetch._RETRIES", 1)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(EvolventError, match="index cannot be reached"):
        load(f"bfcl:multiple,folder={tmp_path}")
    assert list(tmp_path.iterdir()) == []
