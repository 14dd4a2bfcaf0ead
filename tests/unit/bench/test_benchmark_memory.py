"""The grids of memory systems: every cell has settings that exist, and a cell runs from end to end."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


@pytest.mark.parametrize("name", ["analyst", "text_world"])
def test_every_cell_of_a_grid_has_settings_that_exist(load, name):
    grid, every = load("grid"), load(name).GRID
    for condition in every.conditions:
        for arm, (module, _) in every.arms.items():
            config = grid.config_of(every, condition, arm, "none", seed=3)
            assert isinstance(config, module.Config)
            assert config.seed == 3 and not config.plan.control


def test_a_cell_runs_and_is_not_run_twice(load, tmp_path, monkeypatch):
    grid = load("grid")
    small = replace(
        load("analyst").GRID,
        conditions={"demo": "evolvent.demo:make"},
        by_condition={},
        settings={"train": 4, "heldout": 4, "passes": 2, "embedder": "hash"},
    )
    out = tmp_path / "rows.json"
    arguments = ["--model", "evolvent.demo:answer", "--arms", "memlift", "--seeds", "0"]
    monkeypatch.setattr(sys, "argv", ["analyst", "--runs", str(tmp_path / "runs"), "--out", str(out), *arguments])
    grid.main(small, "doc")
    first = json.loads(out.read_text())
    assert [(row["arm"], row["passes"], row["heldout"]) for row in first] == [("memlift", [0.0, 1.0], 1.0)]
    grid.main(small, "doc")
    assert json.loads(out.read_text()) == first
