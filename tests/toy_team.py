"""Small team environments that count, die, break or change, for the tests of what runs many copies of them."""

import os
from functools import partial

import numpy as np

from evolvent.core.team import ActionSpec, TeamSpec
from evolvent.envs.runners.checked import Checked
from evolvent.envs.runners.solo import Seen
from evolvent.envs.runners.vector import vector
from evolvent.testing.team_env import random_action

COLUMNS = ("obs_BAD", "reward_BA", "terminated_B", "truncated_B", "available_BAN", "active_BA", "state_BS")


class Counter:
    """Two agents with unequal observations and choices; an attempt ends after ``seed % 3 + 2`` steps.

    Agent b dies after its first step; choice 2 of agent a is open at even ages only. ``trouble`` names what goes wrong
    at age 2 of the copy whose seed is divisible by 5.
    """

    team = TeamSpec(("a", "b"), 3, (ActionSpec(choices=3), ActionSpec(choices=2)), state_dim=1)
    gives = ("available", "active")
    columns = ("ages",)

    def __init__(self, trouble="", always=False):
        self._trouble, self._always = trouble, always

    def reset(self, seed):
        self._rng = np.random.default_rng(seed)
        self._seed, self._age = seed, 0
        return self._seen()

    def step(self, action):
        assert action.shape == (2,) and action.dtype == np.int64
        self._age += 1
        broken = self._trouble if self._age == 2 and (self._always or self._seed % 5 == 0) else ""
        if broken == "raise":
            raise RuntimeError("the physics exploded")
        if broken == "exit":
            os._exit(7)
        return self._seen(float(action[0]), broken)

    def _seen(self, reward=0.0, broken=""):
        obs = {"a": np.array([self._seed % 1000, self._age, self._rng.random()], np.float32)}
        alive = {"a"}
        if self._age == 0 or self._age >= 1 + self._seed % 3 + 1:
            obs["b"] = np.array([self._age], np.float32)
        if self._age == 0:
            alive = {"a", "b"}
        if broken == "nan":
            obs["a"][1] = np.nan
        if broken == "inf reward":
            reward = np.inf
        if broken == "new agent":
            obs["c"] = obs["a"]
        if broken == "longer":
            obs["a"] = np.zeros(2, np.float32)
        open_ = {"a": np.array([True, True, self._age % 2 == 0])}
        end = self._age == self._seed % 3 + 2
        cut = end and self._seed % 2 == 0
        return Seen(
            obs, {"a": reward}, end and not cut, cut, alive, open_, np.array([10.0 * self._age]), {"ages": self._age}
        )

    def render(self):
        return np.full((2, 2, 3), self._age, np.uint8)

    def close(self):
        pass


PAID = ("choice", "number", "both")


class Trio:
    """Agents of unequal kinds: one of three choices, two numbers, a choice and a number; cut off after four steps.

    Paid: 1 for choice 1 of agent a, minus how far b's second number is from 0.5, plus c's choice.
    """

    team = TeamSpec(("a", "b", "c"), 2, (ActionSpec(3), ActionSpec(dims=2), ActionSpec(2, 1)), limit=4, parts=PAID)
    gives = columns = ()

    def reset(self, seed):
        self._rng, self._age = np.random.default_rng(seed), 0
        return self._seen(0.0, 0.0, 0.0)

    def step(self, action):
        assert action.shape == (3, 3) and action.dtype == np.float32
        self._age += 1
        return self._seen(float(action[0, 0] == 1), -abs(float(action[1, 2]) - 0.5), float(action[2, 0]))

    def _seen(self, *paid):
        obs = dict(zip(self.team.agents, self._rng.random((3, 2), np.float32), strict=True))
        return Seen(obs, sum(paid), truncated=self._age == 4, parts=dict(zip(PAID, paid, strict=True)))

    def render(self):
        return None

    def close(self):
        pass


def counters(place="here", workers=1, *, n_envs=5, trouble=""):
    return Checked(vector(partial(Counter, trouble), n_envs, place, workers), "counter")


def play(env, steps=15, seed=3):
    generator, frame, out = np.random.default_rng(0), env.reset(seed), []
    for _ in range(steps):
        frame = env.step(random_action(env.team, frame, generator))
        shown = {name: getattr(frame, name) for name in COLUMNS}
        columns = {name: column.copy() for name, column in shown.items() if column is not None}
        done = frame.done_B
        if done.any():
            last = {"final": frame.final_obs_BAD, "final state": frame.final_state_BS}
            columns |= {name: column[done].copy() for name, column in last.items() if column is not None}
            columns |= {name: column.copy() for name, column in frame.info.items()}
        out.append(columns)
    return out


def assert_same(first, second):
    for a, b in zip(first, second, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)
