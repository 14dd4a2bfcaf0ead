"""The script on agent scaling runs a part, goes on with one that was stopped, and draws its table."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def test_a_part_and_its_table(tmp_path, monkeypatch):
    (tmp_path / "writer.py").write_text("def answer(prompt):\n    return f' {len(prompt) % 3}\\n'\n")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module("agent_scaling")
    monkeypatch.setattr(module, "OUT", tmp_path / "result.json")
    words = ["agent_scaling", "--parts", "write", "--tasks", "3", "--model", "writer.py", "--embedder", "hash"]
    monkeypatch.setattr(sys, "argv", [*words, "--runs", "runs", "--out", "result.json"])
    module.main()
    (tmp_path / "runs" / "write" / "summary.json").unlink()
    module.main()
    result = json.loads((tmp_path / "result.json").read_text())
    assert [(row["part"], row["steps"], row["resumed"]) for row in result["rows"]] == [("write", 3, True)]
    assert result["commands"] == [
        "python benchmarks/agent_scaling.py --parts write --tasks 3 --model writer.py --embedder hash"
    ]
    text = "\n".join(module.table())
    for arm in ("single greedy", "best single", "mean of members", "L1 drawn", "L2", "L2 mesh", "L2 hub"):
        assert f"| {arm}" in text
