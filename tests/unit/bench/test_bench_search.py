"""The benchmark of searches: both sides do the same work, and what it counts adds up."""

import builtins

import pytest
from speed import search

import tiny_language
from evolvent.core.errors import MissingExtra

folder = tiny_language.fixture(max_position_embeddings=1024)


def test_batches_and_single_calls_grow_trees_of_one_kind(folder):
    result = search.run(tasks=2, simulations=12, model=f"train:{folder}", gguf="")
    kept, fresh = result["tokens"]["torch"], result["tokens"]["torch_nothing_kept"]
    share, alone = (counts["evaluated"] / counts["prompt"] for counts in (kept, fresh))
    assert share < alone  # trees of the two differ by rounding alone
    assert result["prefix_reuse"]["torch"] == kept["cached"] / kept["prompt"]
    assert result["simulations_per_second"]["batch"] > 0
    assert set(result["checks"]) == {
        "batch_over_one_at_a_time_of_3",
        "tree_share_within_0.05",
        "prefix_reuse_torch_of_0.9",
    }
    assert result["toy"]["trees_64"] > result["toy"]["trees_1"]


def test_without_torch_it_names_the_extra(monkeypatch):
    found = builtins.__import__

    def without(name, *args):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return found(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match="'train'"):
        search.run()
