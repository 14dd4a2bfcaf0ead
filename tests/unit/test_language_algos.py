"""Every learner that compares attempts: two updates from end to end on a tiny random model, with its own settings."""

from importlib import import_module

import pytest
import torch

import tiny_language
from evolvent.core import config as configs
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.learn.objectives_of_papers import CHOICES
from evolvent.rollout.language import LanguageRun
from evolvent.rollout.language_config import Plan

NAMES = (
    "reinforce", "rloo", "dr_grpo", "gspo", "opmd", "asymre", "clip_cov", "kl_cov", "nft", "loop", "aepo", "g_ra",
    "refine", "hapo", "dapo", "evol_rl", "hbpo", "spear", "spa", "oprl", "flow_grpo",
)  # fmt: skip
SETTINGS = {
    "g_ra": {"kinds": ("process",)}, "dapo": {"draws": 2}, "evol_rl": {"embedder": "hash", "learn_share": 1.0},
    "flow_grpo": {"plan": {"answer": 8}},
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_language.write(tmp_path_factory.mktemp("tiny") / "model", max_position_embeddings=1024)


def settings(name, model, **more):
    base = {"env": "microwave", "model": model, "updates": 2, "prompts": 2, "group": 3, "lr": 0.01}
    own = base | SETTINGS.get(name, {}) | more
    plan = Plan(dtype="float32", eval_every=0, eval_tasks=2, **own.pop("plan", {}))
    return import_module(f"evolvent.algos.{name}").Config(**own, plan=plan)


def start(name, config, path, *, resume=False):
    """Run; returns the folder, and the losses that were given to the learner."""
    seen = []
    improve = LanguageRun.improve

    def noted(self, objective, *args, **kwargs):
        seen.append(objective)
        return improve(self, objective, *args, **kwargs)

    folder = RunFolder.open(path) if resume else RunFolder.create(
        path, algo=name, config=configs.to_json(config), env=config.env, seed=config.seed, command=""
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, folder, Live(plain=True) as live:
        patch.setattr(LanguageRun, "improve", noted)
        summary = import_module(f"evolvent.algos.{name}").run(config, folder, live, resume=resume)
    return folder, seen, summary


def rows(folder):
    return [row for row in folder.read_metrics() if "update" in row]


@pytest.mark.parametrize("name", NAMES)
def test_two_updates_with_the_objective_of_the_paper(name, model, tmp_path):
    folder, seen, summary = start(name, settings(name, model), tmp_path / "run")
    assert {str(getattr(loss, "own", loss)) for loss in seen} == {str(CHOICES[name].loss)}
    assert summary["algo"] == name and summary["updates"] == 2
    first, second = rows(folder)
    assert first["gap"] < 1e-4 and second.get("gap", 0.0) < 1e-4
    assert any(row.get("grad_norm", 0) > 0 for row in (first, second))
