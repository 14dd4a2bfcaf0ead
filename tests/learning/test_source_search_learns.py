"""AGDC finds sources that it was not trained on, within a fixed budget."""

from contextlib import closing

import numpy as np
import pytest
import torch

import evolvent
from evolvent import envs
from evolvent.algos import agdc, infotaxis
from evolvent.core.folder import RunFolder
from evolvent.runs.team.searches import played

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


def found(player, world):
    with closing(envs.load_team(world, 32)) as env:
        return float(np.mean(played(player(env), env, 96, seed=1)["success"]))


def test_it_finds_sources_that_it_was_not_trained_on(tmp_path):
    """More than DCEE does on the same searches; measured: 74 % and 34 %."""
    torch.manual_seed(0)
    settings = {"env": "ste:wide,particles=300", "steps": 300_000, "eval_every": 0, "eval_episodes": 32}
    evolvent.run("agdc", **settings, out=tmp_path / "run", quiet=True)
    folder, world = RunFolder.open(tmp_path / "run"), "ste:wide"
    dcee = found(infotaxis.planned(infotaxis.Config(env=world, planner="dcee")), world)
    assert found(lambda env: agdc.policy(folder, env=world), world) > dcee + 0.15, dcee
