"""memlift: corrections, nothing for ancestors, and what an effect is measured from."""

import json

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.memory import lift
from evolvent.memory.embedders import Function
from evolvent.memory.events import Loaded, Value
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import from_params, intact, preset, to_params
from evolvent.memory.rule import Settled, Shown
from evolvent.memory.rules import memlift

SURE = {"gate": -1.0}
TASK = "revenue of May"


def opened(**changed):
    return Memory(policy=preset("memlift", **{**SURE, **changed}), embedder="hash:32")


def test_a_correction_takes_the_place_of_what_failed_and_gives_it_back():
    with opened(k=1) as memory:
        old = memory.remember(TASK, "SELECT gross")
        for reward in (1.0, 1.0, 0.0, 0.0, 0.0):
            memory.settle(memory.recall(TASK), reward)
        new = memory.remember(TASK, "SELECT net", source="reviewer")
        assert memory.recall(TASK).ids == [new]
        for _ in range(6):
            if (r := memory.recall(TASK)).ids == [old]:
                break
            memory.settle(r, 0.0)
        assert r.ids == [old] and memory.recall(TASK, frozen=True).ids == [old]


@pytest.mark.parametrize("failures", [1, 2, 6])
@pytest.mark.parametrize(
    ("asked", "corrected"),
    [
        ("revenue of May", "how much did we earn in May"),
        ("revenue of May", "revenue of May, net"),
        ("the tablet won't go online", "no wifi on the tablet"),
    ],
)
def test_a_correction_under_other_words_wins_at_once_where_it_was_written(asked, corrected, failures):
    """It stands under the words of the question that went wrong; the older note is nearer to its own words alone."""
    with opened() as memory:
        memory.remember(asked, "the old way")
        for _ in range(failures):
            memory.settle(memory.recall(corrected), 0.0)
        new = memory.remember(corrected, "the new way", source="reviewer")
        assert memory.recall(corrected).ids[:1] == [new]


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
        with opened(omit=0.4, omit_n0=1e9, hide=0.0, prior_n0=1e6) as memory:  # one order for ever
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


def arms(won, lost, without_won, without_lost):
    """Arms of outcomes without weights."""
    n, m = won + lost, without_won + without_lost
    return lift.ArmSums(won, n, n), lift.ArmSums(without_won, m, m)


@pytest.mark.parametrize("some", [(2, 0, 0, 2), (9, 0, 0, 9), (5, 5, 5, 5), (30, 10, 20, 20), (0, 20, 0, 20)])
def test_it_is_too_early_for_an_effect(some):
    early = lift.marginal(*arms(*some), (0.0, 1.0))
    assert not early.known and early.described(1.0) == "what it adds: too early to say"


@pytest.mark.parametrize("some", [(80, 20, 30, 70), (20, 80, 70, 30)])
def test_an_effect_is_reported_with_its_interval(some):
    late = lift.marginal(*arms(*some), (0.0, 1.0))
    assert late.known and late.half == pytest.approx(0.217, abs=0.001)
    assert late.described(1.0).startswith(f"adds {late.raw:+.2f} [{late.raw - late.half:+.2f}, ")


def test_a_note_without_an_effect_is_hardly_ever_said_to_have_one():
    """Looked at after every outcome: 200 null notes of 300 outcomes each, a fifth of them without it."""
    said = 0
    for seed in range(200):
        rng, sums = np.random.default_rng(seed), [0, 0, 0, 0]
        for _ in range(300):
            sums[2 * int(rng.random() < 0.2) + int(rng.random() < 0.5)] += 1
            if lift.marginal(*arms(sums[1], sums[0], sums[3], sums[2]), (0.0, 1.0)).known:
                said += 1
                break
    assert said <= 12, said  # a twentieth is ten; by one deviation it was half of them


def test_outcomes_of_parts_enter_an_effect_as_a_whole():
    """A note beside a hard part changes nothing: both arms have the reward of the whole answer."""
    effects = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        with opened(omit=0.4, omit_n0=1e9, hide=0.0) as memory:
            memory.remember(TASK, "easy: add the taxes", value=1.0)
            hard = memory.remember(TASK + " by customer", "hard: join the ledger", value=0.9)
            for _ in range(200):
                r, easy = memory.recall(TASK), float(rng.random() < 0.9)
                memory.settle(
                    r, (easy + 0.0) / 2, parts=[("easy: add the taxes", easy), ("hard: join the ledger", 0.0)]
                )
            effects.append(memory.get(hard).lift)
            assert memory.get(hard).value < 0.2 and verify(memory) == [] and memory.rebuild_values() == 0
    assert abs(np.mean(effects)) < 0.05, effects


def test_one_seed_given_again_and_again_is_not_the_draw():
    with opened(omit=0.5, omit_n0=1e9, hide=0.0) as memory:
        for i in range(3):
            memory.remember(f"{TASK} {i}", f"body {i}", merge=None)
        memory.settle(memory.recall(TASK), 1.0)
        omitted = [memory.recall(TASK, seed=7).omitted for _ in range(60)]
        assert 10 < sum(bool(some) for some in omitted) < 60


@pytest.mark.parametrize("reported", [True, False])
def test_a_failure_for_want_of_the_other_note_is_not_the_used_ones_alone(reported):
    """Two notes that help together only: shown behind another, the used one answers for no more than by its place."""
    with opened() as memory:
        a, b, c = (memory.remember(TASK, body, merge=None) for body in ("first do this", "then do that", "or nothing"))
        r = memory.recall(TASK)
        assert r.ids == [c, b, a]
        changes = {x.id: x.weight for x in memory.settle(r, 0.0, action="then do that" if reported else None)}
        assert changes[b] == lift.BEHIND_WEIGHT
        changes = {x.id: x.weight for x in memory.settle(memory.recall(TASK), 1.0, action="then do that")}
        assert changes[b] == 1.0


@pytest.mark.parametrize("span", [(0.0, 1.0), (-5.0, 5.0)])
@pytest.mark.parametrize(
    ("q", "used", "reward", "weights"),
    [  # values of the first and of the one behind it as shares, what the action says of their use, reward, weights
        ((0.2, 0.8), (1.0, 0.5), 0.0, (1.0, 0.5 * 0.2 / 0.8)),  # the first was to fail
        ((0.2, 0.8), (1.0, 0.5), 1.0, (1.0, 0.5)),
        ((0.8, 0.2), (1.0, 0.5), 1.0, (1.0, 0.5 * 0.2 / 0.8)),  # the first was to succeed
        ((0.8, 0.2), (1.0, 0.5), 0.0, (1.0, 0.5)),
        ((0.5, 0.75), (1.0, 0.5), 0.5, (1.0, 0.5 * (0.5 + 0.5 * 0.5))),
        ((0.2, 0.8), (0.25, 1.0), 0.0, (0.25, 0.5)),  # it was used: by its place, and never more
        ((0.2, 0.8), (0.25, 1.0), 1.0, (0.25, 1.0)),
        ((0.2, 0.8), (1.0, 0.25), 0.0, (1.0, 0.25 * 0.2 / 0.8)),
        ((1.0, 1.0), (1.0, 0.5), 0.0, (1.0, 0.5)),  # both untried
        ((0.0, 0.0), (1.0, 0.5), 1.0, (1.0, 0.5)),
    ],
)
def test_what_stands_behind_answers_less_for_what_the_first_was_to_have(q, used, reward, weights, span):
    lo, hi = span
    rows = {id_: Loaded(Value(lo + (hi - lo) * share, n=9), hi, False, "self", "") for id_, share in enumerate(q)}
    shown = [Shown(id_, True, 1.0) for id_ in rows]
    settled = Settled(lo + (hi - lo) * reward, shown, rows, {}, 0.0, dict(enumerate(used)), span)
    assert [change.weight for change in memlift.credit(memlift.Config(), settled)] == pytest.approx(weights)
    # the first is of another pool, nothing is known of it
    alone = memlift.credit(memlift.Config(), settled._replace(items=shown[1:], first=0))
    assert alone[0].weight == pytest.approx(reward * used[1] + (1.0 - reward) * min(used[1], lift.BEHIND_WEIGHT))


@pytest.mark.parametrize("gap", [0.0, 0.1, 0.2])
@pytest.mark.parametrize("wins", [6, 20])
def test_one_poisoned_lesson_before_a_proven_one_is_found_out(gap, wins):
    """It copies the task, ranks first and decides what is done; the good lesson behind it shares each failure."""
    angle = {"task": 1.0, "poison": 1.0, "good": 1.0 - gap}

    def plane(texts):
        cosine = np.array([angle[text] for text in texts])
        return np.stack([cosine, np.sqrt(1.0 - cosine**2)], axis=1)

    with Memory(policy=preset("memlift", gate=0.2), embedder=Function("plane", plane), seed=1) as memory:
        good = memory.remember("good", "right")
        for _ in range(wins):
            memory.settle(memory.recall("task"), 1.0)
        memory.remember("poison", "wrong", source="forum")
        first = []
        for _ in range(60):
            recall = memory.recall("task")
            first.append(recall.ids[0] == good)
            memory.settle(recall, float(first[-1]))
        assert sum(not right for right in first[-40:]) <= 8, first
