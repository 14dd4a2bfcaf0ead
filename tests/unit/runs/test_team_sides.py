"""Games of two sides are refused as a team; agents with rewards of their own, sparse or dense, are not."""

import dataclasses
import types

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.core.team import Frame
from evolvent.runs.team.config import Plan
from evolvent.runs.team.sides import Rewards, check_one_side

CONFIG = types.SimpleNamespace(env="game", plan=Plan())


def watched(reward_TBA, limit=25):
    rewards = Rewards()
    no_B = np.zeros(reward_TBA.shape[1], np.bool_)
    for t, reward_BA in enumerate(reward_TBA):
        frame = Frame(
            np.zeros((*reward_BA.shape, 1)), reward_BA.astype(np.float32), no_B, no_B | ((t + 1) % limit == 0)
        )
        rewards.watch(frame)
    return rewards


def walks(rng, n, copies=32, limit=25):
    """Distances of agents that move independently: dense, and where an attempt begins decides most of it."""
    return rng.uniform(0, 2, (copies, n)) + rng.normal(0, 0.1, (limit, copies, n)).cumsum(axis=0)


def events(rng, shape, share):
    return (rng.random(shape) < share).astype(float)


def cooperative(rng, kind):
    if kind == "one reward for all":
        return np.repeat(walks(rng, 1), 4, axis=2)
    if kind == "independent distances":
        return -walks(rng, 20)
    if kind == "who is first takes it":  # one event, one earner, another agent in the step after
        reward = np.zeros((25, 32, 3))
        for b in range(32):
            t = rng.integers(0, 20)
            reward[t, b, 0] = reward[t + 1, b, 1] = 1.0
        return reward
    if kind == "seldom, each its own":
        return events(rng, (25, 32, 5), 0.01) - 0.5 * events(rng, (25, 32, 5), 0.02)
    if kind == "collisions cost both":
        hit = events(rng, (25, 32, 1), 0.05)
        return -walks(rng, 3) - hit
    if kind == "once, by chance, one won as another lost":
        reward = np.zeros((25, 32, 2))
        reward[7, 3] = (10.0, -10.0)
        return reward
    return np.zeros((25, 32, 3))  # random play earns nothing


@pytest.mark.parametrize(
    "kind",
    [
        "one reward for all",
        "independent distances",
        "who is first takes it",
        "seldom, each its own",
        "collisions cost both",
        "once, by chance, one won as another lost",
        "nothing",
    ],
)
def test_agents_with_rewards_of_their_own_are_a_team(kind):
    for seed in range(30):
        rewards = watched(cooperative(np.random.default_rng(seed), kind))
        check_one_side(CONFIG, [f"agent_{i}" for i in range(20)], rewards)


def opposed(rng, kind):
    if kind == "zero-sum, seldom":
        hit = events(rng, (25, 32, 1), 0.02)
        return hit * np.array([10.0, 10.0, -10.0])
    if kind == "one runs, two chase":
        far = walks(rng, 1)
        return np.concatenate([-far - 0.5 * walks(rng, 1), -far - 0.5 * walks(rng, 1), far], axis=2)
    one = rng.normal(size=(25, 32, 1))
    return np.concatenate([one, one, -one], axis=2)


@pytest.mark.parametrize("kind", ["zero-sum, seldom", "one runs, two chase", "zero-sum, dense"])
def test_two_sides_are_refused_and_named(kind):
    for seed in range(10):
        with pytest.raises(BadInput, match=r"a, b against c|c against a, b") as caught:
            check_one_side(CONFIG, "abc", watched(opposed(np.random.default_rng(seed), kind)))
        assert (
            "cooperative" in str(caught.value)
            and "--opposed" in str(caught.value)
            and "--env game" in str(caught.value)
        )


def test_games_of_one_step_and_everybody_for_himself_are_refused():
    rng = np.random.default_rng(0)
    coin = rng.choice([-1.0, 1.0], (1, 32, 1))
    with pytest.raises(BadInput, match=r"correlation -1\.00"):
        check_one_side(CONFIG, "ab", watched(np.concatenate([coin, -coin], axis=2), limit=1))
    shares = rng.dirichlet(np.ones(6), (25, 32))
    with pytest.raises(BadInput, match="add up to the same"):
        check_one_side(CONFIG, "abcdef", watched(shares))


@pytest.mark.parametrize(
    ("agents", "sides"),
    [
        (("adversary_0", "agent_0", "agent_1"), "adversary_0 against agent_0, agent_1"),
        (("lead_adversary_0", "adversary_1", "agent_0"), "lead_adversary_0, adversary_1 against agent_0"),
        (("eve_0", "bob_0", "alice_0"), "eve_0 against bob_0, alice_0"),
        (("red_0", "red_1", "blue_0"), "red_0, red_1 against blue_0"),
        (("agent_blue_0", "agent_red_0"), "agent_red_0 against agent_blue_0"),
    ],
)
def test_names_say_it_where_random_play_earns_nothing(agents, sides):
    nothing = watched(np.zeros((25, 4, len(agents))))
    with pytest.raises(BadInput, match=sides):
        check_one_side(CONFIG, agents, nothing)
    check_one_side(types.SimpleNamespace(env="game", plan=dataclasses.replace(Plan(), opposed=True)), agents, nothing)


@pytest.mark.parametrize(
    "agents", [("speaker_0", "listener_0"), ("archer_0", "knight_0"), ("agent_blue_0", "agent_blue_1")]
)
def test_other_names_say_nothing(agents):
    check_one_side(CONFIG, agents, watched(np.zeros((25, 4, 2))))


def test_agents_that_earn_the_same_are_a_team_whatever_they_are_called():
    reward_TBA = np.repeat(walks(np.random.default_rng(0), 1), 2, axis=2)
    check_one_side(CONFIG, ["red", "blue"], watched(reward_TBA))
    with pytest.raises(BadInput, match="no team"):
        check_one_side(CONFIG, ["red", "blue"], watched(np.zeros_like(reward_TBA)))
