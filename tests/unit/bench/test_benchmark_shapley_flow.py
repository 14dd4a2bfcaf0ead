"""The script on ShapleyFlow runs its parts, goes on with what was stopped, and draws its table."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def test_parts_and_their_table(tmp_path, monkeypatch):
    for name in ("small", "large"):
        (tmp_path / f"{name}.py").write_text(f"def answer(prompt):\n    return f' {{len(prompt) % {len(name)}}}'\n")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module("shapley_flow")
    monkeypatch.setattr(module, "OUT", tmp_path / "result.json")
    monkeypatch.setattr(module, "COMMENTS", 2)
    words = ["shapley_flow", "--slots", "no-oracle", "placebo", "--tasks", "2", "--model", "small.py"]
    words += ["--strong", "large.py", "--runs", "runs", "--out", "result.json"]
    monkeypatch.setattr(sys, "argv", words)
    module.main()
    (tmp_path / "runs" / "no-oracle" / "summary.json").unlink()
    module.main()
    result = json.loads((tmp_path / "result.json").read_text())
    assert [(row["part"], row["tasks"], row["resumed"]) for row in result["rows"]] == [
        ("no-oracle", 2, True),
        ("placebo", 2, True),
    ]
    (command,) = result["commands"]
    assert command.endswith("--slots no-oracle placebo --tasks 2 --model small.py --strong large.py")
    text = "\n".join(module.table())
    assert "| plan + reason + act + reflect |" in text and "| none |" in text and "of 2 intervals hold 0" in text
    assert "| reflect | 0" in text and "adding up the parts" in text
