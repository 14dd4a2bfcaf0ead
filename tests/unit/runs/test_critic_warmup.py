"""Whoever learns first: the policy stays what it was, and then it learns. Runs that end before are refused."""

from importlib import import_module

import pytest

import tiny_language
from evolvent.core.config import with_fields
from evolvent.core.errors import BadInput
from evolvent.evaluate.live import Live
from run_folders import begin

pytestmark = pytest.mark.usefixtures("one_thread")
model = tiny_language.fixture(max_position_embeddings=512)


SUMMARY = {}


def rows(name, model, path, **more):
    module = import_module(f"evolvent.algos.{name}")
    base = {"env": "microwave:step_limit=3", "model": model, "updates": 3, "prompts": 2, "group": 3, "lr": 0.05}
    config = with_fields(module.Config(), **base | more, dtype="float32", eval_every=0, eval_tasks=2)
    with begin(path, name, config) as folder, Live(plain=True) as live:
        SUMMARY.clear()
        SUMMARY.update(module.run(config, folder, live))
        return [row for row in folder.read_metrics() if "update" in row]


@pytest.mark.parametrize("name", ["poad", "ntpo", "twosome"])
def test_the_policy_waits_for_its_critic(name, model, tmp_path):
    first, second, third = rows(name, model, tmp_path / "late", warmup=2)
    assert "grad_norm" not in first and "grad_norm" not in second and third["grad_norm"] > 0
    assert first["value_loss"] > 0 and second["value_loss"] > 0
    at_once = rows(name, model, tmp_path / "now")
    # the draws of an update are seeded by its number: what differs comes from the policy that did not move
    assert at_once[0]["grad_norm"] > 0 and at_once[0]["return"] == first["return"]
    assert third["gap"] < 1e-4


@pytest.mark.parametrize("name", ["poad", "ntpo", "twosome"])
def test_a_critic_may_pass_over_an_update_more_often(name, model, tmp_path):
    seldom, often = (rows(name, model, tmp_path / str(n), warmup=3, updates=4, critic_epochs=n)[2] for n in (1, 60))
    assert often["value_loss"] < seldom["value_loss"] and "grad_norm" not in often


# ---------------------------------------------------------------------------------------------------- stages
STAGES = {
    "poad": "warmup",
    "ntpo": "warmup",
    "twosome": "warmup",
    "archer": "warmup",
    "tgdpo": "reward_updates",
    "marft": "interval",
}


@pytest.mark.parametrize("name", STAGES)
def test_a_run_that_ends_before_the_policy_learns_is_refused_before_anything_is_loaded(name, tmp_path):
    flag = f"--{STAGES[name].replace('_', '-')}"
    with pytest.raises(BadInput, match=f"never be trained(.|\\n)*do: {flag} 0, or --updates 6"):
        rows(name, "no-such-model", tmp_path / "run", **{STAGES[name]: 3}, updates=1)


@pytest.mark.parametrize("name", STAGES)
def test_the_defaults_are_for_twenty_updates(name):
    config = import_module(f"evolvent.algos.{name}").Config()
    length = getattr(config, STAGES[name], None)
    assert (config.plan.warmup if length is None else length) <= 10


@pytest.mark.parametrize(
    ("name", "more", "trained"),
    [
        ("tgdpo", {"reward_updates": 2, "group": 8}, 1),
        ("archer", {"warmup": 2, "passes": 2, "draws": 8}, 1),
        ("poad", {"warmup": 1}, 2),
        ("etpo", {}, 3),
        ("marft", {"interval": 1, "kl_stop": 0.0, "env": "arithmetic:largest"}, 3),
    ],
)
def test_the_summary_says_in_how_many_updates_the_policy_learned(name, more, trained, model, tmp_path):
    logged = rows(name, model, tmp_path / "run", **more)
    assert sum(row.get("updates", 0) > 0 for row in logged) == trained
    assert SUMMARY["policy_updates"] == trained and SUMMARY["updates"] == 3


def test_a_stage_ends_when_half_the_tokens_are_gone(model, tmp_path):
    first, *others = rows("tgdpo", model, tmp_path / "run", reward_updates=8, updates=9, sampled=1, group=4)
    assert first["stage"] == 1.0 and not others and SUMMARY["policy_updates"] == 0  # one update was all there was
    logged = rows("tgdpo", model, tmp_path / "more", reward_updates=8, updates=9, sampled=4 * first["sampled_tokens"])
    assert logged[0]["stage"] == 1.0 and logged[-1]["stage"] == 2.0 and len(logged) < 8
