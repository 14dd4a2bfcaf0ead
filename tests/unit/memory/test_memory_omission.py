"""What counts as evidence of an effect: only outcomes of recalls in which the memory might have been left out."""

import pytest

from evolvent.cli.memory.audit import audit
from evolvent.memory.bank import Bank
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset


def _settled(memory, key, reward, propensity, shown):
    """One settled recall of ``key`` alone whose receipt says this propensity and fate."""
    bank: Bank = memory.bank
    r = memory.recall(key, k=1, frozen=True)
    number = int(r.id[1:])
    with bank.store.write() as db:
        db.execute(
            "UPDATE recall_item SET propensity=?, shown=?, omitted=? WHERE recall_id=?",
            (propensity, shown, not shown, number),
        )
    memory.settle(r, reward)


def test_outcomes_without_a_counterpart_do_not_enter_the_effect():
    with Memory(policy=preset("memlift", gate=-1.0), embedder="hash:32") as memory:
        a = memory.remember("task", "body")
        for reward in (1.0, 1.0, 0.0, 0.0):
            _settled(memory, "task", reward, 0.8, True)
        for reward in (0.0, 0.0, 1.0, 0.0):
            _settled(memory, "task", reward, 0.8, False)
        before = memory.explain(a).to_dict()["values"][0]
        assert before["effect"]["raw"] == pytest.approx(0.25)
        assert before["w_shown"] == pytest.approx(4 / 0.8) and before["w_omitted"] == pytest.approx(4 / 0.2)
        for _ in range(10):
            _settled(memory, "task", 1.0, 1.0, True)  # best of its pool: it was sure to be shown
        _settled(memory, "task", 0.0, 0.0, False)  # withheld for certain
        _settled(memory, "task", 0.0, 1.0, False)  # and what no recall writes: left out although sure to be shown
        after = memory.explain(a).to_dict()["values"][0]
        assert after["effect"] == before["effect"], "outcomes without a counterpart changed the effect"
        assert after["n"] == 14 and after["q"] > before["q"], "they still count for the value"
        assert memory.rebuild_values() == 0


def test_the_default_measures_what_a_companion_adds():
    """Two memories that are always recalled together: the effect found for the second is near the truth."""
    import numpy as np

    policy = preset("memlift", gate=-1.0, omit=0.3, omit_n0=1e9)
    effects = []
    for seed in range(6):
        with Memory(policy=policy, embedder="hash:32", seed=seed) as memory:
            first, second = memory.remember("task at hand", "first"), memory.remember("task at hand now", "second")
            rng = np.random.default_rng(seed)
            for _ in range(200):
                r = memory.recall("task at hand")
                memory.settle(r, float(rng.random() < 0.3 + 0.4 * (second in r.ids) + 0.2 * (first in r.ids)))
            effects.append(memory.get(second).lift)
    assert abs(np.mean([e for e in effects if e is not None]) - 0.4) < 0.12, effects


def test_what_is_measured_to_harm_is_withheld():
    """Behind a note that helps: outcomes with it are worse than those without."""
    policy = preset("memlift", gate=-1.0, hide=0.0, omit=0.3, omit_n0=1e9)
    with Memory(policy=policy, embedder="hash:32") as memory:
        good, bad = memory.remember("task", "right", value=1.0), memory.remember("task at hand", "wrong", value=0.9)
        for number in range(200):
            recall = memory.recall("task")
            memory.settle(recall, 0.5 + 0.1 * (number % 3) - 0.5 * (bad in recall.ids))
        assert memory.recall("task", frozen=True).ids == [good]
        recalls = [memory.recall("task") for _ in range(100)]
        text = "".join(str(memory.explain(r)) for r in [*recalls, memory.recall("task", frozen=True)])
        assert "withheld (0.9): outcomes speak against it" in text and "withheld (1)" in text
        assert "left out by chance (0.3), to measure what it adds" in "".join(
            str(memory.explain(f"r{i}")) for i in range(2, 60)
        )
        assert sum(bad in r.ids for r in recalls) < 30
        assert [row["id"] for row in audit(memory)["harmful"]["worst"]] == [bad]


def test_by_default_nothing_is_left_out():
    with Memory(embedder="hash:32") as memory:
        for i in range(4):
            memory.remember(f"task {i}", f"body {i}", merge=None)
        for i in range(40):
            recall = memory.recall("task 1")
            assert not recall.omitted and all(item.propensity == 1.0 for item in recall.items)
            memory.settle(recall, float(i % 2))


@pytest.mark.parametrize("omit", [0.0, 0.2])
def test_what_fails_where_everything_fails_is_not_withheld(omit):
    with Memory(policy=preset("memlift", gate=-1.0, omit=omit), embedder="hash:32") as memory:
        hard = memory.remember("task", "no worse than nothing")
        for _ in range(60):
            memory.settle(memory.recall("task"), 0.0)
        assert memory.recall("task", frozen=True).ids == [hard] and not audit(memory)["harmful"]["memories"]
