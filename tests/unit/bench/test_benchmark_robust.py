"""The script on robustness makes each row once, and draws its table."""

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.mark.slow
def test_rows_are_made_once(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("robust")
    words = (
        "robust --parts small train --steps 4096 --episodes 2 --env gymnasium:InvertedPendulum-v5,max_episode_steps=20"
    )
    out = tmp_path / "result.json"
    monkeypatch.setattr(sys, "argv", [*words.split(), "--runs", str(tmp_path), "--out", str(out)])
    module.main()
    first = json.loads(out.read_text())
    assert [row.get("arm") for row in first["rows"]] == [None, *module.ARMS]
    assert [row["how"] for row in first["rows"][0]["rows"]][-1] == "gaussian"
    module.main()
    assert json.loads(out.read_text()) == first
