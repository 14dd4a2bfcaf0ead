"""A team run through the command line: continued, evaluated frozen, fine-tuned."""

import json
import re
import shlex
import signal
import time
from functools import partial

import command
import pytest

from run_folders import stable, weights

evolvent = partial(command.evolvent, trains=True)

WORDS = shlex.split(
    "--env spread:n=2,limit=6 --no-ids --envs 4 --horizon 6 --steps 432 --epochs 2 --minibatches 2 --width 16 "
    "--eval-every 4 --eval-episodes 4 --save-every 3 --plain"
)
UPDATES, EVALUATIONS = 18, 5


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # of the processes started here: their tensors are small
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    out, _ = evolvent("run", "mat", *WORDS, "--out", "run", cwd=folder)
    return folder / "run", out


def test_a_run_leaves_a_folder_that_says_all(whole):
    folder, out = whole
    assert "update 18/18" in out and "steps/s" in out and "random actions" in out and "report:" in out
    summary = json.loads((folder / "summary.json").read_text())
    assert (
        summary["updates"] == UPDATES and summary["steps"] == 24 * UPDATES and summary["agents"] == ["agent0", "agent1"]
    )
    assert summary["score"]["ci95"][0] <= summary["score"]["value"] <= summary["score"]["ci95"][1]
    rows = stable(folder)
    assert [row.get("phase") for row in rows].count("eval") == EVALUATIONS
    assert [rows[0]["phase"], rows[1]["phase"]] == ["random", "idle"]
    assert sum("update" in row for row in rows) == UPDATES and sum(rows[2]["credit"]) == pytest.approx(1, abs=1e-3)
    for name in ("behaviour.png", "behaviour_random.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert all(len(row["returns"]) == row["n"] for row in rows if row.get("phase"))
    report = (folder / "report.html").read_text()
    assert "data:image/png" in report and "return, no action" in report


def newest(folder):
    """The last update in the log."""
    path = folder / "metrics.jsonl"
    return max(map(int, re.findall(r'"update": (\d+),', path.read_text())), default=-1) if path.exists() else -1


def test_a_second_ctrl_c_stops_at_once(tmp_path, whole):
    """In the middle of an update: it is lost, what was saved before is not, and the numbers are the same."""
    folder, arguments = tmp_path / "run", ["run", "mat", *WORDS, "--out", "run"]
    process, until = command.start(*arguments, cwd=tmp_path), time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None and newest(folder) < 5:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume run" in err and "Traceback" not in err, err
    evolvent("run", "mat", "--resume", "run", "--plain", cwd=tmp_path)
    assert stable(folder) == stable(whole[0]) and weights(folder) == weights(whole[0])


def test_a_run_that_has_ended_goes_on_to_a_larger_total(tmp_path, whole):
    """As if it had been given that total at once, but for the evaluation at the first end."""
    few = [*WORDS[:8], 24 * 10, *WORDS[9:]]
    evolvent("run", "mat", *few, "--out", "run", cwd=tmp_path)
    out, _ = evolvent("run", "mat", "--resume", "run", "--steps", 24 * UPDATES, "--plain", cwd=tmp_path)
    folder = tmp_path / "run"
    assert "continuing after update 10 of 18" in out
    rows = [row for row in stable(folder) if not (row.get("phase") == "eval" and row["step"] == 24 * 10)]
    assert rows == stable(whole[0]) and len(stable(folder)) == len(rows) + 1
    assert weights(folder) == weights(whole[0])
    ours, theirs = (json.loads((path / "summary.json").read_text()) for path in (folder, whole[0]))
    assert {**ours, "seconds": 0} == {**theirs, "seconds": 0}
    kept = json.loads((folder / "config.json").read_text())
    assert kept["config"]["steps"] == 24 * UPDATES
    assert [entry["changed"] for entry in kept["extended"]] == [{"steps": [24 * 10, 24 * UPDATES]}]
    out, _ = evolvent("run", "mat", "--resume", "run", cwd=tmp_path)
    assert "has ended" in out and "--steps" in out
    _, err = evolvent("run", "mat", "--resume", "run", "--steps", 24 * 3, cwd=tmp_path, code=2)
    assert "has done more" in err and f"at least {24 * UPDATES}" in err
    _, err = evolvent("run", "mat", "--resume", "run", "--steps", 24 * 30, "--lr", 1, cwd=tmp_path, code=2)
    assert "keeps its settings" in err and "lr" in err and "steps" not in err.partition("expected")[0]
    assert json.loads((folder / "config.json").read_text()) == kept


def test_what_was_learned_plays_frozen_here_and_in_a_larger_team(whole):
    folder, _ = whole
    before = (folder / "metrics.jsonl").read_bytes()
    evolvent("eval", folder, "--plain", cwd=folder.parent)
    result, summary = (json.loads((folder / name).read_text()) for name in ("eval.json", "summary.json"))
    assert result["greedy"] == summary["greedy"] and result["sampled"] == summary["sampled"]
    out, _ = evolvent("eval", folder, "--env", "spread:n=4,limit=6", "--episodes", 3, "--plain", cwd=folder.parent)
    kept = json.loads((folder / "eval.json").read_text())
    assert kept["greedy"] == result["greedy"], "the result on its own environment stays"
    result = json.loads((folder / "eval-spread-n=4-limit=6.json").read_text())
    assert len(result["agents"]) == 4 and result["n"] == 3 and "spread:n=4" in out
    assert (folder / "metrics.jsonl").read_bytes() == before, "nothing in the run changes"


def test_a_larger_team_starts_from_the_weights_of_a_smaller_one(tmp_path, whole):
    few = [*WORDS[:7], "--steps", 24, *WORDS[9:]]
    few[1] = "spread:n=3,limit=6"
    out, _ = evolvent("run", "mat", *few, "--init", whole[0], "--lr", 0.0, "--out", "run", cwd=tmp_path)
    assert "starting with the weights of" in out
    ours, theirs = (weights(folder)[1] for folder in (tmp_path / "run", whole[0]))
    names = [name for name in ours if name.startswith("policy.encoder")]
    assert names and all(ours[name] == theirs[name] for name in names)
