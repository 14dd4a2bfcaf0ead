"""Rewards to rounding, wherever one is held against an end of its range or against another."""

import math

import pytest

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.protocols import Turn
from evolvent.core.rounding import differ, inside, reaches
from evolvent.credit import step_preferred
from evolvent.envs import promises
from evolvent.formulas.curricula import teaching
from evolvent.memory.memory import Memory
from evolvent.runs.language.evaluation import summarise

BELOW, ABOVE = 0.7 + 0.2 + 0.1, 0.1 * 3 + 0.2 * 3 + 0.1


def attempts(*rewards):
    out = []
    for i, reward in enumerate(rewards):
        episode = Episode("t", group="g", id=str(i))
        episode.observe("x")
        episode.act("y", token_ids=[1], reward=reward)
        episode.end(terminated=True, success=reaches(reward, 1.0))
        out.append(episode)
    return out


def test_the_sums_miss_one_by_rounding():
    assert BELOW < 1.0 < ABOVE


@pytest.mark.parametrize("reward", [BELOW, ABOVE, 1.0])
def test_an_end_of_the_range_is_reached_and_not_left(reward):
    assert reaches(reward, 1.0) and inside(reward, 0.0, 1.0) <= 1.0
    assert inside(1.0 - reward, 0.0, 1.0) >= 0.0


@pytest.mark.parametrize("x", [1e-13, 3e-13, 9e-13])
def test_in_a_small_range_rounding_is_small_too(x):
    assert inside(x, 0.0, 1e-12) == x and math.isnan(inside(1.1e-12, 0.0, 1e-12))
    with Memory(embedder="hash", reward_range=(0.0, 1e-12)) as memory:
        memory.remember("a", "b")
        assert memory.settle(memory.recall("a"), x)[0].reward == x


@pytest.mark.parametrize("reward", [1.0 + 1e-6, -1e-6, math.nan, math.inf])
def test_more_than_rounding_is_outside(reward):
    assert math.isnan(inside(reward, 0, 1))


@pytest.mark.parametrize(
    ("rewards", "telling"), [((BELOW, ABOVE), False), ((1.0, ABOVE, 0.999), True), ((1.0,), False)]
)
def test_attempts_that_earned_the_same_to_rounding_are_not_compared(rewards, telling):
    episodes = attempts(*rewards)
    assert differ(rewards) == telling
    assert teaching(rewards, ["g"] * len(rewards)).all() == telling
    assert (not all(math.isnan(x) for x in step_preferred.assign(episodes).values("step"))) == telling
    if len(rewards) > 1:
        assert summarise(episodes)["flat_mean"] == (0.0 if telling else 1.0)


@pytest.mark.parametrize("reward", [BELOW, ABOVE])
def test_an_environment_says_success_where_all_is_earned(reward):
    promise = promises.Promise("environment x")
    promises.check_end(Turn("", reward=reward, terminated=True, success=True), reward, (0.0, 1.0), "step", promise)
    with pytest.raises(BadInput, match="the highest reward, and no success"):
        promises.check_end(Turn("", reward=reward, terminated=True), reward, (0.0, 1.0), "step", promise)
    with pytest.raises(BadInput, match="a success with the lowest reward"):
        bounds = (reward, reward + 1.0) if reward < 1.0 else (1.0, 2.0)
        promises.check_end(Turn("", reward=reward, terminated=True, success=True), reward, bounds, "step", promise)


@pytest.mark.parametrize("reward", [BELOW, ABOVE, 1.0 - BELOW, 1.0 - ABOVE])
def test_a_memory_takes_it(tmp_path, reward):
    with Memory(tmp_path / "memory.db", embedder="hash") as memory:
        memory.remember("a key", "a body")
        memory.settle(memory.recall("a key"), reward)
        with pytest.raises(BadInput, match="out of range"):
            memory.settle(memory.recall("a key"), 1.0 + 1e-6)
