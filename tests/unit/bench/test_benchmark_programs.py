"""Scripts that run programs: no cell gets the folder or the row of another, and pages say what rows hold."""

import importlib
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.models.served.scripted import Scripted

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in (
        "evokernel",
        "creative_game",
        "trad",
        "programs",
        "analyst",
        "text_world",
        "grid",
    ):  # modules of the same names lie in the package
        monkeypatch.delitem(sys.modules, name, raising=False)


def asked(**more):
    usual = {"model": "a", "count": 2, "budget": 8, "kernels": [], "from_model": "", "from_budget": 0}
    return SimpleNamespace(**usual | more)


def test_cells_of_other_models_and_kernels_have_folders_of_their_own(tmp_path):
    import evokernel

    cells = [
        evokernel.cell_of(asked(**more), condition, "refine", 0)
        for more, condition in (
            ({}, "train"),
            ({"model": "dir/b"}, "train"),
            ({"kernels": ["dot", "gelu"]}, "train"),
            ({}, "transfer"),
            ({"kernels": ["dot", "gelu"]}, "transfer"),
            ({"kernels": ["dot", "gelu"], "count": 3}, "transfer"),
            ({"from_model": "b"}, "transfer"),
            ({"from_model": "b", "from_budget": 30}, "transfer"),
        )
    ]
    folders = [evokernel.folder_of(cell, tmp_path) for cell in cells]
    assert len(set(folders)) == len(cells) and {folder.parent for folder in folders} == {tmp_path}
    assert len({evokernel.command(cell) for cell in cells}) == len(cells)


def test_a_row_of_named_kernels_does_not_stand_for_as_many_drawn_ones(tmp_path, monkeypatch):
    import evokernel

    out, ran = tmp_path / "rows.json", []
    row = evokernel.cell_of(asked(kernels=["dot", "gelu"]), "train", "refine", 0)
    out.write_text(json.dumps([row]))
    monkeypatch.setattr(evokernel.models, "load", lambda *_: SimpleNamespace(close=lambda: None, name="a"))
    monkeypatch.setattr(evokernel, "run", lambda cell, *_: ran.append(cell) or dict.fromkeys(evokernel.KEPT, 0))
    monkeypatch.setattr(evokernel, "attempts", lambda path: [])
    arguments = ["--model", "a", "--arms", "refine", "--count", "2", "--budget", "8", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["x", *arguments, "--runs", str(tmp_path), "--kernels", "dot", "gelu"])
    evokernel.main()
    assert ran == []
    monkeypatch.setattr(sys, "argv", ["x", *arguments, "--runs", str(tmp_path)])
    evokernel.main()
    assert [cell.get("only") for cell in ran] == [None]


def test_a_transfer_without_the_run_it_comes_from_names_its_command(tmp_path):
    import evokernel

    cell = evokernel.cell_of(asked(kernels=["dot"], count=3), "transfer", "refine", 0)
    with pytest.raises(BadInput, match="--condition train --arms evokernel --count 3"):
        evokernel.run(cell, tmp_path, None, None)
    cell = evokernel.cell_of(asked(from_model="b", from_budget=30), "faster-transfer", "evokernel", 1)
    with pytest.raises(BadInput, match="--model b --condition faster --arms evokernel --count 2 --budget 30 --seeds 1"):
        evokernel.run(cell, tmp_path, None, None)


def test_arms_are_compared_at_the_tokens_of_the_cheapest():
    import evokernel
    import evokernel_page

    cheap = [["dot", 10, "compile", 0.0], ["dot", 10, "", 1.0]]
    dear = [["dot", 15, "", 1.0], ["dot", 15, "", 2.0]]
    cell = evokernel.cell_of(asked(kernels=["dot"]), "train", "none", 0) | {"commit": {"commit": {"id": "0" * 40}}}
    facts = evokernel_page._equal([{**cell, "attempts": cheap}, {**cell, "arm": "refine", "attempts": dear}])
    assert {cell[-1]: reached for cell, reached in facts.items()} == {"none": (2, 1, 0), "refine": (1, 1, 0)}
    assert evokernel_page._equal([{**cell, "attempts": cheap}]) == {}


def test_rows_say_which_inputs_judged_them_and_what_became_of_a_program_that_was_right():
    import evokernel_page

    def row(kernel, commit, **more):
        return {
            "model": "a",
            "kernel": kernel,
            "lesson": "",
            "gate": "",
            "words": "right",
            "copy": False,
            "speed": {"ratio": 2.0, "low": 1.9, "high": 2.1},
            "commit": {"commit": {"id": commit * 4}},
            **more,
        }

    now = {"commit": {"commit": {"id": "f" * 40}}}
    rows = [
        row("dot", "1c8ad72c"),
        row("sum", "1c8ad72c", again={"gate": "", "words": "right", **now}),
        row("gelu", "1c8ad72c", again={"gate": "correct", "words": "out is wrong", **now}),
        row("axpy", "0000000a"),
        row("matvec", "a0085b89"),
    ]
    assert [evokernel_page._marks([one]) for one in rows] == ["‡", "", "", "", "†‡"]
    assert "| a†‡ | none | 5 | 5 | 80 %" in "\n".join(evokernel_page._one(rows))  # gelu is not right any more


def test_a_transferred_memory_stands_beside_runs_on_the_same_kernels_that_began_with_nothing():
    import evokernel_page

    def row(condition, arm, seed, faster):
        kernels = [
            {"name": f"k{i}", "first": 1.0, "best": 2.0 if won else None, "ci95": None, "faster": won}
            for i, won in enumerate(faster)
        ]
        counts = {what: {"n": len(faster), "successes": sum(faster)} for what in evokernel_page.GATES}
        return {
            "model": "a",
            "condition": condition,
            "arm": arm,
            "seed": seed,
            "count": 6,
            "budget": 8,
            "steps": 48,
            "tokens": 48,
            "prompt_tokens": 0,
            "attempts": [],
            "kernels": kernels,
            **counts,
            "commit": {"commit": {"id": "0" * 40}},
            "rounds": [dict.fromkeys(evokernel_page.GATES, sum(faster) / len(faster))],
        }

    won, lost = [True] * 6, [False] * 6
    rows = [row("faster-transfer", "evokernel", seed, won) for seed in (0, 1)]
    rows += [row("faster-heldout", "random", seed, lost) for seed in (0, 1)]
    found = [line.split(" | ") for line in evokernel_page._arms(rows) if " | `" in line]
    assert len({line[1] for line in found}) == 2 and {line[0] for line in found} == {"| faster-heldout, 8, a"}
    assert found[0][3:6] == [*["12 of 12 [76, 100]"] * 2, "–"] and found[0][-1] == " |"
    assert found[0][7] == "2.00 (2.00–2.00)" and found[1][4] == "0 of 12 [0, 24]"
    assert found[1][6:8] == ["1.00", "–"] and found[1][-1] == f"{2 / 2**12:.2g} |"


def test_rows_of_games_and_steps_say_what_ran_them():
    import creative_game
    import trad

    game = {"arm": "none", "seed": 1, "model": "m", "lineages": 2, "versions": 3, "iterations": 1}
    text = "--model m --arms none --seeds 1 --lineages 2 --versions 3 --iterations 1"
    assert creative_game.command(game) == f"python benchmarks/creative_game.py {text}"
    cell = {"world": "cooking", "arm": "thought", "seed": 0, "model": "m", "train": 4, "heldout": 3, "chars": 900}
    assert trad.command(cell).endswith("--train 4 --heldout 3 --chars 900")


def test_pages_of_all_seeds_of_an_arm_are_counted_together():
    import creative_game

    def row(seed, playable, n, commit="0"):
        group = {"n": n, "valid": 1.0, "playable": playable}
        return {
            "cell": {"arm": "value", "seed": seed, "model": "m", "lineages": 2, "versions": 2, "iterations": 2},
            "calls": n,
            "iterations": [{"iteration": 1, **group}],
            "depths": [{"depth": seed + 1, **group}],
            "nodes": {"n": n, "features": 4, "by_the_model": seed, "reward": playable},
            "commit": {"id": commit},
        }

    rows = [row(0, 0.5, 4), row(1, 1.0, 4), row(2, 1.0, 4, creative_game.EARLIER[0])]
    (line,) = (one for one in creative_game.pooled(rows) if one.startswith("| `value`"))
    cells = line.strip("| ").split(" | ")
    assert cells[:3] == ["`value`", "0, 1", "8"] and cells[-2:] == ["1 of 8", "0.75"]
    assert [cell.partition(" [")[0] for cell in cells[3:8]] == ["100 %", "75 %", "75 %", "50 %", "100 %"]


def test_a_cell_of_games_hands_its_model_over(tmp_path, monkeypatch):
    import creative_game

    cell = {"arm": "value", "seed": 0, "model": "a/b", "lineages": 1, "versions": 1, "iterations": 1}
    found = []
    monkeypatch.setattr(creative_game.creative_game, "run", lambda *_, model, **more: found.append(model) or {})
    creative_game.run(cell, tmp_path, model := object(), Live(plain=True, stream=io.StringIO()))
    assert found == [model]


SMALL = {"passes": 1, "train": 2, "heldout": 1}
ARMS = [("programs", "repair", "memlift"), ("programs", "codeio", "rag")]
ARMS += [("analyst", "wrong0.4", arm) for arm in ("cases", "cases-kernel", "cases-classifier")]


@pytest.mark.parametrize(("script", "condition", "arm"), ARMS)
def test_a_cell_runs_with_any_model(script, condition, arm, tmp_path):
    import grid

    found = importlib.import_module(script).GRID
    config = replace(grid.config_of(found, condition, arm, "m", 0), **SMALL)
    if condition == "codeio":
        pytest.importorskip("reasoning_gym")
    folder = RunFolder.create(tmp_path / "run", algo="x", config={}, env=config.env, seed=0, command="t", kind="memory")
    with folder:
        model = Scripted(lambda prompt: "SELECT 1")
        summary = found.arms[arm][0].run(config, folder, Live(plain=True, stream=io.StringIO()), model=model)
    assert summary["score"]["value"] is not None


def test_arms_of_the_text_world_are_settings_of_their_systems():
    import grid
    import text_world

    arms = [arm for arm in text_world.GRID.arms if "cases" in arm]
    learn = {arm: grid.config_of(text_world.GRID, "twc", arm, "m", 0).learn for arm in arms}
    assert learn == {"cases": "no", "cases-kernel": "kernel", "cases-classifier": "classifier"}
