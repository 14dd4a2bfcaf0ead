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


@pytest.mark.parametrize(
    ("outcomes", "other", "weight"),
    [
        ((), (0.6, 0.0), 0.5),  # the nearest was never tried
        ((1.0,) * 4, (0.6, 0.0), 0.5),  # it is better than the other, whose mean is .6
        ((0.0,), (0.6, 1.0), 0.5),  # the other was never tried: nothing is known to be better
        ((0.0,), (0.6, 0.0), 0.575),  # half known, .6 worse
        ((0.0,) * 40, (0.6, 0.0), 0.65),
        ((0.0,) * 40, (0.8, 0.5), 0.575),  # the other half known: mean .6
        ((0.0,) * 40, (0.0, 0.0), 0.5),  # where little succeeds, failing says nothing
    ],
)
def test_the_weight_of_the_value_grows_as_others_do_better(outcomes, other, weight):
    q, carry = 1.0, 1.0
    for n, reward in enumerate(outcomes):
        step = lift.step_size(n, 0.3)
        q, carry = ema(q, reward, step), carry * (1.0 - step)
    near = Loaded(Value(q, carry, len(outcomes), sum(outcomes)), 1.0, True, "agent")
    far = Loaded(Value(*other, 3), 1.0, True, "agent")
    pool = Candidates([1, 2], np.array([0.9, 0.8]), np.array([q, other[0]]), [near, far], {}, (0.0, 1.0), 2, False)
    config = memlift.Config(gate=0.2)
    told = memlift.rank(config, pool)
    by_hand = (1.0 - weight) * told.z_sim + weight * told.z_value
    np.testing.assert_allclose(told.score, by_hand, atol=1e-6)
    plain = memlift.rank(memlift.Config(gate=0.2, boost=0.0), pool)
    np.testing.assert_allclose(plain.score, 0.5 * told.z_sim + 0.5 * told.z_value)
    none = memlift.rank(memlift.Config(gate=0.2, weight=0.0), pool)
    np.testing.assert_allclose(none.score, told.z_sim)
