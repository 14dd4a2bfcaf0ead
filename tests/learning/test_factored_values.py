"""What sums and rising mixtures of values can and cannot say in two small games, and what takes memory."""

import importlib

import pytest

from evolvent.core.config import with_fields
from evolvent.evaluate.live import Live
from run_folders import begin

TINY = {
    "steps": 8_000,
    "horizon": 250,
    "warmup": 400,
    "epsilon_end": 1.0,
    "hidden": (32,),
    "target_every": 50,
    "lr": 2e-3,
}


def earned(algo, tmp_path, **settings):
    module = importlib.import_module(f"evolvent.algos.{algo}")
    config = with_fields(module.Config(), **{**TINY, "eval_every": 0, "eval_episodes": 4, **settings})
    with begin(tmp_path / algo, algo, config) as folder, Live(plain=True) as live:
        return module.run(config, folder, live)["greedy"]["value"]


@pytest.mark.parametrize(("algo", "want"), [("vdn", 7), ("qmix", 8)])
def test_the_two_step_game(algo, want, tmp_path, one_thread):
    """All choices are random: a sum says 6.5 of the best cell and settles for 7, a mixture has it."""
    assert earned(algo, tmp_path, env="two_step") == want


@pytest.mark.parametrize("algo", ["vdn", "qmix"])
def test_no_rising_mixture_has_the_best_cell_of_the_nonmonotone_game(algo, tmp_path, one_thread):
    assert earned(algo, tmp_path, env="matrix:nonmonotone", steps=2_000) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "memory"), [("vdn", 16), ("qmix", 16), ("qmix", 0)])
def test_only_memory_knows_what_was_shown_before(algo, memory, tmp_path, one_thread):
    settings = {"steps": 8_000, "exploration": 4_000, "epsilon_end": 0.05, "batch": 200, "course": 10}
    value = earned(algo, tmp_path, env="cue", eval_episodes=64, memory=memory, **settings)
    assert value >= 0.95 if memory else value <= 0.7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "env"),
    [
        ("vdn", "spread:n=2,discrete=true"),
        ("qmix", "spread:n=2,discrete=true"),
        ("maddpg", "spread:n=2"),
        ("hasac", "spread:n=2"),
    ],
)
def test_they_spread_out(algo, env, tmp_path, one_thread):
    """Random actions earn -19, the first learners of teams here -9 to -11."""
    settings = {"steps": 60_000, "warmup": 2_000, "hidden": (64, 64), "lr": 1e-3, "eval_episodes": 64, "env": env}
    both = {"epsilon_end": 0.05, "exploration": 20_000, "target_every": 200} if algo in ("vdn", "qmix") else {}
    module = importlib.import_module(f"evolvent.algos.{algo}")
    config = with_fields(module.Config(), **settings, **both, eval_every=0)
    with begin(tmp_path / algo, algo, config) as folder, Live(plain=True) as live:
        summary = module.run(config, folder, live)
    assert summary["greedy"]["value"] > summary["baseline"]["value"] + 4
