"""The script on PARL-MT runs both ways in both stages, goes on where it stopped, and draws its table."""

import importlib
import json
import sys
from pathlib import Path

import pytest

import tiny_language

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
folder = tiny_language.fixture(max_position_embeddings=4096)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_both_ways_in_both_stages(folder, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("parl_mt")
    out = tmp_path / "parl_mt.json"
    sizes = {"conversations": 3, "imitate": 1, "rl": 1, "group": 2, "heldout": 1, "verify": "none", "seeds": 0}
    small = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    monkeypatch.setattr(module.parl_mt, "figures", module.FIGURES)  # put back at the end
    monkeypatch.setattr(module, "OUT", out)
    for ways in (["awareness"], ["awareness", "history"]):
        monkeypatch.setattr(sys, "argv", ["parl_mt", "--model", folder, *small, "--ways", *ways, "--out", str(out)])
        module.main()
    rows = json.loads(out.read_text())["rows"]
    arms = [(row["way"], row["stage"], row["arm"]) for row in rows]
    assert len(set(arms)) == len(arms) == 2 + 2 * 3 + 2
    assert ("awareness", "SFT + GRPO", "gold") in arms and ("history", "SFT", "history") in arms
    lines = module.table()
    assert len(lines) == 2 + 10 + 2 and "| awareness, SFT | *empty* notes |" in "\n".join(lines)
