"""The script on the market runs a seed, goes on with one that was stopped, and draws its tables."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import holos_house

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
HOUSE = holos_house.__file__
SET = {"env": f"{HOUSE},wrong=0.3", "model": HOUSE, "embedder": "hash", "questions": 6, "tasks": 2, "rates": [0, 0.5]}


def test_a_seed_a_newcomer_and_the_tables(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module("holos")
    monkeypatch.setattr(module, "OUT", tmp_path / "result.json")
    monkeypatch.setattr(module, "PARTS", 40)
    settings = SET | {"failures": ["crash", "caught"]}
    words = [
        "holos",
        "--seeds",
        "0",
        "--newcomers",
        "0",
        "--set",
        *(f"{k}={json.dumps(v)}" for k, v in settings.items()),
    ]
    monkeypatch.setattr(sys, "argv", [*words, "--runs", "runs", "--out", "result.json"])
    module.main()
    (tmp_path / "runs" / "seed0" / "summary.json").unlink()
    module.main()
    result = json.loads((tmp_path / "result.json").read_text())
    assert [(row["seed"], row["steps"], row["resumed"]) for row in result["rows"]] == [(0, 2 * 2 * (2 + 4), True)]
    assert len(result["commands"]) == 1 and 0.05 < result["newcomers"][0]["share"] < 0.5
    text = "\n".join(module.table())
    assert (
        "| 0.5 | 59 |" in text
        and "| r | market | market without learning | random, able | best single agent | one with all lessons |" in text
    )
    assert "| 0 | 100 | 100 [34, 100] | 100 [34, 100] |" in text
