"""Runs that normalise what their team sees: by whose wish, from which statistics, and what is said of it."""

import io
import json

import numpy as np
import pytest
import torch
from test_team_session import config_of, judge, train

from evolvent.algos import happo
from evolvent.core.errors import BadInput
from evolvent.core.folder import Interrupted, RunFolder
from evolvent.core.team import Frame
from evolvent.evaluate.live import Live
from evolvent.learn import checkpoint
from evolvent.learn.team import player
from evolvent.runs.team import evaluation
from evolvent.runs.team.evaluation import Waiting
from evolvent.runs.team.run import TeamRun
from run_folders import begin, stable

pytestmark = pytest.mark.usefixtures("one_thread")

WIDE = """
import numpy as np
from gymnasium.spaces import Box, Discrete

class parallel_env:
    possible_agents, agents = ["a", "b"], []
    def observation_space(self, agent): return Box(-1e6, 1e6, (3,))
    def action_space(self, agent): return Discrete(2)
    def reset(self, seed=None, options=None):
        self.random, self.t, self.agents = np.random.default_rng(seed), 0, ["a", "b"]
        return self.see(), {}
    def see(self): return {agent: self.random.uniform(-1, 1, 3) * [1, SPREAD, 5] for agent in "ab"}
    def step(self, actions):
        self.t += 1
        ends = dict.fromkeys("ab", self.t == 4)
        return self.see(), {agent: float(actions[agent]) for agent in "ab"}, ends, dict.fromkeys("ab", False), {}
    def render(self): pass
    def close(self): pass
"""


@pytest.fixture
def wide(tmp_path):
    (tmp_path / "wide.py").write_text(WIDE.replace("SPREAD", "1000"))
    return f"pettingzoo:{tmp_path}/wide.py"


def parts(path):
    newest = checkpoint.latest(path / "checkpoints")
    assert newest is not None
    return checkpoint.part_names(newest)


@pytest.mark.parametrize("algo", ["mat", "happo", "mappo", "coma"])
def test_own_environments_are_normalised_and_those_of_the_library_are_not(tmp_path, wide, algo):
    ours = config_of(algo, env="permutation:n=2", steps=24)
    for name, config, has in [
        ("own", config_of(algo, env=wide, steps=24), True),
        ("ours", ours, False),
        ("off", config_of(algo, env=wide, steps=24, normalise_obs="off"), False),
        ("on", config_of(algo, env="permutation:n=2", steps=24, normalise_obs="on"), True),
    ]:
        said = train(tmp_path / name, config)
        assert ("obs_norm" in parts(tmp_path / name)) == has, name
        assert ("differs in size by a factor of" in said) == (name == "off"), name


def test_a_policy_sees_one_size_whatever_the_environment_shows(tmp_path, wide, monkeypatch):
    seen, log = [], TeamRun.log

    def watched(self, ledger, **values):
        seen.append((self.steps.view(slice(0, self.steps.t)), self.steps.obs.clone()))
        log(self, ledger, **values)

    monkeypatch.setattr(TeamRun, "log", watched)
    train(tmp_path / "r", config_of("mappo", env=wide, steps=24 * 4, ids=True, eval_episodes=64))
    for view, raw in seen:
        assert (view.obs.std((0, 1, 2)) - 1).abs().max() < 0.4 and view.obs.abs().max() < 3
        assert torch.equal(view.state, view.obs.flatten(-2)), "there is no state: all observations in a row"
        assert raw[..., 1].abs().max() > 500, "what is kept is what was seen"


@pytest.mark.parametrize("algo", ["mat", "happo", "mappo"])
def test_a_resumed_run_has_the_same_statistics_to_the_last_bit(tmp_path, wide, algo, monkeypatch):
    config = config_of(algo, env=wide, steps=24 * 5, eval_every=2, save_every=2)
    train(tmp_path / "whole", config)
    log, calls = TeamRun.log, []

    def stopping(self, ledger, **values):
        log(self, ledger, **values)
        calls.append(1)
        self.folder.interrupt.requested = len(calls) == 3

    with monkeypatch.context() as during:
        during.setattr(TeamRun, "log", stopping)
        with pytest.raises(Interrupted):
            train(tmp_path / "cut", config)
    train(tmp_path / "cut", config, resume=True)
    assert stable(tmp_path / "whole") == stable(tmp_path / "cut")
    newest = [checkpoint.latest(tmp_path / name / "checkpoints") for name in ("whole", "cut")]
    hashes = [json.loads((path / "manifest.json").read_text())["sha256"] for path in newest if path]
    assert len(hashes) == 2 and hashes[0] == hashes[1]


def test_frozen_play_uses_the_statistics_and_changes_none(tmp_path, wide):
    config = config_of("happo", env=wide, steps=48)
    train(tmp_path / "r", config)
    before = {path: path.read_bytes() for path in (tmp_path / "r" / "checkpoints").rglob("*.*") if path.is_file()}
    result, summary = judge(tmp_path / "r"), RunFolder.open(tmp_path / "r").summary()
    assert result["greedy"] == summary["greedy"] and result["sampled"] == summary["sampled"]
    assert before == {path: path.read_bytes() for path in before}


def without_statistics(monkeypatch, path, config):
    """A run as earlier versions left it: nothing of ``normalise_obs`` in settings or checkpoint, stopped half way."""
    log = TeamRun.log

    def stopping(self, ledger, **values):
        log(self, ledger, **values)
        self.folder.interrupt.requested = self.shell.update == 2

    with monkeypatch.context() as during:
        during.setattr(TeamRun, "log", stopping)
        with pytest.raises(Interrupted):
            train(path, config)
    stored = json.loads((path / "config.json").read_text())
    del stored["config"]["plan"]["normalise_obs"], stored["config"]["plan"]["step_s"]
    (path / "config.json").write_text(json.dumps(stored))


def test_old_checkpoints_load_without_statistics(tmp_path, wide, monkeypatch):
    off, auto = (config_of("mat", env=wide, steps=24 * 4, normalise_obs=how) for how in ("off", "auto"))
    without_statistics(monkeypatch, tmp_path / "old", off)
    judged = judge(tmp_path / "old")
    train(tmp_path / "old", auto, resume=True)
    assert "obs_norm" not in parts(tmp_path / "old")
    train(tmp_path / "whole", off)
    assert stable(tmp_path / "old") == stable(tmp_path / "whole")
    assert judged["n"] == off.plan.eval_episodes


@pytest.mark.parametrize("has", ["on", "off"])
def test_weights_bring_their_way_of_seeing_with_them(tmp_path, wide, has):
    train(tmp_path / "a", config_of("mat", env=wide, steps=48, normalise_obs=has))
    init = {"init": str(tmp_path / "a"), "lr": 0.0}
    train(tmp_path / "b", config_of("mat", env=wide, steps=24, **init))
    assert ("obs_norm" in parts(tmp_path / "b")) == (has == "on")
    with pytest.raises(BadInput, match="trained otherwise"):
        train(
            tmp_path / "c", config_of("mat", env=wide, steps=24, normalise_obs={"on": "off", "off": "on"}[has], **init)
        )


def test_statistics_without_numbers_of_agents_fit_another_team(tmp_path):
    train(tmp_path / "r", config_of("mat", env="spread:n=2,limit=6", steps=48, normalise_obs="on"))
    assert judge(tmp_path / "r", env="spread:n=4,limit=6")["greedy"]["length_mean"] == 6
    train(tmp_path / "more", config_of("mat", env="spread:n=4,limit=6", steps=24, init=str(tmp_path / "r")))
    assert {"obs_norm", "state_norm"} <= parts(tmp_path / "more")


# ------------------------------------------------------------------------------------------------ long attempts
def shown(*done):
    done_B = np.array(done)
    zeros = np.zeros((len(done), 1, 1), np.float32)
    return Frame(zeros, zeros[..., 0], done_B, ~done_B & False)


@pytest.mark.parametrize(("limit", "first"), [(0, 2_000), (25, 2_000), (5_000, 5_001)])
def test_attempts_that_do_not_end_are_reported_and_seldom(limit, first):
    out = io.StringIO()
    waiting = Waiting(Live(True, stream=out), "playing", limit)
    for step in range(1, 4 * first):
        waiting.watch(shown(False, False))
        assert ("no attempt has ended" in out.getvalue()) == (step >= first)
    assert out.getvalue().count("no attempt has ended") == 2


def test_attempts_that_end_are_not_reported_but_for_how_far_they_are(monkeypatch):
    out = io.StringIO()
    waiting = Waiting(Live(True, stream=out), "playing 8 attempts")
    for step in range(3_000):
        waiting.watch(shown(step == 7))
    assert out.getvalue() == ""
    monkeypatch.setattr(evaluation, "_TELL_S", 0.0)
    waiting.watch(shown(False))
    assert "playing 8 attempts: 3,001 steps, 1 ended" in out.getvalue()


def test_an_environment_that_never_ends_says_so_before_anything_is_learned(tmp_path, monkeypatch):
    (tmp_path / "wide.py").write_text(WIDE.replace("SPREAD", "1").replace("self.t == 4", "False"))
    monkeypatch.setattr(evaluation, "LONG", 20)
    monkeypatch.setattr(player, "MAX_STEPS", 100)
    config = config_of("happo", env=f"pettingzoo:{tmp_path}/wide.py", steps=24)
    out = io.StringIO()
    with begin(tmp_path / "r", "happo", config) as folder, pytest.raises(BadInput, match="attempts do not end"):
        happo.run(config, folder, Live(True, stream=out))
    assert out.getvalue().count("no attempt has ended") == 3
