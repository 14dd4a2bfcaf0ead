"""A stranger's tools and logs, then Hammer on them, through the command line: before and after, what is refused."""

import json
from functools import partial
from pathlib import Path

import command

import tiny_language

evolvent = partial(command.evolvent)
EXAMPLE = Path(__file__).parents[2] / "examples" / "functions"


def test_the_example_is_learned_and_both_sides_are_shown(tmp_path):
    model = tiny_language.write(tmp_path / "tiny", max_position_embeddings=4096)
    files = (str(EXAMPLE / "tools.json"), str(EXAMPLE / "calls.jsonl"))
    made = ("--irrelevant", ".3", "--candidates", 2, "--out", "fc", "--plain")
    evolvent("data", "functions", *files, *made, cwd=tmp_path)
    short = ("--tasks", 6, "--epochs", 2, "--prompts", 4, "--eval-every", 0, "--eval-tasks", 5, "--answer", 4)
    run = ("run", "hammer", "--env", "functions:fc", "--model", model, *short, "--dtype", "float32", "--plain")
    out, _ = evolvent(*run, "--out", "run", cwd=tmp_path)
    assert "held-out tasks, before → after" in out and "random, seen" in out and "refusals right" in out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["algo"] == "hammer" and set(summary["calls"]) == set(summary["calls_before"]) == {"own", "random"}
    assert sum(part["call rate"]["n"] for part in summary["calls"]["own"].values()) == 5
    again, _ = evolvent("eval", "run", "--env", "functions:fc,names=random", "--plain", cwd=tmp_path)
    assert "return" in again and "calls of functions, greedy" in again
    called = json.loads(next((tmp_path / "run").glob("eval-*.json")).read_text())["greedy"]["called"]
    assert called["call rate"]["n"] == 5 == called["calls right"]["n"] + called["refusals right"]["n"]
    _, error = evolvent("run", "hammer", "--env", "arithmetic:addition", "--out", "no", cwd=tmp_path, code=2)
    assert "evolvent data functions" in error
