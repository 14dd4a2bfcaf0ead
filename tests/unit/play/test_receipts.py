"""What an attempt keeps of its decisions: which one was made, and what of a receipt goes on record."""

from dataclasses import replace

import pytest

from evolvent.core.episode import Episode
from evolvent.memory.memory import Memory
from evolvent.play.receipts import Decision, record, undecided


def test_a_decision_that_was_made_stays_even_if_nothing_was_said():
    silent, begun = Decision("here", action="", at=0), Decision("there")
    decisions = [silent, begun]
    assert undecided(decisions) is begun
    assert undecided(decisions) is None and decisions == [silent]


@pytest.mark.parametrize("chance", [0.25, 0.0])
def test_of_a_receipt_what_was_shown_and_left_out_is_recorded_with_its_chance(chance):
    with Memory(":memory:", embedder="hash:64", policy="rag") as memory:
        for number in range(4):
            memory.remember(f"key {number}", f"body {number}", merge=None)
        recall = memory.recall("key", k=4)
    kept, left, unfit, gone = recall.items
    recall = replace(recall, items=(kept, left, unfit), omitted=(replace(gone, propensity=chance),))
    episode = Episode("task", env="none", seed=0, group="task")
    record(episode, recall, (kept.id, left.id))
    (node,) = (node for node in episode.nodes if node.kind == "recall")
    assert node.data["shown"] == [kept.id, left.id] and node.data["omitted"] == [gone.id], "not what had no room"
    known = {kept.id: 1.0, left.id: 1.0} | ({gone.id: chance} if chance else {})
    assert node.data["propensity"] == known and "dropped" not in node.data, "what was certain says nothing"
    unfit = replace(unfit, propensity=0.75)
    record(episode, replace(recall, items=(kept, left, unfit)), (kept.id, left.id))
    *_, node = episode.nodes
    assert node.data["dropped"] == [unfit.id] and node.data["propensity"][unfit.id] == 0.75
    (use,) = (use for use in episode.memory_uses if use.dropped)
    assert (use.id, use.shown, use.propensity) == (unfit.id, False, 0.75)
    assert Episode.from_dict(episode.to_dict()) == episode
