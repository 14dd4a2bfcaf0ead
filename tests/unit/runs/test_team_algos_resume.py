"""Every team learner stopped in the middle and continued ends with the numbers of a run that was not."""

import importlib

import pytest
import torch

from evolvent import envs
from evolvent.core.config import with_fields
from evolvent.core.folder import Interrupted
from evolvent.evaluate.live import Live
from evolvent.learn.checkpoint import latest
from evolvent.learn.team import critic, ppo
from evolvent.learn.team.config import Joint
from evolvent.runs.team import factored
from evolvent.runs.team import run as team
from evolvent.runs.team.factored import FactoredConfig
from run_folders import Killed, begin, stable
from toy_team import counters

torch.set_num_threads(1)
COMMON = {
    "envs": 4,
    "horizon": 5,
    "steps": 20 * 7,
    "eval_every": 2,
    "eval_episodes": 4,
    "save_every": 2,
}
JOINT = {"width": 8, "epochs": 2, "minibatches": 2, "mask_dead": True}
REPLAY = {"warmup": 0, "train_every": 5, "batch": 8, "buffer": 60}  # it wraps
CASES = {
    "mat": {"env": "dying", **JOINT},
    "pmat": {"env": "dying", **JOINT},
    "happo": {"env": "spread:n=2,limit=4", "minibatches": 2},
    "hatrpo": {"env": "spread:n=2,limit=4,discrete=true"},
    "mappo": {"env": "spread:n=2,limit=4", "optimal_baseline": "surrogate", "minibatches": 3},
    "ippo": {"env": "spread:n=2,limit=4", "shared": False, "memory": 3},
    "coma": {"env": "spread:n=2,limit=4,discrete=true", "critic_steps": 3, "target_every": 5},
    "ppo": {"env": "spread:n=1,limit=4", "minibatches": 2},
    "atla": {"env": "disrupt:[spread:n=1,limit=4],obs=adversary:0.1", "minibatches": 2, "block": 2},
    "vdn": {"env": "dying", "target_every": 7, "n_step": 3, **REPLAY},
    "qmix": {"env": "spread:n=2,limit=4,discrete=true", "target_every": 7, "memory": 3, "course": 4, **REPLAY},
    "maddpg": {"env": "spread:n=2,limit=4", "n_step": 2, **REPLAY},
    "hasac": {"env": "dying", "alpha": 0.0, **REPLAY},
    "dqn": {"env": "spread:n=1,limit=4,discrete=true", "target_every": 7, "n_step": 3, **REPLAY},
    "ddpg": {"env": "spread:n=1,limit=4", "twin": True, "smoothing": 0.2, "delay": 2, "n_step": 2, **REPLAY},
}


@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.parametrize("algo", CASES)
def test_continued_is_as_if_never_stopped(algo, how, tmp_path, monkeypatch):
    """Killed in its sixth update it goes on after the fourth; stopped in its fifth, after that: in mid-attempt."""
    module = importlib.import_module(f"evolvent.algos.{algo}")
    if CASES[algo]["env"] == "dying":  # agents that die, choices that close
        monkeypatch.setattr(envs, "load_team", lambda spec, n, **_: counters(n_envs=n))
        monkeypatch.setattr(team, "pinned", lambda folder, spec: spec)
    hidden = {"hidden": (16,)} if hasattr(module.Config(), "hidden") else {}
    config = with_fields(module.Config(), **COMMON, **hidden, **CASES[algo])
    # the last that learns in an update: a function of the system, or one that it imports where it runs
    places = [(module, name) for name in ("learn_values", "learn", "improve")]
    if issubclass(module.Config, FactoredConfig):
        places.append((factored, "improve"))
    places += (
        [(ppo, "improve_joint")]
        if issubclass(module.Config, Joint)
        else [(critic, "fit_state_critic" if algo != "ppo" else "fit_critic")]
    )
    where, last = next(place for place in places if hasattr(*place))
    whole, cut = (begin(tmp_path / name, algo, config) for name in ("whole", "cut"))
    with Live(plain=True) as live:
        want = module.run(config, whole, live)
        learn, calls = getattr(where, last), []
        at = 6 if how == "killed" else 7 if algo == "atla" else 5  # its adversary learns between

        def cut_short(*args, **named):
            calls.append(1)
            if how == "killed" and len(calls) == at:
                raise Killed
            cut.interrupt.requested = how == "stopped" and len(calls) == at
            return learn(*args, **named)

        with monkeypatch.context() as during:
            during.setattr(where, last, cut_short)
            with pytest.raises(Killed if how == "killed" else Interrupted):
                module.run(config, cut, live)
        reached = (2, 3) if algo == "atla" else (4, 5)
        assert latest(cut.path / "checkpoints").name == f"step-{reached[how != 'killed']:09d}"
        cut.close()
        torch.manual_seed(12345)  # another process would not have this one's stream either
        again = begin(tmp_path / "cut", algo, config, resume=True)
        found = module.run(config, again, live, resume=True)
    assert len(stable(whole.path)) > 7
    assert stable(again.path) == stable(whole.path)
    assert {**found, "seconds": 0} == {**want, "seconds": 0}
