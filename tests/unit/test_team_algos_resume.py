"""Every team learner stopped in the middle and continued ends with the numbers of a run that was not."""

import importlib

import pytest
import torch

from evolvent.core.config import to_json, with_fields
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live

torch.set_num_threads(1)
COMMON = {
    "envs": 4, "horizon": 5, "steps": 20 * 7, "hidden": (16,), "eval_every": 2, "eval_episodes": 4, "save_every": 2,
}  # fmt: skip
CASES = {
    "happo": {"env": "spread:n=2,limit=4", "minibatches": 2},
    "hatrpo": {"env": "spread:n=2,limit=4,discrete=true"},
    "mappo": {"env": "spread:n=2,limit=4", "optimal_baseline": "surrogate", "minibatches": 3},
    "ippo": {"env": "spread:n=2,limit=4", "shared": False},
    "coma": {"env": "spread:n=2,limit=4,discrete=true", "critic_steps": 3, "target_every": 5},
}


class Killed(BaseException):
    """Nothing after it runs."""


def stable(folder):
    times = {"t", "steps_per_s", "act_s", "step_s", "credit_s", "learn_s"}
    return [{key: value for key, value in row.items() if key not in times} for row in folder.read_metrics()]


@pytest.mark.parametrize("algo", CASES)
def test_continued_is_as_if_never_stopped(algo, tmp_path, monkeypatch):
    module = importlib.import_module(f"evolvent.algos.{algo}")
    config = with_fields(module.Config(), **COMMON, **CASES[algo])

    def make(name):
        return RunFolder.create(
            tmp_path / name, algo=algo, config=to_json(config), env=config.env, seed=config.seed, command="test"
        )

    whole, cut = make("whole"), make("cut")
    with Live(plain=True) as live:
        want = module.run(config, whole, live)
        learn, calls = module.learn_values, []

        def killed_in_the_sixth(*args):
            calls.append(1)
            if len(calls) == 6:
                raise Killed
            return learn(*args)

        with monkeypatch.context() as during:
            during.setattr(module, "learn_values", killed_in_the_sixth)
            with pytest.raises(Killed):
                module.run(config, cut, live)
        cut.close()
        torch.manual_seed(12345)  # another process would not have this one's stream either
        again = RunFolder.open(tmp_path / "cut")
        found = module.run(config, again, live, resume=True)
    assert len(stable(whole)) > 7
    assert stable(again) == stable(whole)
    assert {**found, "seconds": 0} == {**want, "seconds": 0}
