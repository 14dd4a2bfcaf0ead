"""HammerBench's conversations, from rows of our own: snapshots, verdicts, figures, splits, and files that are not."""

import json

import pytest

from evolvent.core.errors import BadInput, EnvError, EvolventError
from evolvent.core.fetch import sha256_file
from evolvent.envs import load
from evolvent.envs.text import hammerbench_rows
from evolvent.envs.text.hammerbench import figures
from evolvent.testing.env import check_env

DUE = "function call"


def tool(name):
    properties = {key: {"type": "string", "description": key} for key in ("city", "plate")}
    return {"name": name, "description": name, "parameters": {"type": "object", "properties": properties}}


def said(role, content):
    return {"role": role, "content": content}


def row(kind, i):
    """Row ``i`` of a type, about function i modulo 10."""
    name = f"Cars.Fines.query{i % 10}"
    first = [said("user", f"Any fines? {i}"), said(DUE, {"name": name, "arguments": {}})]
    second = [said("assistant", "In which city?"), said("user", f"In Ulm {i}")]
    if kind.startswith(("ST", "ir_ST")):
        due = {"name": name, "arguments": {"city": f"Ulm {i}"}}
        others = [tool("Health.Diet.search"), *([] if kind.startswith("ir") else [tool(name)])]
        return {"messages": [said("user", f"Fines in Ulm {i}?"), said(DUE, due)], "multiple_tools": others}
    last = said(DUE, {"name": name, "arguments": {"city": f"Ulm {i}"}})
    if kind == "IS":
        second, last = [second[0], said("user", "What is there to see?")], said("assistant", "Sorry, no tool.")
    tools = {"multiple_tools": [tool(name), tool("Health.Diet.search")], "single_tool": [tool(name)]}
    return {"id": i, "messages": [*first, *second, last], **tools}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A clone with rows of our own, and its hashes."""
    files = {}
    for kind, (start, _) in hammerbench_rows.FILES.items():
        path = tmp_path / f"{start}{kind}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([row(kind, i) for i in range(40)]), "utf-8")
        files[kind] = (start, sha256_file(path))
    monkeypatch.setattr(hammerbench_rows, "FILES", files)
    return tmp_path


def answers(env, task, *texts):
    env.reset(task)
    return [env.step(text) for text in texts]


def call(task, **arguments):
    name = json.loads(task.meta["answer"].splitlines()[0])["name"]
    return json.dumps({"name": name, "arguments": arguments})


@pytest.mark.parametrize("variant", ["ST_Perfect+ir_ST_External", "Based+IS", "mSv"])
def test_it_keeps_the_promises_of_an_environment(folder, variant):
    assert "attempts" in check_env(load(f"hammerbench:{variant},folder={folder}"))


def test_a_conversation_goes_on_whatever_is_answered(folder):
    env = load(f"hammerbench:Based,folder={folder}")
    task = env.tasks("heldout", 1, 0)[0]
    opening = env.reset(task)
    assert opening.key == task.text and opening.observation.count('"description"') == 6
    number = task.text.rpartition(" ")[2]
    turn = env.step("What?")
    assert turn.key == f"user: Any fines? {number}\nassistant: In which city?\nuser: In Ulm {number}"
    assert turn.observation.endswith(
        f"Request: Any fines? {number}\nAssistant: In which city?\nRequest: In Ulm {number}"
    )
    assert turn.observation.count('"description"') == 3
    assert turn.chat is not None and [one["role"] for one in turn.chat.messages] == ["user", "assistant", "user"]
    assert not turn.done and turn.reward == 0.0 and turn.info["snapshot"]["function"] is False
    last = env.step(call(task, city=f"Ulm {number}"))
    assert last.done and last.reward == 0.0 and not last.success, "the first function was wrong"


def test_a_sentence_of_the_prompt_can_be_left_out(folder):
    spec = f"hammerbench:Based,folder={folder}"
    said, unsaid = load(spec).instructions, load(f"{spec},leave=no").instructions
    assert said.replace("Leave out what nobody has said. ", "") == unsaid != said


def test_returns_are_shares_of_right_snapshots(folder):
    env = load(f"hammerbench:Based,folder={folder}")
    task = env.tasks("heldout", 1, 0)[0]
    city = f"Ulm {task.text.rpartition(' ')[2]}"
    for first, second, rewards in [
        (call(task), call(task, city=city), [0.5, 0.5]),
        (call(task, city=""), call(task, city=f"{city.upper()}!", plate="\\"), [0.5, 0.5]),
        (call(task, city="Ulm"), call(task, city=city), [0.0, 0.5]),
        (call(task), f"[Other.name(city='{city}')]", [0.5, 0.5]),  # later functions are not looked at
        (call(task), "[", [0.5, 0.0]),
    ]:
        turns = answers(env, task, first, second)
        assert [turn.reward for turn in turns] == rewards
        assert turns[-1].success == (sum(rewards) == 1.0)


def test_where_no_function_fits_right_is_no_call(folder):
    env = load(f"hammerbench:IS+ir_ST_Perfect,folder={folder}")
    for task in env.tasks("heldout", 20, 0):
        if task.kind == "IS":
            first = json.dumps({"name": env.row(task).function, "arguments": {}})
            assert answers(env, task, first, "Sorry.")[-1].success and not answers(env, task, first, first)[-1].success
        else:
            assert answers(env, task, "[]")[0].success and not answers(env, task, "[f(x=1)]")[0].success


def test_the_reviewers_lines_are_right_turn_by_turn(folder):
    env = load(f"hammerbench:{'+'.join(hammerbench_rows.FILES)},folder={folder}")
    for task in env.tasks("train", 100, 0):
        turns = answers(env, task, *env.review(task, 0).body.splitlines())
        assert turns[-1].success and sum(turn.reward for turn in turns) == pytest.approx(1.0)


def test_a_function_is_in_one_split_alone(folder):
    for spec in ("hammerbench:Based+ST_Perfect", "hammerbench:Based+ST_Perfect,n=10"):
        env = load(f"{spec},folder={folder}")
        train, held = ({env.row(t).function for t in env.tasks(s, 80, 0)} for s in ("train", "heldout"))
        assert train and held and not train & held
    held = load(f"hammerbench:Based+ST_Perfect,n=10,folder={folder}").tasks("heldout", 10, 3)
    assert sorted(t.kind for t in held) == ["Based"] * 5 + ["ST_Perfect"] * 5 and not any(t.repeats for t in held)


def test_figures_by_type(folder):
    env = load(f"hammerbench:Based+ST_Perfect,folder={folder}")
    attempts = []
    for task in env.tasks("heldout", 6, 0):
        texts = env.review(task, 0).body.splitlines() if task.kind == "Based" else ["no"]
        attempts.append((task.kind, [turn.info["snapshot"] for turn in answers(env, task, *texts)]))
    found = figures(attempts)
    assert set(found) == {"Based", "ST_Perfect", ""}
    assert found["Based"]["SR"] == found["Based"]["Args"] == 1.0 and found["ST_Perfect"]["Func"] == 0.0
    assert 0.0 < found[""]["SR"] < 1.0


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("hammerbench:ST_Perfekt", "did you mean 'ST_Perfect'"),
        ("hammerbench:Based,n=41", "1 to 40"),
        ("hammerbench:Based,max_tokens=0", "no room"),
    ],
)
def test_what_cannot_be_asked_is_refused(folder, spec, words):
    with pytest.raises(BadInput, match=words):
        load(f"{spec},folder={folder}")


def test_all_held_out_leave_none_to_learn_from(folder):
    with pytest.raises(BadInput, match="no conversations are left"):
        load(f"hammerbench:Based,n=40,folder={folder}").tasks("train", 1, 0)


def test_a_file_is_fetched_once_and_checked(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(hammerbench_rows, "URL", f"{folder.as_uri()}/")
    to = tmp_path / "cache"
    load(f"hammerbench:Based,folder={to}")
    (path,) = [p for p in to.rglob("*") if p.is_file()]
    assert path == to / "data/en/multi-turn/HammerBench_Based.json"
    (folder / "data/en/multi-turn/HammerBench_Based.json").unlink()
    load(f"hammerbench:Based,folder={to}")
    path.write_text("[]")
    with pytest.raises(EnvError, match="not the one that is known") as caught:
        load(f"hammerbench:Based,folder={to}")
    assert "remove the file" in str(caught.value)


def test_a_source_that_changed_leaves_nothing_behind(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(hammerbench_rows, "URL", f"{folder.as_uri()}/")
    (folder / "data/en/multi-turn/HammerBench_Based.json").write_text("[]")
    with pytest.raises(EnvError, match="not to be trusted"):
        load(f"hammerbench:Based,folder={tmp_path / 'cache'}")
    assert not [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]


def test_without_network_it_says_where_to_put_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(hammerbench_rows, "URL", "http://127.0.0.1:9/")
    with pytest.raises(EvolventError, match="cannot be fetched") as caught:
        load(f"hammerbench:Based,folder={tmp_path}")
    assert f"put the file there yourself: {tmp_path}" in str(caught.value)
