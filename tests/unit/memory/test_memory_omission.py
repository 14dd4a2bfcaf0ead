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
        after = memory.explain(a).to_dict()["values"][0]
        assert after["effect"] == before["effect"], "outcomes without a counterpart changed the effect"
        assert after["n"] == 14 and after["q"] > before["q"], "they still count for the value"
        assert memory.rebuild_values() == 0


def test_the_default_measures_what_a_companion_adds():
    """Two memories that are always recalled together: the effect found for the second is near the truth."""
    import numpy as np

    policy = preset("memlift", gate=-1.0, margin=2.0, omit=0.3, omit_n0=1e9)
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


@pytest.mark.parametrize("omit", [0.0, 0.2])
def test_what_always_fails_is_measured_and_then_withheld(omit):
    """Alone in its pool nothing would ever be left out, and nobody would know that the agent does well without it."""
    policy = preset("memlift", gate=-1.0, margin=2.0, omit=omit)
    with Memory(policy=policy, embedder="hash:32") as memory:
        bad = memory.remember("task", "wrong")
        for _ in range(60):
            recall = memory.recall("task")
            memory.settle(recall, 0.0 if recall.items else 1.0)
        recalls = [memory.recall("task") for _ in range(100)]
        withheld = sum([item.id for item in r.omitted] == [bad] for r in recalls)
        assert withheld > 70, withheld
        shown = [item for r in recalls for item in r.items]
        assert all(item.propensity == pytest.approx(0.1) for item in shown)
        assert not memory.recall("task", frozen=True).items and audit(memory)["harmful"]["memories"] == 1


def test_what_fails_where_everything_fails_is_doubted_less_and_less_but_not_withheld():
    policy = preset("memlift", gate=-1.0, margin=2.0)
    with Memory(policy=policy, embedder="hash:32") as memory:
        hard = memory.remember("task", "no worse than nothing")
        shown = []
        for _ in range(200):
            recall = memory.recall("task")
            shown.append(bool(recall.items))
            memory.settle(recall, 0.0)
        assert sum(shown[100:]) > 70, sum(shown[100:])
        assert memory.recall("task", frozen=True).ids == [hard] and not audit(memory)["harmful"]["memories"]


def test_some_success_against_none_without_it_ends_most_of_the_doubt():
    policy = preset("memlift", gate=-1.0, margin=2.0)
    with Memory(policy=policy, embedder="hash:32", seed=1) as memory:
        memory.remember("task", "rarely works, but nothing else does")
        for number in range(60):
            recall = memory.recall("task")
            memory.settle(recall, float(bool(recall.items) and number % 8 == 7))
        assert memory.items()[0].lift > 0.0
        assert sum(bool(memory.recall("task").items) for _ in range(40)) > 25
        assert memory.recall("task", frozen=True).items and not audit(memory)["harmful"]["memories"]
