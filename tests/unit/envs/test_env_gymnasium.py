"""Tasks of gymnasium as teams of one: the same numbers, ends apart from cut-offs, errors that say what to do."""

import sys
import types

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from evolvent import envs
from evolvent.core.errors import BadInput, EnvError, MissingExtra


def test_a_course_is_that_of_the_task_itself_with_actions_scaled_to_its_box():
    env = envs.load_team("gymnasium:Pendulum-v1,max_episode_steps=7,g=5.0", 1)
    assert (env.team.limit, env.team.n_agents, env.team.actions[0].dims) == (7, 1, 1)
    frame = env.reset(3)
    own = gymnasium.make("Pendulum-v1", g=5.0)
    own.reset(seed=0)
    own.unwrapped.state = np.array([np.arctan2(frame.obs_BAD[0, 0, 1], frame.obs_BAD[0, 0, 0]), frame.obs_BAD[0, 0, 2]])
    for t in range(7):
        action = np.float32([[[0.3 * (-1) ** t]]])
        frame = env.step(action)
        obs, reward, *_ = own.step(2 * action[0, 0])  # torques of [-2, 2]
        seen = frame.final_obs_BAD if t == 6 else frame.obs_BAD
        np.testing.assert_allclose(seen[0, 0], obs, atol=1e-4)
        assert frame.reward_BA[0, 0] == pytest.approx(reward, abs=1e-4)
    assert frame.truncated_B[0] and not frame.terminated_B[0]
    assert not np.array_equal(frame.final_obs_BAD, frame.obs_BAD)


def test_an_end_by_the_rules_terminates_and_one_of_several_is_one_hot():
    env = envs.load_team("gymnasium:FrozenLake-v1,is_slippery=false,map_name=8x8", 1)
    frame = env.reset(0)
    assert (env.team.obs_dim, env.team.choices, env.team.limit) == (64, 4, 100)
    assert frame.obs_BAD[0, 0].argmax() == 0 and frame.obs_BAD.sum() == 1
    for move in (1, 1, 2, 2, 2):  # twice down and three times right, into a hole
        assert not frame.done_B[0]
        frame = env.step(np.array([[move]]))
    assert frame.terminated_B[0] and not frame.truncated_B[0]
    assert frame.final_obs_BAD[0, 0].argmax() == 8 * 2 + 3
    assert frame.obs_BAD[0, 0].argmax() == 0


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        ("CartPol-v1", BadInput, "did you mean 'CartPole-v1'"),
        ("CartPole-v7", BadInput, "did you mean 'CartPole-v"),
        ("CartPole-v1,gravitas=3", BadInput, "refuses its options(?s:.*)gravitas"),
        ("no_such_package:Task-v0", MissingExtra, "No module named 'no_such_package'"),
        ("GymV21Environment-v0", MissingExtra, r"do: pip install .shimmy\[gym-v21\]"),
    ],
)
def test_errors_say_what_to_do(spec, kind, message):
    with pytest.raises(kind, match=message):
        envs.load_team(f"gymnasium:{spec}", 1)


class Odd(gymnasium.Env):
    """A task with spaces of one's own choice."""

    def __init__(self, observation, action):
        self.observation_space, self.action_space = observation, action


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        (spaces.Discrete(2), spaces.MultiDiscrete([2, 3]), "action space that is not supported(?s:.*)MultiDiscrete"),
        (spaces.Discrete(2), spaces.Box(-np.inf, np.inf, (1,)), "bounded Box"),
        (spaces.Text(4), spaces.Discrete(2), "observation space that is not supported"),
        (spaces.Box(0, 255, (96, 96, 3), np.uint8), spaces.Discrete(2), "no convolutions"),
    ],
)
def test_spaces_that_do_not_fit_are_named(observation, action, message, monkeypatch):
    module = types.ModuleType("odd_tasks")
    monkeypatch.setitem(sys.modules, "odd_tasks", module)
    gymnasium.register("Odd-v0", entry_point=lambda **_: Odd(observation, action))
    try:
        with pytest.raises((BadInput, EnvError), match=message):
            envs.load_team("gymnasium:odd_tasks:Odd-v0", 1)
    finally:
        gymnasium.registry.pop("Odd-v0")


def test_options_of_other_environments_are_still_refused():
    with pytest.raises(BadInput, match="unknown option"):
        envs.load_team("spread:n=3,colour=red", 1)
