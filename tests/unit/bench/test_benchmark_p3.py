"""The script on P3 runs all arms on both pools, gives the controls p3's seconds, and draws its table."""

import importlib
import json
import sys
from pathlib import Path

import pytest

import tiny_language

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
folder = tiny_language.fixture()


def test_all_arms_on_both_pools(folder, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("p3")
    out = tmp_path / "p3.json"
    words = ["p3", "--model", folder, "--n", "6", "--heldout", "3", "--seeds", "0", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(module.p3, "tuned", module.p3.tuned)  # put back at the end
    monkeypatch.setattr(module, "OUT", out)
    module.main()
    rows = json.loads(out.read_text())["rows"]
    assert [(row["pool"], row["arm"]) for row in rows] == [(p, a) for p in module.POOLS for a in module.ARMS]
    for row in rows:
        assert (row["scoring_cpu_s"] > 0.0) == (row["arm"] in ("p3", "pace"))
        assert 0.0 <= row["hopeless"] <= 1.0 and (row["pool"] == "hopeless" or row["hopeless"] == 0.0)
        assert row["after"] != row["before"]
    assert [row["learned_from"] for row in rows if row["arm"] == "p3"] == [6, 6]
    lines = module.table()
    assert len(lines) == 2 + 8 + 2 and "| hopeless | `random` |" in "\n".join(lines)


def test_what_is_hopeless_has_the_form_of_a_solution(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("p3")
    (whole, none), (mixed, bad) = module.pool(0.0, 10, 1), module.pool(0.8, 10, 1)
    assert (none, bad) == (0, 8) and mixed[8:] == whole[8:]
    form = [[("0" if c.isdigit() else c) for c in answer] for _, answer in (*whole, *mixed)]
    assert form[:10] == form[10:] and all(a != b for (_, a), (_, b) in zip(whole[:8], mixed[:8], strict=True))


@pytest.mark.parametrize(("arm", "wanted"), [("random", (5, 3)), ("all", (6, 2)), ("pace", (2, 3))])
def test_controls_learn_from_what_the_seconds_pay_for(monkeypatch, arm, wanted):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("p3")
    first = {"scoring_cpu_s": 9.0, "choosing_cpu_s": 0.0, "learning_cpu_s": 6.0, "learned_from": 6}
    size = module.sizes(arm, 6, first)
    assert (size["select"], size["updates"]) == wanted
