"""Recorded data through the command line: made, looked at, learned from, killed, gone on with, judged, compared."""

import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import command
import pytest

from evolvent.data.recorded.opening import open_recorded
from run_folders import stable, weights

evolvent = partial(command.evolvent, trains=True)
ENV = "gymnasium:CartPole-v1,max_episode_steps=100"
MAKE = ("data", "make", "--env", ENV, "--plain")
SMALL = "--steps 300 --log-every 50 --hidden 8 --batch 32 --eval-every 2 --eval-episodes 2 --save-every 2 --plain"
LEARN = ("--data", "replay", "--env", ENV, *SMALL.split())


TRAIN = "--steps 3840 --envs 4 --horizon 64 --epochs 4 --minibatches 4 --lr 5e-3 --hidden 16 --eval-episodes 8 --plain"


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    place = tmp_path_factory.mktemp("recorded")
    evolvent("run", "ppo", "--env", ENV, *TRAIN.split(), "--out", "expert", cwd=place)
    said, _ = evolvent(*MAKE, "--quality", "medium-replay", "--from", "expert", "--out", "replay", cwd=place)
    assert "a third of the way is reached after" in said and "next: evolvent data inspect replay" in said
    return place


def test_replay_is_the_beginning_of_the_run_whose_end_is_the_expert(here):
    data = open_recorded(here / "replay")
    rows = [
        [json.loads(line) for line in (here / run / "metrics.jsonl").read_text().splitlines()]
        for run in ("replay/behaviour/medium", "expert")
    ]
    short, whole = ([row["return"] for row in some if "update" in row] for some in rows)
    assert 0 < len(short) < len(whole) == 15 and short == whole[: len(short)]
    assert data.steps == 256 * len(short) and data.scale["random"] < data.scale["expert"]
    assert data.env == ENV and data.seeds and "while it learned" in data.made_by
    _, error = evolvent(*MAKE, "--quality", "random", "--out", "replay", cwd=here, code=2)
    assert "there are recorded attempts already" in error


def test_other_qualities_take_the_same_behaviour(here):
    (here / "replay/behaviour/expert").symlink_to(here / "expert")  # where a training of its own would stand
    words = ("--quality", "medium-expert", "--steps", "600", "--from", "replay", "--out", "mixed")
    evolvent(*MAKE, *words, cwd=here)
    assert not (here / "mixed/behaviour").exists(), "both policies are there already"
    assert len(open_recorded(here / "mixed").seeds) == 2
    said, _ = evolvent("data", "inspect", "mixed", "--reference", "replay", "--plain", cwd=here)
    assert "TQ" in said and "SACo" in said and "not known" not in said


def test_killed_continued_judged_and_compared(here):
    evolvent("run", "bc", *LEARN, "--out", "whole", cwd=here)
    process, log = command.start("run", "bc", *LEARN, "--out", "cut", cwd=here), here / "cut" / "metrics.jsonl"
    while process.poll() is None and not (log.exists() and '"update": 3,' in log.read_text()):
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert not (here / "cut" / "summary.json").exists(), "the run was over before it could be killed"
    evolvent("run", "bc", "--resume", "cut", "--plain", cwd=here)
    assert stable(here / "cut") == stable(here / "whole") and weights(here / "cut") == weights(here / "whole")
    evolvent("eval", "cut", "--episodes", "2", cwd=here)
    judged, summary = (json.loads((here / "cut" / name).read_text()) for name in ("eval.json", "summary.json"))
    assert judged["greedy"]["returns"] == summary["greedy"]["returns"]
    evolvent("run", "iql", *LEARN, "--out", "iql", cwd=here)
    said, _ = evolvent("compare", "cut", "iql", "--plain", cwd=here)
    assert "iql" in said
    page = (here / "cut" / "report.html").read_text()
    assert "data, mean attempt" in page and "on the scale of the data" in page
    _, error = evolvent("run", "td3_bc", *LEARN, "--out", "td3", cwd=here, code=2)
    assert "use bc, or iql for choices" in error
    _, error = evolvent("run", "bc", *LEARN, "--env", "gymnasium:Acrobot-v1", "--out", "other", cwd=here, code=2)
    assert "of another environment" in error and not (here / "other").exists()


def test_a_conversion_goes_one_way(here):
    _, error = evolvent("data", "convert", "replay", cwd=here, code=2)
    assert "--minari NAME" in error


def test_the_example_learns_from_an_npz(tmp_path):
    file = Path(__file__).parents[2] / "examples" / "recorded_data.py"
    words = [sys.executable, str(file), "--steps", "200", "--attempts", "20", "--out", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "bc: " in done.stdout and "iql: " in done.stdout and (tmp_path / "compare.html").exists()
