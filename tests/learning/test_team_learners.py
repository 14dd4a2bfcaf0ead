"""Every team learner solves what it must within a small budget; what must stay unsolved does."""

import importlib

import pytest
import torch

from evolvent import envs
from evolvent.core.config import with_fields
from evolvent.core.errors import BadInput
from evolvent.envs.runners.checked import Checked
from evolvent.envs.runners.vector import vector
from evolvent.evaluate.live import Live
from run_folders import begin
from toy_team import Counter, Trio

torch.set_num_threads(1)
ONE_STEP = {"envs": 32, "horizon": 8, "hidden": (32, 32), "eval_every": 0, "lr": 2e-3, "critic_lr": 2e-3}
SPREAD = {"env": "spread:n=2,discrete=true", "envs": 64, "horizon": 25, "hidden": (64,), "eval_every": 0}


def train(algo, tmp_path, **settings):
    """Summary and the last line of the log of a run."""
    module = importlib.import_module(f"evolvent.algos.{algo}")
    config = with_fields(module.Config(), **settings)
    folder = begin(tmp_path / algo, algo, config)
    with Live(plain=True) as live:
        summary = module.run(config, folder, live)
    return summary, [row for row in folder.read_metrics() if "update" in row]


def without(settings, *names):
    return {name: value for name, value in settings.items() if name not in names}


def test_happo_splits_up(tmp_path):
    summary, rows = train("happo", tmp_path, env="split:n=4", ids=False, steps=256 * 15, **ONE_STEP)
    assert summary["sampled"]["value"] >= 0.85
    assert rows[0]["return"] < 0.3
    assert all(0.5 < row["factor_mean"] < 2.0 for row in rows)


def test_hatrpo_splits_up(tmp_path):
    settings = without(ONE_STEP, "lr") | {"delta": 0.05, "critic_epochs": 2}
    summary, rows = train("hatrpo", tmp_path, env="split:n=4,noise=2", ids=False, steps=256 * 25, **settings)
    assert sum(row["return"] for row in rows[-5:]) / 5 >= 0.85  # of 1,280 attempts
    assert summary["sampled"]["value"] >= 0.7  # of 32
    assert all(row["kl_max"] <= 0.05 for row in rows)
    assert max(row["kl_max"] for row in rows) > 0.01
    assert sum(row["accepted"] for row in rows) / len(rows) > 0.8


def test_a_shared_policy_without_numbers_cannot_split_up(tmp_path):
    """At best 2 / 2^n: everybody flips the same coin."""
    summary, rows = train("mappo", tmp_path, env="split:n=4", ids=False, steps=256 * 30, **ONE_STEP)
    late = [row["return"] for row in rows[-10:]]
    assert sum(late) / len(late) < 0.2
    assert summary["sampled"]["value"] < 0.4


@pytest.mark.parametrize("algo", ["mappo", "ippo"])
def test_with_numbers_it_can(algo, tmp_path):
    summary, _ = train(algo, tmp_path, env="split:n=4", steps=256 * 25, **ONE_STEP)
    assert summary["sampled"]["value"] >= 0.85


@pytest.mark.parametrize("baseline", ["none", "surrogate"])
def test_coma_splits_up(tmp_path, baseline):
    settings = ONE_STEP | {"critic_steps": 10, "target_every": 20, "optimal_baseline": baseline, "lr": 4e-3}
    summary, _ = train("coma", tmp_path, env="split:n=4", steps=256 * 40, **settings)
    assert summary["sampled"]["value"] >= 0.85


def test_mappo_with_the_optimal_baseline_splits_up(tmp_path):
    settings = ONE_STEP | {"shared": False, "ids": False, "optimal_baseline": "surrogate"}
    summary, rows = train("mappo", tmp_path, env="split:n=4", steps=256 * 25, **settings)
    assert summary["sampled"]["value"] >= 0.85
    assert rows[-1]["q_loss"] < rows[0]["q_loss"]


@pytest.mark.parametrize("algo", ["happo", "hatrpo", "mappo", "ippo"])
def test_a_matrix_game_is_learned(algo, tmp_path):
    """Climbing: the safe cells are worth 5 to 7, the best one 11, and missing it costs 30."""
    settings = without(ONE_STEP, "lr") | {"delta": 0.05} if algo == "hatrpo" else ONE_STEP
    summary, _ = train(algo, tmp_path, env="matrix:climbing", steps=256 * 12, **settings)
    assert summary["score"]["value"] >= 5.0
    assert summary["baseline"]["value"] < 0.0


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["happo", "hatrpo", "mappo", "ippo"])
def test_spread_gets_better(algo, tmp_path):
    more = {"delta": 0.02, "critic_epochs": 10} if algo == "hatrpo" else {"lr": 1e-3, "epochs": 10}
    summary, _ = train(algo, tmp_path, steps=1600 * 25, critic_lr=1e-3, **SPREAD, **more)
    assert summary["sampled"]["ci95"][0] > summary["baseline"]["ci95"][1]


@pytest.mark.parametrize("algo", ["happo", "hatrpo", "mappo", "ippo", "coma"])
def test_agents_that_die_and_choices_that_close(algo, tmp_path, monkeypatch):
    """Of two unequal agents one dies early; the other is paid the number of its choice, 2 being open now and then."""
    monkeypatch.setattr(envs, "load_team", lambda spec, n, **_: vector(Counter, n))
    settings = {"coma": {"critic_steps": 10, "lr": 4e-3}, "hatrpo": {"delta": 0.05}}.get(algo, {"lr": 2e-3})
    settings = {"envs": 16, "horizon": 8, "hidden": (16,), "eval_every": 0, "critic_lr": 2e-3, **settings}
    summary, rows = train(algo, tmp_path, steps=128 * 15, **settings)
    assert summary["sampled"]["ci95"][0] > summary["baseline"]["ci95"][1]
    assert all(0 < share < 1 for share in rows[0]["credit"])


@pytest.mark.parametrize(
    ("algo", "settings"),
    [
        ("mappo", {"optimal_baseline": "exact", "env": "split:n=2"}),
        ("mappo", {"optimal_baseline": "surrogate", "env": "spread:n=2,limit=5"}),
        ("coma", {"optimal_baseline": "exact", "env": "split:n=2", "critic_steps": 2}),
        ("coma", {"env": "spread:n=2,limit=5,discrete=true", "critic_steps": 2}),
        ("ippo", {"shared": False, "env": "spread:n=2,limit=5"}),
        ("happo", {"minibatches": 2, "env": "spread:n=3,limit=5"}),
    ],
)
def test_every_option_runs(algo, settings, tmp_path):
    settings = settings | {"envs": 4, "horizon": 6, "hidden": (16,), "steps": 48, "eval_every": 0, "eval_episodes": 4}
    summary, rows = train(algo, tmp_path, **settings)
    assert summary["updates"] == len(rows) == 2


def test_what_an_algorithm_cannot_do_is_said(tmp_path):
    with pytest.raises(BadInput, match="COMA needs agents that choose") as error:
        train("coma", tmp_path, env="spread:n=2")
    assert "--optimal-baseline" in str(error.value)
    with pytest.raises(BadInput, match="no exact baseline"):
        train("mappo", tmp_path, env="spread:n=2", optimal_baseline="exact")


def test_what_is_advised_for_choices_beside_numbers_works(tmp_path, monkeypatch):
    monkeypatch.setattr(envs, "load_team", lambda spec, n, **_: Checked(vector(Trio, n), spec))
    small = {"envs": 4, "horizon": 4, "steps": 16, "eval_every": 0, "eval_episodes": 4}
    with pytest.raises(BadInput, match="COMA needs agents that choose") as error:
        train("coma", tmp_path / "coma", **small)
    assert "--optimal-baseline" not in str(error.value)
    for algo in ("mappo", "happo", "mat"):
        assert algo in str(error.value)
        train(algo, tmp_path / algo, **small)


@pytest.mark.parametrize(("algo", "memory"), [("mappo", 16), ("happo", 16), ("mappo", 0)])
def test_only_memory_knows_what_was_shown_before(algo, memory, tmp_path):
    """Answers that are guessed are right in half of all cases."""
    settings = {**ONE_STEP, "horizon": 20, "eval_episodes": 64, "memory": memory}
    settings["steps"] = 12_800 if algo == "happo" else 6_400
    summary, _ = train(algo, tmp_path, env="cue", **settings)
    assert summary["greedy"]["value"] >= 0.95 if memory else summary["greedy"]["value"] <= 0.7
