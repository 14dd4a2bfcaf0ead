"""Scripts that measure searches: several seeds in one file, cells as before."""

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    names = ("search_tasks", "search_pages", "search_cells", "search_depth", "search_chores")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return SimpleNamespace(**{name: importlib.import_module(name) for name in names})


def row(seed, task, right):
    ways = {"greedy": right, "one sample": 0, "majority": right, "likeliest": 1, "oracle": 1}
    return {"seed": seed, "task": task, **ways, "samples": 4, "tokens": 40, "cpu_s": 0.1}


def test_several_seeds_stand_in_one_file_and_go_on(scripts, tmp_path, monkeypatch):
    module, out, seen = scripts.search_tasks, tmp_path / "rows.json", []

    def solved(model, env, task, budget, seed):
        seen.append((seed, task.id))
        return row(seed, task.id, int(seed == 1))

    monkeypatch.setattr(module, "solved", solved)
    monkeypatch.setattr(module, "models", SimpleNamespace(load=lambda *a, **k: SimpleNamespace(close=lambda: None)))
    monkeypatch.setitem(module.FAMILIES, "words", ("arithmetic:addition", 40))
    for seeds in (["0"], ["0", "1"], ["0", "1"]):
        words = ["search_tasks", "words", "--tasks", "3", "--minutes", "1e6", "--out", str(out), "--seeds", *seeds]
        monkeypatch.setattr(sys, "argv", words)
        module.main()
    assert len(seen) == len(set(seen)) == 6 and [seed for seed, _ in seen] == [0, 0, 0, 1, 1, 1]
    data = json.loads(out.read_text())["words"]
    assert data["seeds"] == [0, 1] and data["ways"]["greedy"]["seeds"] == [0.0, 1.0]
    assert data["ways"]["greedy"]["mean"] == 0.5 and data["ways"]["greedy"]["ci95"] == [0.0, 1.0]
    page = "\n".join(scripts.search_pages.tasks_section({"words": data}))
    assert "seeds 0, 1" in page and "| greedy | 50 | [0, 100] | 1 |" in page and "| likeliest | 100 |" in page


def test_rows_of_one_seed_say_what_they_said(scripts):
    file = json.loads(scripts.search_pages.TASKS.read_text("utf-8"))
    for one in file.values():  # written before there were several seeds
        assert json.loads(json.dumps(scripts.search_tasks.table(one["rows"]))) == one["ways"]


@pytest.mark.parametrize(("name", "cost", "ways"), [("search_depth", "steps", 10), ("search_chores", "commands", 5)])
def test_cells_of_both_deep_worlds_are_means_over_seeds(scripts, name, cost, ways, monkeypatch, tmp_path):
    module = getattr(scripts, name)
    keys = [(way, how) for way, (*_, hows) in module.WAYS.items() for how in hows] if ways == 10 else list(module.WAYS)
    monkeypatch.setattr(
        module, "measure", lambda *a: {key: {"right": a[-2], "oracle": 2, cost: 10.0 * a[-2]} for key in keys}
    )
    monkeypatch.setattr(sys, "argv", [name, "--tasks", "2"])
    scripts.search_cells.main("", tmp_path / f"{name}.json", 60, module.cells, seeds=list(module.SEEDS))
    found = json.loads((tmp_path / f"{name}.json").read_text())
    old = json.loads((BENCHMARKS / "results" / f"{name}.json").read_text())
    assert found["command"] == f"python benchmarks/{name}.py --tasks 2" and len(found["rows"]) == len(old["rows"])
    assert [list(one) for one in found["rows"]] == [list(one) for one in old["rows"]]
    first = found["rows"][0]
    assert (first["right"], first["seeds"], first["oracle"], first[cost]) == (0.5, [0.0, 0.5, 1.0], 1.0, 10.0)
