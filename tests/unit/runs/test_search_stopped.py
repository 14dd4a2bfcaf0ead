"""A search run that was stopped, killed or out of time goes on as one that was not; so does one of an old version."""

import json
import os
import signal
import subprocess
import sys

import pytest

from evolvent.cli import run as command
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.runs.search.grow import Grower

CLOCK = ("t", "seconds", "model_s", "value_s")
TASKS = 5
ROWS, BATCHES = 2 * TASKS, 6  # of two searches, two tasks a batch
WORLD = "household:swap=true"


def arguments(out, *more):
    fixed = "search --model none --search best_of_n rap --value flat --budget-tokens 0 --budget-calls 30 --plain"
    return [*fixed.split(), "--env", WORLD, "--tasks", str(TASKS), "--batch", "2", "--out", str(out), *more]


def again(out, *more):
    command.main(["search", "--resume", str(out), "--plain", *more])


def written(out):
    """What a run wrote, but for the clock and the names of attempts."""
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    episodes = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    summary = json.loads((out / "summary.json").read_text())
    for arm in summary["arms"]:
        del arm["seconds"]
    return (
        [{k: v for k, v in row.items() if k not in CLOCK} for row in rows],
        [{k: v for k, v in one.items() if k != "id"} for one in episodes],
        (out / "trees.jsonl").read_text(),
        {k: v for k, v in summary.items() if k != "seconds"},
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    command.main(arguments(out))
    assert [row["step"] for row in written(out)[0]] == list(range(ROWS))
    return written(out)


@pytest.fixture
def stop(monkeypatch):
    """Send a signal to this process in the batch of that number, the first is 1."""

    def at(batch, number):
        grown, grow = [], Grower.grow

        def stopping(*arguments, **named):
            grown.append(1)
            if len(grown) == batch:
                os.kill(os.getpid(), number)
            return grow(*arguments, **named)

        monkeypatch.setattr(Grower, "grow", stopping)

    return at


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("batch", "rows"), [(1, 2), (3, 5), (5, 9)])
def test_a_stopped_run_ends_its_batch_and_goes_on_as_one_that_was_not(
    tmp_path, whole, stop, capsys, number, batch, rows
):
    out = tmp_path / "run"
    stop(batch, number)
    with pytest.raises(KeyboardInterrupt, match="stopped; the run stands in"):
        command.main(arguments(out))
    assert len(RunFolder.open(out).read_metrics()) == rows and not (out / "summary.json").exists()
    assert f"stopped after batch {batch}, which is saved" in capsys.readouterr().out
    again(out)
    assert f"continuing after batch {batch} of {BATCHES}" in capsys.readouterr().out
    assert written(out) == whole


def test_stopped_in_its_last_batch_it_ends(tmp_path, whole, stop):
    stop(BATCHES, signal.SIGTERM)
    command.main(arguments(tmp_path / "run"))
    assert written(tmp_path / "run") == whole


KILLED = """
import os, signal, sys
from evolvent.cli import run
from evolvent.core.folder import RunFolder

log = RunFolder.log
def killed(self, step, **row):
    if step == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    log(self, step, **row)
RunFolder.log = killed
run.main(sys.argv[1:])
"""


@pytest.mark.parametrize("at", [0, 3, 8])
def test_a_killed_run_goes_on_as_one_that_was_not(tmp_path, whole, at):
    """Also where the attempts and the tree of a task are written, and its line is not."""
    out = tmp_path / "run"
    done = subprocess.run([sys.executable, "-c", KILLED.format(at=at), *arguments(out)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(RunFolder.open(out).read_metrics()) == at
    again(out)
    assert written(out) == whole


def test_it_ends_where_its_minutes_are_over_and_goes_on_with_more(tmp_path, whole, monkeypatch, capsys):
    out = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "seconds", property(lambda self: 60.0 * len(self.read_metrics())))
        command.main(arguments(out, "--minutes", "6"))
    assert "the 6 minutes are over: 4 of 6 batches were searched" in capsys.readouterr().out
    assert [arm["n"] for arm in json.loads((out / "summary.json").read_text())["arms"]] == [5, 2]
    assert (out / "report.html").exists()
    again(out)
    assert "this run has ended; nothing to do; --minutes makes it go on" in " ".join(capsys.readouterr().out.split())
    again(out, "--minutes", "60")
    assert written(out) == whole


def test_minutes_that_are_over_before_anything_is_searched_are_said(tmp_path, capsys):
    command.main(arguments(tmp_path / "run", "--minutes", "1e-9"))
    assert "0 of 6 batches were searched" in capsys.readouterr().out and (tmp_path / "run/report.html").exists()
    for wrong in ("-1", "nan"):
        with pytest.raises((BadInput, SystemExit)):
            command.main(arguments(tmp_path / wrong, "--minutes", wrong))


def test_a_folder_of_an_earlier_version_goes_on(tmp_path, whole):
    out = tmp_path / "run"
    command.main(arguments(out))
    (out / "summary.json").unlink()
    kept = (out / "metrics.jsonl").read_text().splitlines(keepends=True)
    (out / "metrics.jsonl").write_text("".join(kept[:6]))
    manifest = json.loads((out / "config.json").read_text())
    del manifest["config"]["plan"]["minutes"], manifest["kind"]
    manifest["config"] |= manifest["config"].pop("plan")  # before there was a plan
    (out / "config.json").write_text(json.dumps(manifest))
    again(out)
    assert written(out) == whole
