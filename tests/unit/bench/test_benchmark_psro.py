"""The script on populations runs its arms beside CFR, keeps other parts, and draws its table."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def test_parts_and_their_table(tmp_path, monkeypatch):
    pytest.importorskip("pyspiel")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module("psro")
    monkeypatch.setattr(module, "OUT", tmp_path / "result.json")
    for part in ("kuhn", "drawn"):
        words = ["psro", "--parts", part, "--iterations", "2", "--seeds", "2", "--runs", part, "--out", "result.json"]
        monkeypatch.setattr(sys, "argv", words)
        module.main()
    rows = {row["arm"]: row for row in json.loads((tmp_path / "result.json").read_text())["rows"]}
    assert {*module.EXACT, *module.DRAWN, "CFR"} == set(rows)
    assert rows["fsp"]["nash_conv"] == pytest.approx([0.9167, 0.625, 0.4167], abs=5e-5)
    assert len(rows["as many for all"]["nash_conv_by_seed"]) == 2
    text = "\n".join(module.table())
    assert "| self_play | 0.9167 | 0.8333 | 0.3333 | – |" in text
    assert "benchmarks/psro.py --parts drawn --iterations 2 --seeds 2" in text
