"""Trackers get the numbers of each line of the metrics, and nothing is imported unless it is asked for."""

import sys
from types import SimpleNamespace

import pytest

import evolvent
from evolvent.core.errors import BadInput, EvolventError

DEMO = {"env": "evolvent.demo:make", "model": "evolvent.demo:answer", "embedder": "hash", "train": 2, "heldout": 1}


class Tracker:
    def __init__(self):
        self.started, self.lines, self.ended = {}, [], 0

    def init(self, **given):
        self.started = given

    def log(self, values, step):
        self.lines.append((step, values))

    def finish(self):
        self.ended += 1


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_a_tracker_gets_every_line(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, tracker := Tracker())
    evolvent.run("memlift", out=tmp_path / "mine", quiet=True, log=name, **DEMO)
    assert tracker.started["name"] == "mine" and tracker.started["config"]["train"] == 2 and tracker.ended == 1
    assert [step for step, _ in tracker.lines] == list(range(1, 9))
    assert tracker.lines[0][1]["before/success"] == 0.0 and tracker.lines[5][1]["after/success"] == 1.0


def test_tensorboard_writes_into_the_run_folder(tmp_path, monkeypatch):
    found = []

    def writer(path):
        return SimpleNamespace(add_scalar=lambda *row: found.append((path, *row)), close=lambda: found.append("closed"))

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=writer))
    evolvent.run("memlift", out=tmp_path / "run", quiet=True, log="tensorboard", **DEMO)
    assert (str(tmp_path / "run" / "tensorboard"), "before/success", 0.0, 1) in found and found[-1] == "closed"


def test_what_cannot_be_written_to_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(EvolventError, match="wandb is not installed"):
        evolvent.run("memlift", out=tmp_path / "a", quiet=True, log="wandb", **DEMO)
    with pytest.raises(BadInput, match="unknown tracker"):
        evolvent.run("memlift", out=tmp_path / "b", quiet=True, log="mlflow", **DEMO)
    assert not list(tmp_path.glob("[ab]"))
