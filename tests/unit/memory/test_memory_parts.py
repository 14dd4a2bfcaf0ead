"""Outcomes for parts of an answer: each memory earns the rewards of the parts that took after it."""

import pytest

from evolvent.core.errors import BadInput
from evolvent.memory import lift
from evolvent.memory.maintenance import transfer
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

TASK = "monthly report"
SALES, STAFF, HINT = "sum the net sales by region", "count staff without contractors", "unrelated remark"
PARTS = [("sum the net sales by region", 1.0), ("count staff without contractors", 0.0)]


def opened(path=":memory:", rule="memlift"):
    memory = Memory(path, policy=preset(rule, gate=-1.0, margin=2.0, k=3), embedder="hash:32")
    for body in (SALES, STAFF, HINT):
        memory.remember(TASK, body)
    return memory


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def memory(request, tmp_path):
    path = tmp_path / "a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")()
    with opened(path) as m:
        yield m


def rewards(changes):
    return {change.id: change.reward for change in changes}


def test_each_memory_earns_what_took_after_it(memory):
    recall = memory.recall(TASK)
    assert recall.ids == ["m3", "m2", "m1"]
    changes = memory.settle(recall, None, parts=PARTS)
    assert rewards(changes) == {"m1": 1.0, "m2": 0.0, "m3": 0.5}  # a remark that nothing took after has all parts
    assert memory.get("m1").value > memory.get("m3").value > memory.get("m2").value
    explained = memory.explain(recall).to_dict()["outcomes"][0]
    assert explained["reward"] == 0.5 and [list(part) for part in explained["parts"]] == [list(part) for part in PARTS]
    assert "parts 1, 0" in str(memory.explain(recall))
    assert verify(memory) == [] and memory.rebuild_values() == 0


def test_a_retry_changes_nothing_and_another_story_is_refused(memory):
    recall = memory.recall(TASK)
    first = memory.settle(recall, None, parts=PARTS)
    assert memory.settle(recall, None, parts=PARTS) == first
    with pytest.raises(BadInput, match="settled already") as error:
        memory.settle(recall, None, parts=[(text, 1.0 - reward) for text, reward in PARTS])
    assert error.value.code == "settled_already"


def test_a_revision_gives_what_the_parts_would_have_given(memory):
    recall = memory.recall(TASK)
    memory.settle(recall, 0.0)
    memory.revise(recall, None, "read part by part", parts=PARTS)
    with opened() as straight:
        straight.settle(straight.recall(TASK), None, parts=PARTS)
        assert [item.value for item in memory.items()] == [item.value for item in straight.items()]
    assert verify(memory) == [] and memory.rebuild_values() == 0


def test_parts_are_kept_by_an_export_and_their_texts_can_be_erased(memory, tmp_path):
    memory.settle(memory.recall(TASK), None, parts=PARTS)
    transfer.export_jsonl(memory.bank.store, tmp_path / "out.jsonl")
    transfer.import_jsonl(tmp_path / "copy.db", tmp_path / "out.jsonl")
    with Memory(tmp_path / "copy.db") as copy:
        assert copy.explain("r1").to_dict()["outcomes"] == memory.explain("r1").to_dict()["outcomes"]
        copy.erase("m1", "asked to")
        assert copy.explain("r1").to_dict()["outcomes"][0]["parts"] is None
        assert verify(copy) == []


@pytest.mark.parametrize("rule", ["memrl", "memp", "rag"])
def test_other_rules_take_parts_too(rule):
    with opened(rule=rule) as memory:
        changes = memory.settle(memory.recall(TASK), None, parts=PARTS)
        assert rewards(changes) in ({}, {"m1": 1.0, "m2": 0.0, "m3": 0.5})


def test_a_rule_that_pays_ancestors_refuses_parts():
    with opened(rule="memq") as memory:
        with pytest.raises(BadInput, match="pays ancestors"):
            memory.settle(memory.recall(TASK), None, parts=PARTS)
        memory.settle("r1", 1.0)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"parts": []}, "not the parts"),
        ({"parts": "text"}, "not the parts"),
        ({"parts": [("text",)]}, "not the parts"),
        ({"parts": [("text", 2.0)]}, "out of range"),
        ({"parts": [("text", "1")]}, "reward of a part"),
        ({"parts": [("", 1.0)]}, "part of the answer"),
        ({"parts": PARTS, "action": "SELECT 1"}, "beside its action"),
        ({"parts": PARTS, "valid": False}, "invalid outcome"),
    ],
)
def test_what_is_no_part_is_refused(more, match):
    with opened() as memory:
        recall = memory.recall(TASK)
        with pytest.raises(BadInput, match=match):
            memory.settle(recall, None, **more)
        memory.settle(recall, 1.0)


def test_part_rewards_by_hand():
    """Word pairs with both ends: "a b" has (·,a) (a,b) (b,·); Dice of "a b" with "a c": 2·1/6."""
    parts = [("a b", 1.0), ("a c", 0.0), ("x", 0.5)]
    one, both, none = lift.part_rewards(["a b", "a", "z"], parts)
    assert one == pytest.approx((1.0 * 1.0 + (1 / 3) * 0.0) / (4 / 3))
    assert both == pytest.approx(0.5)  # as near to the first as to the second
    assert none == pytest.approx(0.5)  # the mean of all three
