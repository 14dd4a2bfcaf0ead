"""memlift: what came of a memory beside tasks that were farther away says less about one that is nearer."""

import numpy as np
import pytest

from evolvent.formulas.values import ema
from evolvent.memory import lift
from evolvent.memory.embedders import Function
from evolvent.memory.events import Loaded, Value
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.memory.rule import Candidates
from evolvent.memory.rules import memlift

# unit vectors in a plane; a task has the cosine of its name with the lesson's own question
ANGLES = {"own question": 1.0, "near question": 0.8, "strange question": 0.4}


def vectors(texts):
    rows = []
    for text in texts:
        cosine = ANGLES.get(text, 0.0)
        side = np.sqrt(1.0 - cosine**2)
        rows.append([cosine, side])
    return np.array(rows)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def memory(request, tmp_path):
    path = tmp_path / "a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")()
    policy = preset("memlift", k=1, gate=0.2, relevance="cosine", omit=0.0)
    with Memory(path, policy=policy, embedder=Function("plane", vectors), seed=3) as opened:
        yield opened


def fail(memory, task, times):
    for _ in range(times):
        memory.settle(memory.recall(task), 0.0)


def seen(memory, task):
    """The memory that a recall selected, shown or left out."""
    recall = memory.recall(task)
    (item,) = (*recall.items, *recall.omitted)
    return item


def test_a_lesson_that_failed_beside_strange_questions_is_shown_at_its_own(memory):
    lesson = memory.remember("own question", "SELECT net", source="reviewer")
    fail(memory, "strange question", 8)
    there, here = seen(memory, "strange question"), seen(memory, "own question")
    assert there.id == here.id == lesson
    assert there.value < 0.2 < 0.4 < here.value
    # it is left out to find out where it failed, and not here
    assert there.propensity < 0.5 and here.propensity == 1.0


def test_what_came_at_its_own_question_counts_everywhere(memory):
    lesson = memory.remember("own question", "SELECT gross", source="reviewer")
    fail(memory, "own question", 6)
    told = [seen(memory, task) for task in ("own question", "near question", "strange question")]
    assert {item.id for item in told} == {lesson} and len({item.value for item in told}) == 1
    assert told[0].value < 0.2 and all(item.propensity < 0.5 for item in told)


def test_share_by_hand():
    """A value of 2 failures and a start of 1, of which a quarter counts."""
    v = Value(0.2, 0.4, 2, 1.0, 0.5, 3.0, 4.0, 1.5, 6, 7.0, 8.0, 2.0, 5)
    assert v.share(0.25, 1.0) == Value(0.8, 0.85, 0.5, 0.25, 0.125, 0.75, 1.0, 0.375, 1.5, 1.75, 2.0, 0.5, 5)
    assert v.share(1.0, 1.0) == v
    start = v.share(0.0, 1.0)
    assert (start.q, start.carry, start.n) == (1.0, 1.0, 0.0)
    # fewer outcomes, as good as before: what an arm is worth in plain ones falls with the share
    for arm, part in zip(v.arms, v.share(0.25, 1.0).arms, strict=True):
        assert part.size == pytest.approx(0.25 * arm.size)
        assert part.reward / part.weight == pytest.approx(arm.reward / arm.weight)


def pool_of(near, far, relevance=(0.9, 0.8), nearness=None):
    q_N = np.array([near.value.q, far.value.q])
    return Candidates([1, 2], np.array(relevance), q_N, [near, far], {}, (0.0, 1.0), 2, False, nearness=nearness or {})


def lived(outcomes):
    """A memory that began at 1 and had these outcomes."""
    q, carry = 1.0, 1.0
    for n, reward in enumerate(outcomes):
        step = lift.step_size(n, 0.3)
        q, carry = ema(q, reward, step), carry * (1.0 - step)
    return Loaded(Value(q, carry, len(outcomes), sum(outcomes)), 1.0, True, "agent")


@pytest.mark.parametrize("outcomes", [(), (0.0,), (1.0, 0.0), (0.0,) * 12, (1.0,) * 12])
def test_relevance_counts_less_the_more_outcomes_say(outcomes):
    near, far = lived(outcomes), lived((1.0, 1.0, 0.0))
    pool = pool_of(near, far)
    told, only = (memlift.rank(memlift.Config(gate=0.2, weight=w), pool) for w in (0.5, 0.0))
    np.testing.assert_allclose(only.score, only.z_sim)  # weight 0: relevance alone, whatever came
    np.testing.assert_allclose(told.score, 0.5 * told.z_sim + 0.5 * told.z_value)
    known = np.array([1.0 - near.value.carry, 1.0 - far.value.carry])
    np.testing.assert_allclose(told.z_sim, (1.0 - 0.8 * known) * only.z_sim)


def test_a_well_known_memory_that_fails_does_not_stand_before_a_farther_one_that_helps():
    pool = pool_of(lived((0.0,) * 12), lived((1.0,) * 12), relevance=(0.95, 0.55))
    assert memlift.rank(memlift.Config(gate=0.2), pool).best[0] == 1
    pool = pool_of(lived(()), lived((1.0,) * 12), relevance=(0.95, 0.55))  # the near one was never tried
    assert memlift.rank(memlift.Config(gate=0.2), pool).best[0] == 0


def test_what_helped_nearer_by_is_worth_less_here():
    """By hand: at .6 where its outcomes came at 1.0, with a gate of .2, half of what it is above failure holds."""
    near, far = lived((1.0, 0.0, 1.0)), lived((1.0,) * 12)
    pool = pool_of(near, far, relevance=(0.9, 0.6), nearness={1: 0.9, 2: 1.0})
    told = memlift.rank(memlift.Config(gate=0.2), pool)
    same = memlift.rank(memlift.Config(gate=0.2), pool._replace(nearness={1: 0.9, 2: 0.6}))
    assert told.value[1] == same.value[1]  # what is told of it is its value; only the place in the order differs
    worth = np.array([near.value.q, 0.5 * far.value.q])
    p = np.array([near.value.q, far.value.q])
    known = np.array([1.0 - near.value.carry, 1.0 - far.value.carry])
    floor = np.hypot(0.1, 1.5 * np.sqrt(np.mean(known * p * (1 - p)) * 0.3 / 1.7))
    centred = worth - worth.mean()
    np.testing.assert_allclose(told.z_value, centred / max(np.sqrt(np.mean(centred**2)), floor))
    assert same.z_value[1] > 0.0 > told.z_value[1]


def test_noise_by_hand():
    """One value at .5 that is all outcomes, one at 1: the mean of .25 and 0, times .3 / 1.7."""
    assert lift.noise([0.5, 1.0], [1.0, 1.0], 0.3) == pytest.approx(np.sqrt(0.125 * 0.3 / 1.7))
    assert lift.noise([0.5, 0.5], [0.0, 0.0], 0.3) == 0.0
