"""memlift: one answer to a question, nothing for ancestors, and what an effect is measured from."""

import json

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.memory import lift
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import from_params, intact, preset, to_params

SURE = {"gate": -1.0, "margin": 2.0, "omit": 0.0, "omit_harmful": 0.0}
TASK = "revenue of May"


def opened(**changed):
    return Memory(policy=preset("memlift", **{**SURE, **changed}), embedder="hash:32")


def test_one_answer_each_by_hand():
    score, value = np.array([3.0, 2.0, 1.0, 0.5]), np.array([0.7, 0.7, 0.9, 0.1])
    none = [[], [], [], []]
    assert lift.one_answer_each(score, value, none, frozenset()) == [0, 1, 2, 3]
    assert lift.one_answer_each(score, value, (), frozenset()) == [0, 1, 2, 3]
    assert lift.one_answer_each(score, value, [[1], [], [], []], frozenset()) == [1, 2, 3]  # a tie: the newer
    assert lift.one_answer_each(score, value, [[], [], [3], []], frozenset()) == [0, 1, 2]  # the better
    # 0 says what 2 says: 2 alone speaks for it, against 1
    assert lift.one_answer_each(score, value, [[1, 2], [2], [], []], frozenset({0})) == [2, 3]


def test_a_correction_takes_the_place_of_what_failed_and_gives_it_back():
    with opened() as memory:
        old = memory.remember(TASK, "SELECT gross")
        for reward in (1.0, 1.0, 1.0, 0.0):
            memory.settle(memory.recall(TASK), reward)
        new = memory.remember(TASK, "SELECT net", source="reviewer")
        assert memory.recall(TASK).ids == [new]
        while memory.get(new).value >= memory.get(old).value:
            r = memory.recall(TASK)
            assert r.ids == [new]
            memory.settle(r, 0.0)
        assert memory.recall(TASK).ids == [old] and memory.recall(TASK, frozen=True).ids == [old]


def test_what_is_written_together_or_of_another_kind_is_shown_together():
    with opened() as memory:
        both = [memory.remember(TASK, "amounts are in cents"), memory.remember(TASK, "returns are negative")]
        assert sorted(memory.recall(TASK).ids) == both
        memory.settle(memory.recall(TASK), 0.0)
        assert sorted(memory.recall(TASK).ids) == both
        third = memory.remember(TASK, "why it failed", kind="reflection")
        assert sorted(memory.recall(TASK).ids) == [*both, third]
        other = memory.remember("revenue of June", "SELECT gross")
        assert other in memory.recall(TASK, k=9).ids


def test_a_lesson_that_is_repeated_has_one_value():
    """The agent's own success repeats the correction that it copied: the older of the two speaks no more."""
    with opened() as memory:
        told = memory.remember(TASK, "SELECT net", source="reviewer")
        for _ in range(9):
            memory.settle(memory.recall(TASK), 1.0)
        own = memory.remember(TASK, "SELECT net", polarity="success", parents=[told])
        assert memory.recall(TASK).ids == [own]
        for _ in range(3):
            memory.settle(memory.recall(TASK), 0.0)
        assert memory.get(own).value < memory.get(told).value and memory.recall(TASK).ids == [own]
        avoid = memory.remember(TASK, "SELECT net", polarity="failure")
        assert avoid in memory.recall(TASK).ids  # the opposite of what was said, not a copy of it


def test_a_childs_successes_do_not_launder_its_ancestors_failures():
    with opened(k=1) as memory:
        parent = memory.remember(TASK, "guess")
        for _ in range(6):
            r = memory.recall(TASK)
            memory.settle(r, 0.0)
        child = memory.remember("another question altogether", "worked out", parents=r, polarity="success")
        before = memory.get(parent).value
        for _ in range(30):
            r = memory.recall("another question altogether")
            memory.shown(r, [child] if child in r.ids else [])
            memory.settle(r, 1.0)
        assert before < 0.2 and memory.get(parent).value == before and memory.get(child).value > 0.9


def test_settling_costs_what_was_shown_however_long_the_lineage():
    with opened() as memory:
        events = []
        for i in range(120):
            r = memory.recall(f"question {i % 7}")
            memory.settle(r, 1.0)
            count = memory.bank.store.row("SELECT count(*) FROM value_event")[0]
            events.append((count - sum(n for n, _ in events), len(r.items) + len(r.omitted)))
            memory.remember(f"question {i % 7} {i}", f"answer {i}", parents=r, polarity="success")
        assert all(made == seen <= 3 for made, seen in events) and events[-1][0] == 3, events[-3:]


def test_nothing_is_left_out_where_nobody_settles():
    with opened(omit=0.5) as memory:
        for i in range(3):
            memory.remember(f"{TASK} {i}", f"body {i}")
        assert not any(memory.recall(TASK).omitted for _ in range(60))
        memory.settle(memory.recall(TASK), 1.0)
        assert any(memory.recall(TASK).omitted for _ in range(20))


def test_what_had_no_room_does_not_bias_the_effect():
    """A memory that changes nothing, with room only in short prompts, which succeed more often."""
    effects = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        with opened(omit=0.4, omit_n0=1e9) as memory:
            first = memory.remember(TASK, "first", value=1.0)
            second = memory.remember(TASK + " by customer", "second", value=0.5)
            for _ in range(250):
                r, long = memory.recall(TASK), rng.random() < 0.5
                if long:
                    memory.shown(r, [i for i in r.ids if i == first])
                memory.settle(r, float(rng.random() < (0.1 if long else 0.9)))
            effects.append(memory.get(second).lift)
            assert verify(memory) == [] and memory.rebuild_values() == 0
    # counting only the prompts in which it had room, it would seem to add .4
    assert abs(np.mean(effects)) < 0.1, effects


def test_receipts_with_settings_that_are_gone_settle():
    params = json.loads(to_params(preset("memlift", k=5)))
    old = json.dumps({**params, "gamma": 1.0, "trace": 0.3}, sort_keys=True)
    assert from_params(old) == preset("memlift", k=5) and intact(old, "memlift")
    with pytest.raises(BadInput, match="tracer"):
        from_params(json.dumps({**params, "tracer": 0.3}, sort_keys=True))


def test_one_outcome_is_too_early_for_an_effect():
    early = lift.marginal(lift.ArmSums(2.0, 2.0, 1.5), lift.ArmSums(0.0, 2.0, 4.0), (0.0, 1.0))
    assert early.raw == 1.0 and early.told(1.0) == "what it adds: too early to say"
    late = lift.marginal(lift.ArmSums(80.0, 100.0, 100.0), lift.ArmSums(30.0, 100.0, 100.0), (0.0, 1.0))
    assert late.told(1.0) == f"adds {late.shrunk:+.2f} ± {late.spread:.2f}" and late.shrunk == pytest.approx(
        0.475, abs=0.01
    )
