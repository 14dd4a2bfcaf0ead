"""Searches that draw paths go on until the budget is spent, or until nothing is left to ask."""

from evolvent.search import mcts_rollout, rap
from search_toy import Written, search_of


def test_a_tree_that_was_seen_to_its_end_is_left_and_others_spend_their_budget():
    deep = {"root": {"a": (0.5, 0.1), "b": (0.5, 0.2)}}
    search = search_of(Written(deep))
    rap.run(search, rap.Config(paths=4096))
    assert 64 <= len(search.paths) <= 70  # and not 4,096 times around
    search = search_of(Written(deep))
    mcts_rollout.run(search, mcts_rollout.Config(paths=4096, simulations=10_000))
    assert 64 <= len(search.paths) <= 70
    wide = {"root": {f"{i}": (0.01, 0.0) for i in range(100)}} | {f"{i}": {f"{i}x": (1.0, 0.0)} for i in range(100)}
    search = search_of(Written(wide))
    rap.run(search, rap.Config(paths=4096))
    assert len({path.leaf for path in search.paths}) > 90  # more than 64 ends
