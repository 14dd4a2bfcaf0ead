"""A memory system through the command line on the analyst world: the folder it leaves, and what it learned, frozen."""

import json
import re

import pytest
from command import evolvent

from evolvent import Memory
from run_folders import stable

WORDS = ("--train", 8, "--heldout", 3, "--passes", 3, "--env", "analyst:kinds=5,reviewer_wrong=0.4", "--plain")


@pytest.fixture(scope="module")
def script(tmp_path_factory, flights_db):
    path = tmp_path_factory.mktemp("model") / "replies.json"
    path.write_text(json.dumps({"replies": {"*": "SELECT COUNT(*) FROM flights WHERE carrier='UA'"}}))
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory, script):
    folder = tmp_path_factory.mktemp("whole")
    out, _ = evolvent("run", "memlift", "--model", f"scripted:{script}", *WORDS, "--out", "run", cwd=folder)
    return folder / "run", out


def lines(folder):
    path = folder / "metrics.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def values(folder):
    with Memory(folder / "memory.db") as memory:
        return [(i.id, i.key, i.body, i.value, i.n, i.n_omitted) for i in memory.items()]


def test_a_run_leaves_a_folder_that_says_all(whole):
    folder, out = whole
    assert "Stream, pass 2 of 3 (8 tasks)" in out and "report:" in out
    for name, n in (("before: held-out", 3), ("stream: tasks", 24), ("after: the same", 3), ("control: tasks", 8)):
        assert re.search(rf"\n{name} .* {n} +0 +0 % \[0, ", out), name
    assert [re.search(rf"\n *{number} +8 +0 % \[0, 32\]", out) is not None for number in (1, 2, 3)] == [True] * 3
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["steps"] == 3 + 24 + 3 + 8 == len(lines(folder))
    assert summary["score"]["name"] == "held-out success"
    assert (folder / "report.html").stat().st_size > 10_000
    assert {row["phase"] for row in stable(folder)} == {"before", "stream", "after", "control"}
    assert any(row["shown"] for row in stable(folder)) and any(row["lesson"] == "corrected" for row in stable(folder))


def test_what_was_learned_is_evaluated_frozen(whole):
    folder, _ = whole
    before = values(folder)
    out, _ = evolvent("eval", folder, "--episodes", 4, "--plain", cwd=folder.parent)
    result = json.loads((folder / "eval.json").read_text())
    assert result["n"] == 4 and "Held-out tasks, memory frozen (4)" in out
    assert values(folder) == before


def test_a_run_that_fails_before_its_first_task_leaves_no_folder(tmp_path, flights_db):
    _, err = evolvent("run", "memlift", "--model", "none", *WORDS, "--out", "run", cwd=tmp_path, code=2)
    assert "none" in err and not (tmp_path / "run").exists()
