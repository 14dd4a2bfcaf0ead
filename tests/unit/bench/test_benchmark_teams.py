"""The evidence of teams: grids skip what is there, start from one another, and pages say what the result files hold."""

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
SMALL = {"env": "split:n=2", "envs": 4, "horizon": 2, "ids": False, "epochs": 1, "eval_every": 1, "eval_episodes": 4}


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import marl_tables
    import team_grid

    return team_grid, marl_tables


def run(team_grid, cells, tmp_path, monkeypatch, *arguments):
    out = tmp_path / "rows.json"
    monkeypatch.setattr(sys, "argv", ["grid", "--runs", str(tmp_path / "runs"), "--out", str(out), *arguments])
    team_grid.main("grid", cells, "doc", seeds=(0, 1))
    return json.loads(out.read_text())


def test_a_grid_runs_what_is_missing_and_nothing_twice(scripts, tmp_path, monkeypatch):
    team_grid, _ = scripts
    first = team_grid.Cell("two", "scratch", "mat", {**SMALL, "steps": 24})
    later = team_grid.Cell("two", "tuned", "mat", {**SMALL, "steps": 8}, start=("two", "scratch"))
    rows = run(team_grid, [first, later], tmp_path, monkeypatch, "--seeds", "0", "--arms", "scratch")
    assert [(row["arm"], row["seed"], row["updates"]) for row in rows] == [("scratch", 0, 3)]
    assert [step for step, _ in rows[0]["curve"]] == [8, 16, 24]
    assert [m["step"] for m in rows[0]["evaluations"]] == [8, 16, 24]
    monkeypatch.setattr(team_grid, "POINTS", 2)
    again = run(team_grid, [first, later], tmp_path, monkeypatch)
    assert again[0] == rows[0]
    assert [(row["arm"], row["seed"]) for row in again[1:]] == [("tuned", 0), ("scratch", 1), ("tuned", 1)]
    assert again[1]["config"]["plan"]["init"] == "two/scratch"
    assert len(again[2]["curve"]) == 2
    assert again[1]["commit"]
    assert again[1]["command"].endswith("--seeds 0")


def test_steps_are_fitted_to_the_minutes_and_kept_when_a_run_goes_on(scripts, tmp_path, monkeypatch):
    team_grid, _ = scripts
    monkeypatch.setattr(team_grid, "steps_in", lambda module, config, minutes, live: int(8 * minutes))
    monkeypatch.setattr(
        sys,
        "argv",
        [
            "grid",
            "--runs",
            str(tmp_path / "runs"),
            "--out",
            str(tmp_path / "rows.json"),
            "--minutes",
            "2",
            "--seeds",
            "0",
        ],
    )
    team_grid.main("grid", [team_grid.Cell("two", "mat", "mat", SMALL)], "doc", seeds=(0,), minutes=40.0)
    [row] = team_grid.rows(tmp_path / "rows.json")
    assert row["steps"] == 16
    assert row["command"].endswith("--minutes 2")
    (tmp_path / "rows.json").unlink()
    monkeypatch.setattr(team_grid, "steps_in", lambda *_: pytest.fail("the run has its steps"))
    team_grid.main("grid", [team_grid.Cell("two", "mat", "mat", SMALL)], "doc", seeds=(0,), minutes=40.0)
    assert team_grid.rows(tmp_path / "rows.json")[0]["curve"] == row["curve"]


def test_pages_are_those_of_their_result_files(scripts):
    _, marl_tables = scripts
    for name, text in (("marl", marl_tables.learning_page()), ("marl-speed", marl_tables.speed_page())):
        path = marl_tables.DOCS / f"{name}.md"
        assert (path.read_text("utf-8") if path.exists() else "") == text, f"python benchmarks/marl_tables.py ({name})"


def row(arm, seed, value, **more):
    return {
        "task": "t",
        "arm": arm,
        "algo": arm,
        "seed": seed,
        "greedy": {"value": value},
        "sampled": {"value": value},
        "random": {"value": -9.0},
        "steps": 100,
        "updates": 10,
        "seconds": {"act": 2.0},
        "config": {"env": "e"},
        "curve": [[50, value / 2], [100, value]],
        "commit": {"id": "c", "dirty": False},
        "evaluations": [{"step": 30, "value": value - 3}, {"step": 100, "value": value}],
        **more,
    }


def test_a_table_says_iqm_mean_and_the_way(scripts):
    _, marl_tables = scripts
    rows = [row("a", seed, value) for seed, value in enumerate([1.0, 2.0, 3.0, 4.0, 100.0])]
    line = marl_tables.returns(rows)[-1]
    assert line.startswith("| `a` | 5 | 3.00 [")
    assert "| 22.00 [-" in line
    assert line.endswith("| 19.00 | 19.00 | 22.00 | 100 | 50 |")


def test_variances_are_reported_as_shares_of_that_with_the_value_baseline(scripts):
    _, marl_tables = scripts
    measured = [
        {"step": 1, "variance_none": 8.0, "variance_value": 2.0, "variance_coma": 2.0, "variance_optimal": 1.0},
        {"step": 2, "variance_none": 2.0, "variance_value": 2.0, "variance_coma": 4.0, "variance_optimal": 0.25},
    ]
    text = marl_tables.variance([row("a", 0, 1.0, measured=measured), row("b", 0, 1.0)])
    assert "| none | 1 | 2 | 2.000 |" in text
    assert "| mean of Q (COMA) | 1 | 2 | 1.414 |" in text
    assert "| optimal | 1 | 2 | 0.250 |" in text
