"""More than sixty tasks by name, each stepped under every source that it has."""

import importlib
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from evolvent import envs

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def tasks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("robust_tasks")


def step(spec, module, steps=2):
    """A few steps under each source; what was disturbed is told."""
    with closing(envs.load_team(spec, 1)) as bare:
        modes, team = module.modes(bare), bare.team
    for source, mode in modes.items():
        with closing(envs.load_team(f"disrupt:[{spec}],{source}={mode}", 1)) as env:
            frame = env.reset(0)
            for _ in range(steps):
                action = np.zeros((1, team.n_agents, *team.action_shape), np.int64 if team.choices else np.float32)
                if frame.available_BAN is not None:
                    action = frame.available_BAN.argmax(axis=2)
                frame = env.step(action)
                assert np.isfinite(frame.obs_BAD).all() and np.isfinite(frame.reward_BA).all()
                assert (frame.undisturbed_BA is not None) == (source == "reward")
    return modes


def test_every_task_steps_under_every_source_that_it_has(tasks):
    specs = [spec for family in tasks.TASKS.values() for spec in family]
    assert len(set(specs)) == len(specs) >= 60
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        moving = [spec for spec in specs if "dynamics" in step(spec, tasks)]
    assert len(moving) >= 35
