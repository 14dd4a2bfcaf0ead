"""Systems of one agent solve small tasks of gymnasium within a fixed budget."""

import importlib

import pytest
import torch

from evolvent import envs
from evolvent.core.config import with_fields


@pytest.mark.parametrize(
    ("algo", "env", "settings", "least"),
    [
        ("ppo", "CartPole-v1", {"steps": 24_576, "hidden": (32,), "minibatches": 16, "epochs": 6, "lr": 2e-3}, 450),
        (
            "dqn",
            "CartPole-v1",
            {"steps": 7_000, "target_every": 20, "double": True, "n_step": 3, "warmup": 500, "exploration": 1_400},
            400,
        ),
        ("ddpg", "Pendulum-v1", {"steps": 5_000, "batch": 64, "hidden": (64, 64), "warmup": 600}, -300),
    ],
)
def test_it_learns(algo, env, settings, least, one_thread):
    """Random play earns 22 in CartPole (of 500), -1,200 in Pendulum."""
    module, name = importlib.import_module(f"evolvent.algos.{algo}"), f"gymnasium:{env}"
    config = with_fields(module.Config(), **settings)
    policy = module.train(config, envs.load_team(name, config.envs), seed=0)
    judge = torch.Generator().manual_seed(0)
    played = policy.play(envs.load_team(name, 10), episodes=20, greedy=True, generator=judge, seed=1)
    assert played["return"].mean() >= least, played["return"].mean()
