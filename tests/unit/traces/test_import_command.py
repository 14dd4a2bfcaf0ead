"""evolvent import: twice is once, a killed import goes on, what it refuses, and what other commands make of it."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from evolvent.cli import main
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.credit import step_leave_one_out
from evolvent.traces import events

FIXTURES = Path(__file__).parent / "fixtures"
FILES = [
    [FIXTURES / "chat.jsonl", FIXTURES / "responses.jsonl", FIXTURES / "anthropic.jsonl"],
    [FIXTURES / "trial"],
    sorted((FIXTURES / "otel").glob("planner_log.*")),
    [FIXTURES / "verifiers.jsonl"],
]


def run(*words):
    main([str(word) for word in words])


def state(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


def attempt(id="a", text="x", **more):
    return {"id": id, "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": text}], **more}


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def ids(folder):
    return [row["id"] for row in RunFolder.open(folder).read_episodes()]


def test_importing_twice_is_importing_once(tmp_path, capsys):
    out = tmp_path / "run"
    for files in FILES:
        run("import", *files, "--out", out)
    before = state(out)
    capsys.readouterr()
    for files in FILES:
        run("import", *files, "--out", out)
        assert "0 new" in capsys.readouterr().out
    assert state(out) == before and len(ids(out)) == 6
    assert RunFolder.open(out).summary()["attempts"] == 6


def test_equal_attempts_without_an_id_all_count_and_twice_is_still_once(tmp_path, capsys):
    right, wrong = ({**attempt(text=text, reward=reward), "task_id": "t"} for text, reward in (("4", 1.0), ("5", 0.0)))
    rows = [{key: value for key, value in row.items() if key != "id"} for row in [right] * 5 + [wrong] * 3]
    file, out = write(tmp_path / "samples.jsonl", *rows), tmp_path / "run"
    for said in ("8 new", "0 new, 8 known"):
        run("import", file, "--out", out)
        assert said in capsys.readouterr().out
    episodes = [Episode.from_dict(row) for row in RunFolder.open(out).read_episodes()]
    credit = step_leave_one_out.assign(episodes).values("step")
    assert credit == pytest.approx([1 - 4 / 7] * 5 + [-5 / 7] * 3)


def test_another_content_is_named_and_replaced_only_where_it_is_wanted(tmp_path, capsys):
    out, file = tmp_path / "run", tmp_path / "t.jsonl"
    run("import", write(file, attempt(reward=0), attempt("b", reward=1)), "--out", out)
    run("import", write(file, attempt(text="longer", reward=1)), "--out", out)
    assert "known with another content" in capsys.readouterr().out
    run("import", file, "--out", out, "--replace")
    run("import", file, "--out", out, "--replace", "--json")
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["known"] == 1
    made = [Episode.from_dict(row) for row in RunFolder.open(out).read_episodes()]
    assert [e.total_reward for e in made] == [1.0, 1.0] and len(made) == 2
    twice = write(file, attempt("c", reward=1), attempt("c", text="other", reward=0))
    for _ in range(2):
        run("import", twice, "--out", out, "--replace")
    assert len(ids(out)) == len(set(ids(out))) == 3


def test_a_killed_import_goes_on(tmp_path):
    rows = [attempt(str(i), "word " * 2000, reward=i % 2) for i in range(300)]
    out, file = tmp_path / "run", write(tmp_path / "t.jsonl", *rows)
    code = "from evolvent.cli import main; main()"
    words = [sys.executable, "-c", code, "import", str(file), "--out", str(out)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    lines = out / "episodes.jsonl"
    until = time.monotonic() + 60
    while time.monotonic() < until and not (lines.exists() and lines.stat().st_size > 50_000):
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with lines.open("ab") as half:
        half.write(b'{"torn')
    run("import", file, "--out", out)
    assert sorted(ids(out), key=str) == sorted(set(ids(out))) and len(ids(out)) == 300
    before = state(out)
    run("import", file, "--out", out)
    assert state(out) == before


def test_what_cannot_be_read_is_refused(tmp_path, monkeypatch):
    for text, what in (
        ("", "file is empty"),
        ("nonsense", "format is not seen"),
        ('{"messages": [', "no attempt could be read"),
    ):
        (tmp_path / "t.jsonl").write_text(text)
        with pytest.raises(BadInput, match=what):
            main_raises("import", tmp_path / "t.jsonl", "--out", tmp_path / "run")
        assert not (tmp_path / "run").exists()
    with pytest.raises(BadInput, match="cannot be read"):
        main_raises("import", tmp_path / "none", "--out", tmp_path / "run")
    monkeypatch.setattr(events, "MAX_DOCUMENT", 100)
    with pytest.raises(BadInput, match="too large"):
        main_raises("import", FIXTURES / "chat.jsonl", "--out", tmp_path / "run")
    with pytest.raises(BadInput, match="no attempt could be read"):
        main_raises("import", FIXTURES / "trial", "--out", tmp_path / "run")


def main_raises(command, *words):
    from evolvent.cli.imports import COMMANDS

    COMMANDS[command]([str(word) for word in words])


def test_a_run_of_something_else_is_left_alone(tmp_path):
    RunFolder.create(tmp_path / "run", algo="grpo", config={}, env="e", seed=0, command="x")
    with pytest.raises(BadInput, match="a run is in this folder"):
        main_raises("import", FIXTURES / "chat.jsonl", "--out", tmp_path / "run")


def test_outcomes_beside_the_files_and_keys_in_texts(tmp_path):
    out = tmp_path / "run"
    told = write(tmp_path / "o.jsonl", {"id": "a", "reward": 0.75, "success": True})
    secret = "sk-" + "a1" * 12
    run("import", write(tmp_path / "t.jsonl", attempt(text=f"key {secret}")), "--out", out, "--outcomes", told)
    (row,) = RunFolder.open(out).read_episodes()
    episode = Episode.from_dict(row)
    assert episode.success is True and episode.total_reward == 0.75
    assert secret not in (out / "episodes.jsonl").read_text()
    assert str(tmp_path) not in (out / "config.json").read_text()


def test_other_commands_read_the_folder(tmp_path, capsys):
    out = tmp_path / "run"
    run("import", FIXTURES / "trial", "--out", out)
    run("credit", out, "--rule", "step_leave_one_out")
    run("runs", tmp_path)
    assert "import" in capsys.readouterr().out and (out / "credit.html").exists()
    with pytest.raises(SystemExit):
        run("export", "verl", out, "--out", tmp_path / "b")
    assert "give --rule" in capsys.readouterr().err
    rule = ("--rule", "step_leave_one_out")
    run("export", "jsonl", out, *rule, "--out", tmp_path / "x.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert [row["completion"] for row in rows][2:] == ["prices.csv", "7"]
    assert [m["role"] for m in rows[3]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "tool",
    ]
    run("export", "trl", out, *rule, "--out", tmp_path / "x.trl")
    rows = [json.loads(line) for line in (tmp_path / "x.trl").read_text().splitlines()]
    assert {tuple(m) for row in rows for m in row["prompt"] + row["completion"]} == {tuple(rows[0]["prompt"][0])}
    calls = rows[0]["completion"][0]["tool_calls"]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [{"item": "apple"}, {"item": "pear"}]
    assert rows[0]["completion"][0]["content"] == "I look both up." and rows[0]["label"] is True


def test_tokens_for_tinker_and_verl(tmp_path):
    pytest.importorskip("torch")
    out = tmp_path / "run"
    run("import", FIXTURES / "trial", "--out", out)
    rule = ("--rule", "step_leave_one_out", "--agent", "planner")
    run("export", "verl", out, *rule, "--out", tmp_path / "b.safetensors")
    run("export", "tinker", out, *rule, "--out", tmp_path / "x.jsonl")
    (row,) = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert {len(column) for column in row.values()} == {17} and row["tokens"][1:] == row["target_tokens"][:-1]
    paid = [t for t, adv in zip(row["target_tokens"], row["advantages"], strict=True) if adv]
    assert paid == [10, 11, 12, 20, 21, 30]  # no token of a result
    assert [lp for lp in row["logprobs"] if lp] == [-0.5, -0.25, -0.125, -1.0, -0.5, -0.0625]


def test_an_atif_document_comes_back_with_its_credit(tmp_path):
    out = tmp_path / "run"
    run("import", FIXTURES / "trial", "--out", out)
    run("export", "atif", out, "--rule", "step_leave_one_out", "step_return_to_go", "--out", tmp_path / "back")
    (made,) = [json.loads(path.read_text()) for path in (tmp_path / "back").iterdir()]
    original = json.loads((FIXTURES / "trial" / "agent" / "trajectory.json").read_text())
    steps = [made["steps"][i]["extra"]["evolvent"] for i in (2, 3, 4)]
    assert [one["credit"]["step_leave_one_out"] for one in steps] == [1.0] * 3 and steps[2]["reward"] == 1.0
    assert made["extra"]["evolvent"]["success"] is True and made["schema_version"] == "ATIF-v1.7"
    inner = made["subagent_trajectories"][0]["steps"][1]["extra"]["evolvent"]["credit"]
    assert inner["step_leave_one_out"] == 1.0
    if find_spec("atif"):  # the format's own package, where it is installed
        import_module("atif").Trajectory.model_validate(made)
    for one in (made, *made["steps"], *made["subagent_trajectories"][0]["steps"]):
        one.get("extra", {}).pop("evolvent", None)
        if one.get("extra") == {}:
            del one["extra"]
    assert made == original and list(made["steps"][2]) == list(original["steps"][2])


def test_outcomes_of_nothing_and_a_score_that_is_not_there_are_said(tmp_path, capsys):
    (tmp_path / "t.jsonl").write_text(
        '{"id": "a", "reward": 1, "messages": [{"role": "user", "content": "2+2?"}, '
        '{"role": "assistant", "content": "4"}]}\n'
    )
    (tmp_path / "o.jsonl").write_text('{"id": "b", "reward": 1}\n')
    run("import", tmp_path / "t.jsonl", "--out", tmp_path / "run", "--outcomes", tmp_path / "o.jsonl", "--reward", "no")
    said = capsys.readouterr().out
    assert "1 outcome of attempts that are not in these files" in said and "their own reward pays" in said
    assert "next: evolvent credit" in said


def test_the_page_calls_attempts_by_the_names_that_they_had(tmp_path, capsys):
    out = tmp_path / "run"
    rows = [attempt("monday 7", reward=1, task_id="t"), attempt("monday 7b", reward=0, task_id="t")]
    run("import", write(tmp_path / "mine.jsonl", *rows, attempt("", reward=1, task_id="t")), "--out", out)
    run("import", FIXTURES / "trial", "--out", out)
    run("credit", out, "--rule", "step_leave_one_out")
    page = (out / "credit.html").read_text()
    assert "<h1>Credit: attempts imported from openai, atif (mine.jsonl, trial)</h1>" in page
    made = [Episode.from_dict(row) for row in RunFolder.open(out).read_episodes()]
    assert all(name in page for name in ("monday 7 step 0", "monday 7b step 0", "mine.jsonl:3 step 0"))
    assert not any(e.id[:12] in page for e in made) and "seed" not in page
