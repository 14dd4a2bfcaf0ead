"""Copies in Ray actors: against a stand-in of Ray's calls (always), and in a Ray of this machine (slow, extra ray)."""

import pickle
import sys
import types
from functools import partial

import numpy as np
import pytest

from evolvent import envs
from evolvent.core.errors import EnvError
from toy_team import assert_same, counters, play


class Handle:
    """An actor of the stand-in: calls are carried out when asked for; what goes in and out is copied and read-only."""

    def __init__(self, actor):
        self._actor, self.killed = actor, False

    def __getattr__(self, name):
        return types.SimpleNamespace(remote=lambda *args: partial(self._call, name, pickle.dumps(args)))

    def _call(self, name, args):
        if self.killed:
            raise sys.modules["ray.exceptions"].RayError("the actor died")
        answer = pickle.loads(pickle.dumps(getattr(self._actor, name)(*pickle.loads(args))))
        for array in answer.values() if isinstance(answer, dict) else ():
            array.flags.writeable = False
        return answer


@pytest.fixture
def handles(monkeypatch):
    made = []

    def remote(**options):
        assert 0 < options["num_cpus"] <= 1

        def make(kind, *args):
            made.append(Handle(kind(*pickle.loads(pickle.dumps(args)))))
            return made[-1]

        return lambda kind: types.SimpleNamespace(remote=partial(make, kind))

    ray, errors = types.ModuleType("ray"), types.ModuleType("ray.exceptions")
    errors.RayError = type("RayError", (Exception,), {})
    errors.GetTimeoutError = type("GetTimeoutError", (errors.RayError,), {})
    ray.is_initialized, ray.cluster_resources, ray.remote = lambda: True, lambda: {"CPU": 2.0}, remote
    ray.get, ray.exceptions = lambda job, timeout=None: job(), errors
    ray.kill = lambda handle: setattr(handle, "killed", True)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.exceptions", errors)
    return made


@pytest.mark.parametrize(("workers", "expected"), [(0, 2), (3, 3)])
def test_actors_give_the_same_numbers(handles, workers, expected):
    env = counters("ray", workers)
    assert len(handles) == expected
    assert_same(play(counters()), play(env))
    assert env.render().shape == (2, 2, 3)
    env.close()
    assert all(handle.killed for handle in handles)


def test_trouble_in_an_actor_is_reported(handles):
    env = counters("ray", 2, n_envs=6, trouble="raise")
    env.reset(0)
    with pytest.raises(EnvError, match=r"(?s)the physics exploded.*Ray worker [01] of 2.*copy [0-5]"):
        for _ in range(60):
            env.step(np.zeros((6, 2), np.int64))
    assert all(handle.killed for handle in handles)


def test_an_actor_that_dies_is_replaced_and_the_numbers_stay(handles):
    class Mortal:
        """The newest of the actors dies before some steps."""

        def __init__(self, env):
            self._env, self.team, self._steps = env, env.team, 0

        def reset(self, seed):
            return self._env.reset(seed)

        def step(self, action):
            self._steps += 1
            handles[-1].killed = self._steps in (1, 9, 30)
            return self._env.step(action)

    alone, env = counters(n_envs=6), counters("ray", 2, n_envs=6)
    assert_same(play(alone, steps=40), play(Mortal(env), steps=40))
    assert len(handles) == 2 + 3


def test_actors_that_die_again_and_again_end_the_run(handles, monkeypatch):
    env = counters("ray", 2)
    env.reset(0)
    monkeypatch.setattr(Handle, "_call", _died)
    with pytest.raises(EnvError, match=r"(?s)worker died.*Ray worker 0 of 2, copies 0 to 1"):
        env.step(np.zeros((5, 2), np.int64))
    assert len(handles) == 2 + 5


def _died(handle, name, args):
    raise sys.modules["ray.exceptions"].RayError("the actor died")


@pytest.mark.slow
def test_ray_of_this_machine_gives_the_same_numbers():
    pytest.importorskip("ray", reason="needs the extra ray")
    here, there = (
        envs.load_team("mpe:simple_spread,limit=5", 3),
        envs.load_team("mpe:simple_spread,limit=5", 3, workers="ray:2"),
    )
    try:
        assert_same(play(here), play(there))
    finally:
        there.close()
