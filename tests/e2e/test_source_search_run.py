"""A search for a source through the command line: learned, continued, judged, planned, compared."""

import json
import shlex
from functools import partial

import command

evolvent = partial(command.evolvent, trains=True)
WORLD = "ste:wide,limit=25,particles=40"
WORDS = shlex.split(
    f"--env {WORLD} --steps 640 --envs 4 --horizon 20 --hidden 8 --eval-every 0 --eval-episodes 8 --save-every 4 "
    "--plain"
)


def test_learned_continued_judged_planned_and_compared(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    shown, _ = evolvent("run", "agdc", *WORDS, "--out", "run", cwd=tmp_path)
    assert "found the source" in shown and "stopped wrongly" in shown and "random moves" in shown
    evolvent("run", "agdc", "--resume", "run", "--steps", "960", "--plain", cwd=tmp_path)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["steps"] == 960 and len(summary["searches"]["greedy"]["error"]) == 8
    evolvent("eval", "run", "--episodes", "4", "--env", "ste:wide,limit=25", cwd=tmp_path)  # more particles
    planned = ("--env", WORLD, "--planner", "dcee", "--draws", "3", "--episodes", "8", "--plain")
    evolvent("run", "infotaxis", *planned, "--out", "dcee", cwd=tmp_path)
    told, _ = evolvent("eval", "dcee", "--episodes", "4", cwd=tmp_path)
    assert "stopped wrongly" in told
    compared, _ = evolvent("compare", "dcee", "run", cwd=tmp_path)
    assert "on the same 8 attempts" in compared
