"""A critic that learns first: the policy stays what it was, then learns from a critic that is not what it was."""

from importlib import import_module

import pytest

import tiny_language
from evolvent.core.config import with_fields
from evolvent.evaluate.live import Live
from run_folders import begin

pytestmark = pytest.mark.usefixtures("one_thread")
model = tiny_language.fixture(max_position_embeddings=512)


def rows(name, model, path, **more):
    module = import_module(f"evolvent.algos.{name}")
    base = {"env": "microwave:step_limit=3", "model": model, "updates": 3, "prompts": 2, "group": 3, "lr": 0.05}
    config = with_fields(module.Config(), **base, **more, dtype="float32", eval_every=0, eval_tasks=2)
    with begin(path, name, config) as folder, Live(plain=True) as live:
        module.run(config, folder, live)
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
    seldom, often = (rows(name, model, tmp_path / str(n), warmup=3, critic_epochs=n)[-1] for n in (1, 60))
    assert often["value_loss"] < seldom["value_loss"] and "grad_norm" not in often
