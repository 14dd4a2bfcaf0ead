"""The benchmark of searches: both sides do the same work, and what it counts adds up."""

import tiny_language
from evolvent.bench import search

folder = tiny_language.fixture(max_position_embeddings=1024)


def test_batches_and_single_calls_grow_trees_of_one_kind(folder):
    result = search.run(tasks=2, simulations=4, model=f"train:{folder}", gguf="")
    told = result["tokens"]["torch"]
    assert told["in_tree"] <= told["evaluated"]
    assert result["simulations_per_second"]["batch"] > 0
    assert set(result["checks"]) == {"batch_over_one_at_a_time_of_3", "tree_share_within_0.05"}
    assert result["toy"]["trees_64"] > result["toy"]["trees_1"]
