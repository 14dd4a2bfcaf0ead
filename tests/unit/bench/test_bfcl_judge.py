"""Our judge of BFCL against the official checker from its wheel, which is fetched."""

import importlib
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_judge_agrees_with_the_official_checker(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    found = importlib.import_module("bfcl_judge").compared(120, seed=1)
    total = found["total"]
    assert total["disagreements"] == total["exceptions"] == 0, found["shown"][:3]
    assert total["answers"] >= 2000 and 3 * total["valid"] >= total["answers"]
    assert all(row["answers"] >= 100 for row in found["mutations"].values())
