"""The script on Hammer: what it asks cannot be found by words, arms share items, and its table has all of them."""

import importlib
import json
import sys
from pathlib import Path

import pytest

import tiny_language
from evolvent.data.pickers import baselines

folder = tiny_language.fixture(max_position_embeddings=2048)
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    return importlib.import_module("hammer"), importlib.import_module("hammer_tools")


def test_words_do_not_find_the_tool_and_nothing_held_out_is_learned(bench):
    rows = bench[1].rows(200, {"heldout": (150, 50), "unseen": (150, 50)}, 0)
    train, *held = ([row for row in rows if row.split == split] for split in ("train", "heldout", "unseen"))
    listed = [{tool["name"] for row in part for tool in row.tools} for part in (train, *held)]
    assert listed[0] & listed[1] and listed[2].isdisjoint(listed[0] | listed[1])
    assert not {row.request for row in train} & {row.request for part in held for row in part}
    for part in (train, *held):
        assert all(len(row.tools) == 3 for row in part)
        served = [row for row in part if row.gold]
        assert baselines(served, served, None)["words in common"].function < 0.45
        for row in served:
            values = row.gold[0]["arguments"].values()
            assert all(str(value) in row.request for value in values), row.request
    for part in held:
        assert sum(not row.gold for row in part) == 50


def test_all_arms_answer_the_same_items_and_stand_in_the_table(bench, folder, tmp_path, monkeypatch):
    module, _ = bench
    out = tmp_path / "hammer.json"
    words = ["--n", "8", "--items", "5", "3", "--seeds", "0", "--embedder", "hash", "--model", folder]
    monkeypatch.setattr(sys, "argv", ["hammer", *words, "--out", str(out)])
    monkeypatch.setattr(module, "OUT", out)
    module.main()
    module.main()  # nothing is left to do
    result = json.loads(out.read_text())
    assert [row["arm"] for row in result["rows"]] == list(module.ARMS)
    for row in result["rows"]:
        assert set(row["cells"]) == {*module.CELLS, "picked, seen", "picked, unseen"} and row["learned_from"] == 8
        own = row["cells"]["own, unseen"]
        assert own["calls right"].count("-") == 3 and own["refusals right"].count("-") == 5
        assert len(row["cells"]["random, seen"]["call rate"]) == 3 and "-" not in own["call rate"]
    text = "\n".join(module.table())
    assert all(f"| `{arm}` |" in text for arm in module.ARMS) and "| never calls |" in text
    assert text.count(" − ") == 4 and "(10 with own names)" in text


def test_a_difference_is_paired_over_items_and_shown_a_seed(bench):
    module, _ = bench
    cell = {"calls right": "", "refusals right": "-" * 10}

    def row(arm, seed, right):
        return {
            "arm": arm,
            "seed": seed,
            "cells": {f"own, {held}": cell | {"calls right": right} for held in ("seen", "unseen")},
        }

    rows = [
        row("masked", 0, "1111100000"),
        row("neither", 0, "1110000000"),
        row("masked", 1, "11"),
        row("neither", 1, "00"),
    ]
    shown = module._difference(rows, "masked", "neither", "own", "calls right")
    assert shown.startswith("+33 [") and shown.endswith("(+20, +100)")
