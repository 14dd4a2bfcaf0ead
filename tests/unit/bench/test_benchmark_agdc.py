"""The script on the search for a source: its parts at their smallest, kept beside one another, and its table."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def test_parts_and_their_table(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module("agdc")
    monkeypatch.setattr(module, "OUT", tmp_path / "result.json")
    monkeypatch.setattr(module, "PLANNERS", ("dcee", "towards_mean"))
    few = ["--episodes", "2", "--seeds", "2", "--steps", "4096", "--speed-s", "0.02", "--runs", "r"]
    for part in ("planners", "wide", "speed"):
        monkeypatch.setattr(sys, "argv", ["agdc", "--parts", part, *few, "--out", "result.json"])
        module.main()
    rows = json.loads((tmp_path / "result.json").read_text())["rows"]
    assert [row["arm"] for row in rows if row["part"] == "planners"] == ["dcee", "towards_mean"] * 2
    assert all(len(row["by_search"]) == row["n"] == 2 for row in rows if row["part"] != "speed")
    text = "\n".join(module.table())
    assert "| agdc, ppo, 2 seeds | " in text and "| 32 x 300 | " in text and "minus dcee" in text
