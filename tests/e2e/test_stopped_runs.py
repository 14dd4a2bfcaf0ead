"""Every kind of run through the command line, killed, stopped by Ctrl-C or a scheduler: the numbers stay the same."""

import json
import shlex
import signal
import time
from functools import partial

import command
import pytest

import tiny_language
from evolvent import Memory
from run_folders import stable, weights

evolvent = partial(command.evolvent, trains=True)

LANGUAGE = shlex.split(
    "poad --env microwave --updates 8 --prompts 2 --group 2 --epochs 2 --minibatches 2 --lr 0.01 --dtype "
    "float32 --eval-every 3 --eval-tasks 2 --threads 1 --turns 2"
)
TEAM = shlex.split(
    "mat --env spread:n=2,limit=6 --no-ids --envs 4 --horizon 6 --steps 432 --epochs 2 --minibatches 2 "
    "--width 16 --eval-every 4 --eval-episodes 4 --save-every 3"
)
STREAM = shlex.split("memlift --env analyst:kinds=5,reviewer_wrong=0.4,drift=0.5 --train 20 --heldout 3 --passes 3")
AFTER = {"language": (1, 3, 5), "team": (4, 8, 11), "memory": (8, 30, 50)}
"""Updates, or tasks, after which it is killed, stopped by Ctrl-C, stopped by a scheduler; a memory in its control."""
model = tiny_language.fixture()


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # of the processes started here: their tensors are small


@pytest.fixture
def words(request, tmp_path):
    """The command line of each kind of run."""
    if request.param == "team":
        return TEAM
    if request.param == "language":
        return (*LANGUAGE, "--model", request.getfixturevalue("model"))
    request.getfixturevalue("flights_db")
    script = tmp_path / "replies.json"
    script.write_text(json.dumps({"replies": {"*": "SELECT COUNT(*) FROM flights WHERE carrier='UA'"}}))
    return (*STREAM, "--model", f"scripted:{script}")


def passed(folder, kind):
    """Updates, or tasks, that the log has."""
    path = folder / "metrics.jsonl"
    rows = [json.loads(row) for row in path.read_text().splitlines(True) if row[-1] == "\n"] if path.exists() else []
    return max((row["step"] if kind == "memory" else row.get("update", 0) for row in rows), default=0)


def learned(folder, kind):
    """What a run has learned, and the record of its attempts but for their names."""
    path = folder / "episodes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    attempts = [{name: value for name, value in row.items() if name != "id"} for row in rows]
    if kind != "memory":
        return weights(folder), attempts
    with Memory(folder / "memory.db") as memory:  # attempts name their recalls, which are random
        return [(i.id, i.key, i.body, i.value, i.n, i.n_omitted) for i in memory.items()], len(attempts)


SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
ONE = dict(zip(AFTER, SIGNALS, strict=True))  # of each kind; all three in a row are slow


@pytest.mark.parametrize(
    ("kind", "words", "signals"),
    [(kind, kind, (ONE[kind],)) for kind in AFTER]
    + [pytest.param(kind, kind, SIGNALS, marks=pytest.mark.slow) for kind in AFTER],
    indirect=["words"],
)
def test_a_run_that_was_killed_or_stopped_ends_with_the_same_numbers(tmp_path, kind, words, signals):
    algo, folder, whole = words[0], tmp_path / "run", tmp_path / "whole"
    evolvent("run", *words, "--out", "whole", "--plain", cwd=tmp_path)
    assert json.loads((whole / "config.json").read_text())["kind"] == kind
    now = ("run", *words, "--out", "run", "--plain")
    for number, after in zip(SIGNALS, AFTER[kind], strict=True):
        if number not in signals:
            continue
        process, until = command.start(*now, cwd=tmp_path), time.monotonic() + 180
        found = low = passed(folder, kind)  # what was killed late has written more than is saved
        while time.monotonic() < until and process.poll() is None and not low < found >= after:
            time.sleep(0.002)
            found = passed(folder, kind)
            low = min(low, found)
        process.send_signal(number)
        out, err = process.communicate(timeout=180)
        assert not (folder / "summary.json").exists(), f"the run was over before it could be stopped\n{out}\n{err}"
        if number != signal.SIGKILL:
            at = passed(folder, kind)
            assert process.returncode == 130 and f"evolvent run {algo} --resume run" in err
            assert f"stopped after {'task' if kind == 'memory' else 'update'} {at}, which is saved" in out
            assert kind == "memory" or weights(folder)[0] == f"step-{at:09d}"
            assert "report so far" in out and (folder / "report.html").exists()
        now = ("run", algo, "--resume", "run", "--plain")
    out, _ = evolvent(*now, cwd=tmp_path)
    if signals[-1] != signal.SIGKILL:
        assert f"continuing after {'task' if kind == 'memory' else 'update'} {at} of" in out, "nothing was lost"
    assert stable(folder) == stable(whole)
    assert learned(folder, kind) == learned(whole, kind)
    ours, theirs = (json.loads((path / "summary.json").read_text()) for path in (folder, whole))
    assert timeless(ours) == timeless(theirs)


def timeless(summary):
    """A summary without the clock."""
    return {name: value for name, value in summary.items() if name != "seconds"}
