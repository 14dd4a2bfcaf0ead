"""PARL-MT through the command line: two stages, an evaluation of what was learned, an error that helps."""

import json
import shlex
from functools import partial

import command
import pytest

import tiny_language

evolvent = partial(command.evolvent, trains=True)
model = tiny_language.fixture(max_position_embeddings=4096)
SETTINGS = shlex.split(
    "--env orders:turns=2 --conversations 3 --imitate 1 --updates 2 --prompts 1 --group 2 --answer 30 --augment 0 "
    "--dtype float32 --eval-every 0 --eval-tasks 1 --threads 1 --plain"
)


@pytest.mark.usefixtures("one_thread")
def test_a_run_ends_with_its_arms_and_is_evaluated(tmp_path, model):
    asked = ("--model", model, "--out", "run")
    out, _ = evolvent("run", "parl_mt", *SETTINGS, *asked, "--verify", "none", cwd=tmp_path)
    assert "to imitate, 0 of them in another guise" in out and "report:" in out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert set(summary["arms"]) == {"awareness", "empty", "gold"} and summary["notes"]["pairs"] == 6
    notes = [json.loads(line) for line in (tmp_path / "run" / "pag.jsonl").read_text().splitlines()]
    assert [row["turn"] for row in notes] == [0, 1] * 3 and all(row["kept"] for row in notes)
    evolvent("eval", "run", cwd=tmp_path)
    assert json.loads((tmp_path / "run" / "eval.json").read_text())["greedy"]["length_mean"] == 4.0
