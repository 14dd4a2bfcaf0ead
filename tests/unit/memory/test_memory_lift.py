"""Omission credit: the formulas by hand, their limits, and the bias they remove."""

import math
import threading
import time

import numpy as np
import pytest

from evolvent.formulas.causal import ArmSums, push_outcome
from evolvent.memory import events, lift
from evolvent.memory.lift import Effect
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

UNIT = (0.0, 1.0)


def marginal(shown, omitted, reward_range=UNIT):
    """The effect from ``[(reward, probability of its arm)]`` of outcomes with and without the memory."""
    arms = []
    for rows in (shown, omitted):
        arm = ArmSums()
        for r, p in rows:
            arm = push_outcome(arm, r, p)
        arms.append(arm)
    return lift.marginal(*arms, reward_range)


def test_marginal_by_hand():
    e = marginal([(1, 0.8), (1, 0.8), (0, 0.8)], [(0, 0.2), (1, 0.2)])
    assert e.raw == pytest.approx(2 / 3 - 1 / 2)
    pooled = (2 + 1 + 0 + 1) / (3 + 2 + 2)
    se2 = pooled * (1 - pooled) * (1 / 3 + 1 / 2)
    assert e.confidence == pytest.approx(0.09 / (0.09 + se2))
    assert e.spread == pytest.approx(0.3 * math.sqrt(1 - e.confidence)) and e.shrunk == e.confidence * e.raw


def test_one_side_alone_says_nothing():
    for rows in (([], []), ([(1, 0.5)] * 9, []), ([], [(0, 0.5)] * 9)):
        assert marginal(*rows) == Effect(0.0, 0.0, pytest.approx(0.3), math.inf)


def test_scale_and_shift_of_rewards():
    shown, omitted = [(1, 0.9)] * 5 + [(0, 0.9)] * 2, [(0, 0.1)] * 2 + [(1, 0.1)]
    a = marginal(shown, omitted)
    b = marginal(*[[(2 * r - 1, p) for r, p in rows] for rows in (shown, omitted)], (-1.0, 1.0))
    assert b.raw == pytest.approx(2 * a.raw) and b.confidence == pytest.approx(a.confidence)


def test_confidence_grows_with_evidence_to_1():
    c = [marginal([(1, 0.8), (0, 0.8)] * n, [(0, 0.2)] * n).confidence for n in (1, 3, 10, 100)]
    assert c == sorted(c) and c[0] < 0.4 and c[-1] > 0.95


def test_inverse_propensity_removes_the_bias_of_an_annealed_rate():
    """Success drifts down while the omission rate falls: plain means are fooled, weighted ones much less."""
    rng, plain, weighted = np.random.default_rng(0), [], []
    for _ in range(60):
        shown, omitted = [], []
        for t in range(400):
            p = lift.omission_rate(t, rate=0.5, n0=100.0)
            r = float(rng.random() < 0.9 - 0.6 * t / 400)  # the memory itself does nothing
            if rng.random() < p:
                omitted.append((r, p))
            else:
                shown.append((r, 1 - p))
        plain.append(np.mean([r for r, _ in shown]) - np.mean([r for r, _ in omitted]))
        weighted.append(marginal(shown, omitted).raw)
    assert abs(np.mean(weighted)) < 0.03 < abs(np.mean(plain))


def test_step_size_is_a_mean_then_a_floor():
    assert [lift.step_size(n, 0.15) for n in (0, 1, 4, 100)] == [0.5, pytest.approx(1 / 3), pytest.approx(1 / 6), 0.15]


@pytest.mark.parametrize("alpha", [0.1, 0.3])
@pytest.mark.parametrize("n", [4, 20, 400])
def test_the_error_of_a_value_is_that_of_a_running_mean(alpha, n):
    """Not of a plain mean: after 400 outcomes that was a tenth of what the value varies by."""
    r = (np.random.default_rng(0).random((4000, n)) < 0.5).astype(float)
    q = np.full(4000, 0.5)
    for k in range(n):
        q += max(alpha, lift.step_size(k, alpha)) * (r[:, k] - q)
    found = [events.uncertainty(events.Value(0.0, n=n, sum_r=x, sum_r2=x), (0.0, 1.0), alpha) for x in r.sum(1)]
    assert 0.75 < np.mean(found) / q.std() < 1.35
    assert np.mean(np.abs(q - 0.5) <= 1.96 * np.array(found)) > 0.87


def test_what_a_memory_realised_has_no_start_in_it():
    rewards, q, other, carry = [1.0, 0.0, 0.0, 1.0, 1.0], 1.0, 0.3, 1.0
    for n, r in enumerate(rewards):
        step = lift.step_size(n, 0.2)
        q, other, carry = q + step * (r - q), other + step * (r - other), carry * (1 - step)
    assert lift.realised(q, carry, 1.0) == pytest.approx(lift.realised(other, carry, 0.3))
    assert lift.source_prior(1.0, 2.0, 6.0, 4.0) == pytest.approx(0.6) and lift.source_prior(1.0, 0.0, 0.0, 4.0) == 1.0


def test_use_weights_follow_the_action():
    a = "SELECT COUNT(*) FROM flights WHERE carrier='UA' AND month=5 AND (sched_dep_time>=2130 OR sched_dep_time<500)"
    b = "SELECT AVG(arr_delay<=14) FROM flights WHERE carrier='DL' AND arr_delay IS NOT NULL"
    used = lift.use_weights([a, b], a.replace("'UA'", "'DL'"))
    assert used[0] == 1.0 and lift.IDLE_WEIGHT <= used[1] < 0.6
    for action in (None, "", "entirely different words"):
        assert lift.use_weights([a, b, a], action) == [1.0, lift.BEHIND_WEIGHT, lift.BEHIND_WEIGHT]
    assert lift.use_weights([], a) == [] and lift.use_weights(["", a], a)[1] == 1.0


WEST = "SELECT COUNT(*) FROM flights JOIN airports ON dest=faa WHERE carrier='{}' AND month={} AND lon<-{}"


@pytest.mark.parametrize(
    ("bodies", "action"),
    [
        # the same but for one number; another question to the same table
        ([WEST.format("B6", 4, 100), WEST.format("US", 1, 90)], WEST.format("DL", 7, 90)),
        (
            ["SELECT COUNT(*) FROM flights WHERE carrier='DL' AND month=5", WEST.format("US", 1, 90)],
            WEST.format("DL", 7, 90),
        ),
        (
            ["def solve(items):\n    return sum(items)", "def solve(items):\n    return max(items)"],
            "def solve(items):\n    return max(items)\n",
        ),
        (
            [
                "Dear customer, thank you for writing. We refund.",
                "Dear customer, thank you for writing. We replace it.",
            ],
            "Dear customer, thank you for writing. We replace it.",
        ),
        (
            ["Сначала открой дверь, потом закрой окно", "Сначала открой дверь, потом включи свет"],
            "Сначала открой дверь, потом включи свет",
        ),
    ],
)
def test_what_every_answer_begins_with_is_no_use(bodies, action):
    assert lift.use_weights(bodies, action)[1] == 1.0
    assert lift.use_weights(bodies, action)[0] < lift.IDLE_WEIGHT + 0.25
    assert lift.use_weights([*bodies, bodies[1]], action)[1:] == [1.0, 1.0]  # two that say the same are used alike
    both = lift.use_weights([*bodies, "now water the plants"], f"{action} now water the plants")
    assert both[1] == 1.0 and both[2] > both[0]  # what only one of them explains is of use


@pytest.mark.parametrize(
    ("bodies", "action"),
    [
        (["Сначала закрой окно", "Потом открой дверь"], "потом открой дверь"),
        (["先把窗户关上。", "然后把门打开。"], "然后把门打开"),
        (["まず窓を閉める", "次にドアを開ける"], "次にドアを開ける"),
        (["πρώτα κλείσε", "μετά άνοιξε την πόρτα"], "μετά άνοιξε την πόρτα"),
    ],
)
def test_use_weights_read_other_scripts(bodies, action):
    used = lift.use_weights(bodies, action)
    assert used[1] == 1.0 and used[0] < 0.6, used


def test_without_an_action_the_first_in_the_prompt_answers_for_most():
    with Memory(policy=preset("memlift", gate=-1.0), embedder="hash:32") as memory:
        a, b, c = (memory.remember("task", body) for body in ("a third", "another way", "one way"))
        recall = memory.recall("task")
        memory.shown(recall, [b, a])  # there was no room for the first
        changes = {change.id: change.weight for change in memory.settle(recall, 0.0)}
        assert recall.ids == [c, b, a] and {b: 1.0, a: lift.BEHIND_WEIGHT}.items() <= changes.items()
        assert memory.get(b).value < memory.get(a).value < memory.get(c).value == 1.0


@pytest.mark.parametrize("text", ['"', "= ", "x@y.z/"])
def test_a_long_action_lets_other_threads_run(text):
    """The words of 1 MB were found in one call, which stopped the event loop of an AsyncMemory for up to a second."""
    action = text * (1_000_000 // len(text))
    work = threading.Thread(target=lift.use_weights, args=([action, "carrier='DL'"], action))
    began, longest = time.perf_counter(), 0.0
    work.start()
    while work.is_alive():
        before = time.perf_counter()
        time.sleep(0.002)
        longest = max(longest, time.perf_counter() - before)
    assert longest < 0.1 * (time.perf_counter() - began)
