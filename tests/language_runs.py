"""Short runs of language learners on a tiny random model, and what was given to the learner."""

from contextlib import contextmanager
from importlib import import_module

import pytest
import torch

from evolvent.evaluate.live import Live
from evolvent.runs.language.config import Plan
from evolvent.runs.language.run import LanguageRun
from run_folders import Killed, begin

SETTINGS = {
    "g_ra": {"kinds": ("process",)},
    "dapo": {"draws": 2},
    "evol_rl": {"embedder": "hash", "learn_share": 1.0},
    "flow_grpo": {"plan": {"answer": 8}},
    "gspo": {"clip_low": 0.0003, "clip_high": 0.0004},
}


def settings(name, model, **more):
    base = {"env": "microwave", "model": model, "updates": 2, "prompts": 2, "group": 3, "lr": 0.01}
    own = base | SETTINGS.get(name, {}) | more
    plan = Plan(dtype="float32", eval_every=0, eval_tasks=2, **own.pop("plan", {}))
    return import_module(f"evolvent.algos.{name}").Config(**own, plan=plan)


def start(name, config, path, *, resume=False, break_at=None):
    """Run; returns the folder, what was given to the learner as (loss, episodes, ledger), and the summary."""
    seen = []
    improve, log, module = LanguageRun.improve, LanguageRun.log, import_module(f"evolvent.algos.{name}")
    imitate = getattr(module, "imitate", None)

    def noted(self, objective, ledger, **kwargs):
        seen.append((objective, list(ledger.episodes), ledger))
        return improve(self, objective, ledger, **kwargs)

    def imitated(run, ledger, **kwargs):
        seen.append((None, list(ledger.episodes), ledger))
        return imitate(run, ledger, **kwargs)

    def broken(self, *args, **values):
        if self.update == break_at:
            raise KeyboardInterrupt
        log(self, *args, **values)

    folder = begin(path, name, config, resume=resume)
    with pytest.MonkeyPatch.context() as patch, folder, Live(plain=True) as live:
        patch.setattr(LanguageRun, "improve", noted)
        patch.setattr(LanguageRun, "log", broken)
        if imitate:
            patch.setattr(module, "imitate", imitated)
        summary = module.run(config, folder, live, resume=resume)
    return folder, seen, summary


@contextmanager
def killed_in_update(number):
    """Inside, a run is killed when its update ``number`` is done and not logged yet."""
    log = LanguageRun.log

    def killed(self, *args, **kwargs):
        if self.update == number:
            raise Killed
        log(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as during, pytest.raises(Killed):
        during.setattr(LanguageRun, "log", killed)
        yield
    torch.manual_seed(12345)  # another process would not have this one's stream either


def rows(folder):
    return [row for row in folder.read_metrics() if "update" in row]
