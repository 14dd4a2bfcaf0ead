"""Systems that learn from sequences: what their losses are, what they were told, and the page of a run."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from evolvent.algos import decision_mamba, doc, dt, madt
from evolvent.algos.madt import acting
from evolvent.core.config import with_fields
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.team import ActionSpec, Frame, TeamSpec
from evolvent.data.recorded.episodes import Attempt, Recorded
from evolvent.data.recorded.named import best_moves, named
from evolvent.evaluate.live import Live
from evolvent.learn.sequence.windows import Windows
from evolvent.learn.team.batch import View
from evolvent.learn.team.views import Views
from evolvent.models.team.action_heads import Allowed
from evolvent.runs.offline.account import account
from run_folders import Killed, begin, stable

SMALL = {"steps": 12, "log_every": 3, "batch": 4, "eval_episodes": 4, "eval_every": 2, "save_every": 2}
NETS = {"width": 8, "blocks": 1, "context": 6}
SYSTEMS = {
    "dt": (dt, {**NETS, "env": "bandit", "warmup": 4}),
    "decision_mamba": (decision_mamba, {**NETS, "env": "bandit", "states": 2, "warmup": 4}),
    "doc": (doc, {"hidden": 8}),
    "madt": (madt, {**NETS, "env": "bandit", "online": 128, "tokens": "rtgs_state_action"}),
}


def views_of(team):
    return Views(team, ids=False, device=torch.device("cpu"))


# ------------------------------------------------------------------------------------------------ windows
def course(length, agents, start, active=None):
    """Steps whose observation is their number, with a reward of 1 each."""
    obs = np.arange(start, start + length + 1.0, dtype=np.float32)[:, None, None].repeat(agents, 1)
    action = np.arange(start, start + length)[:, None].repeat(agents, 1) % 5
    return Attempt(obs, action, np.ones((length, agents), np.float32), True, None, None, active)


def test_windows_end_with_the_attempt_and_with_the_agent():
    active = np.array([[True, True], [True, True], [True, False], [True, False], [True, False]])
    team = TeamSpec(("a", "b"), 1, (ActionSpec(choices=5),) * 2)
    data = Recorded("mine", team, (course(3, 2, 0, np.ones((4, 2), bool)), course(4, 2, 100, active)))
    windows = Windows(views_of(team), data, 3)
    some = windows.sample(500, torch.Generator().manual_seed(0))
    first = some.obs_MKD[:, 0, 0]
    assert set(first.tolist()) == {0, 1, 2, 100, 101, 102, 103}
    for row in range(500):
        steps = int(some.mask_MK[row].sum())
        begun, agent = int(first[row]), int(some.agent_MK[row, 0])
        end = 3 if begun < 100 else 104 if agent == 0 else 102  # who is dead from the third step on
        assert steps == min(3, end - begun)
        seen = [begun + k for k in range(steps)]
        assert some.obs_MKD[row, :steps, 0].tolist() == seen
        assert some.next_obs_MKD[row, :steps, 0].tolist() == [one + 1 for one in seen]
        assert some.action_MK[row, :steps].tolist() == [one % 5 for one in seen]
        whole = 3 if begun < 100 else 104
        assert some.togo_MK[row, :steps].tolist() == [whole - one for one in seen]
    starts = torch.bincount(first.long() % 100 + 10 * (first >= 100).long(), minlength=14)
    assert starts[[0, 1, 2, 10, 11]].min() > 50 and 20 < starts[12] < 70  # one agent of two


def test_data_by_name_are_the_same_every_time_and_of_the_quality_asked_for():
    data = named("bandit:p=0.1,attempts=2000")
    first = np.mean([attempt.action_TA[0, 0] == 0 for attempt in data.attempts])
    assert first == pytest.approx(0.1, abs=0.02) and len(data.attempts) == 2000
    assert data.returns_E.tolist() == named("bandit:p=0.1,attempts=2000").returns_E.tolist()
    assert data.returns_E.tolist() != named("bandit:p=0.1,attempts=2000,seed=1").returns_E.tolist()
    lake = named("frozen_lake:attempts=60")
    assert lake.env == "gymnasium:FrozenLake-v1" and best_moves()[0] == 0  # away from the hole, along the wall
    assert all(attempt.terminated or len(attempt) == 100 for attempt in lake.attempts)
    assert named("data/hopper") is None
    with pytest.raises(BadInput, match="known: p, attempts, seed"):
        named("bandit:q=0.1")


# ------------------------------------------------------------------------------------------------ losses
def test_self_evolution_weighs_the_action_less_and_its_target_has_no_gradient():
    team = TeamSpec(("a",), 2, (ActionSpec(dims=1),))
    attempt = Attempt(np.ones((5, 1, 2), np.float32), np.full((4, 1, 1), 0.5, np.float32), np.ones((4, 1)), True)
    views = views_of(team)
    windows = Windows(views, Recorded("mine", team, (attempt,)), 4)
    torch.manual_seed(0)
    net, ahead = decision_mamba.make_nets(decision_mamba.Config(width=8, blocks=1, states=2, dropout=0.0), views)
    window = windows.sample(8, torch.Generator().manual_seed(0))
    with torch.no_grad():
        ahead.weight.zero_()

    def gradient(weight):
        net.zero_grad()
        decision_mamba.loss_of(net, ahead, window, weight).backward()
        return net.head.weight.grad.clone()

    # y - a_hat = (1 - w) (a - a_hat); were the target not detached it would be (1 - w) squared
    assert torch.allclose(gradient(0.6), 0.4 * gradient(0.0), rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("other", [9.6, -4.0])
def test_what_a_critic_of_madt_learns_offline(other):
    """Constant returns of 9.6 (the released critic, whose clipped error has no gradient, is at .25 after 4,000 steps),
    and returns that depend on what is seen.
    """
    team = TeamSpec(("a", "b"), 3, (ActionSpec(choices=3),) * 2)
    random = np.random.default_rng(0)

    def one():
        obs, action = random.normal(size=(2, 2, 3)).astype(np.float32), random.integers(3, size=(1, 2))
        obs[:, 0, 0] = good = random.choice([-1.0, 1.0])
        return Attempt(obs, action, np.full((1, 2), 9.6 if good > 0 else other, np.float32), True)

    class Offline:
        views, data = views_of(team), Recorded("mine", team, tuple(one() for _ in range(50)))

    class Env:
        n_envs = 2

    Env.team = team
    torch.manual_seed(0)
    learner = madt.Learner(madt.Config(width=8, blocks=1, batch=32), Offline, Env)
    generator = torch.Generator().manual_seed(0)
    for _ in range(150):
        learner.imitate(generator)
    seen = learner.windows.state[learner.windows.seen]
    said = learner.norm.denormalise(learner.critic(seen))
    assert (said - torch.where(seen[:, 0] > 0, 9.6, other)).abs().mean() < 0.05 * 9.6


@pytest.mark.parametrize("tokens", ["state_only", "state_action", "rtgs_state_action"])
def test_madt_judges_what_it_did_as_it_did_it(tokens):
    """The ratio of PPO is 1 before the first step, whatever the context, after restarts and beyond the window, too."""
    team = TeamSpec(("a", "b"), 3, (ActionSpec(choices=3),) * 2)
    policy = madt.make_nets(madt.Config(tokens=tokens, width=8, blocks=1), views_of(team))[0]
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    player = acting.Recent(policy, 3)
    generator = torch.Generator().manual_seed(0)
    logps, reads, actions, past = [], [], [], []
    for t in range(9):
        view = madt_view(torch.randn(4, 2, 3, generator=generator))
        action, logp, read = player.act(view, False, generator)
        past.append((view.obs[0, 0], action[0, 0]))
        logps.append(logp)
        reads.append(read)
        actions.append(action)
        player.follow(madt_frame(done=t == 4))
        if t == 4:
            past = []
    read = acting.Read(*(torch.stack(column) for column in zip(*reads, strict=True)))
    again = policy.action.logp(policy.now(read), None, torch.stack(actions), Allowed())
    assert torch.allclose(again, torch.stack(logps), atol=1e-6)
    # what was read last: the newest three steps since the restart, and the action before each
    assert torch.equal(reads[-1].obs[0, 0], torch.stack([obs for obs, _ in past[-3:]]))
    assert reads[-1].before[0, 0].tolist() == [int(action) for _, action in past[-4:-1]]
    assert reads[5].before[0, 0, 0] == 3 and reads[5].count[0, 0] == 1  # nothing came before


def madt_view(obs):
    return View(obs, obs.flatten(1))


def madt_frame(done):
    ends = np.full(4, done)
    return Frame(np.zeros((4, 2, 3), np.float32), np.ones((4, 2), np.float32), ends, ~ends & False)


def test_doc_refuses_what_never_comes_again_and_numbers():
    random = np.random.default_rng(0)
    team = TeamSpec(("a",), 3, (ActionSpec(choices=3),))
    one = Attempt(random.normal(size=(9, 1, 3)).astype(np.float32), np.zeros((8, 1), int), np.ones((8, 1)), True)
    config, views = doc.Config(), views_of(team)
    with pytest.raises(BadInput, match="unlike any other"):
        doc.Learner(config, doc.make_nets(config, views), Windows(views, Recorded("mine", team, (one,)), 4))
    with pytest.raises(BadInput, match="numbers"):
        doc.make_nets(config, views_of(TeamSpec(("a",), 3, (ActionSpec(dims=1),))))


# ------------------------------------------------------------------------------------------------ runs
def config_of(name):
    system, given = SYSTEMS[name]
    return system, with_fields(system.Config(), **{"data": "bandit:p=0.5,attempts=100", **SMALL, **given})


def run(path, name, config, *, resume=False, killed_after=None):
    """The summary and the page of a run, which may be killed after so many updates."""
    with begin(path, name, config, resume=resume) as folder, Live(plain=True) as live:
        if killed_after is not None:
            said = folder.log

            def log(step, **values):
                if values.get("update") == killed_after + 1:
                    raise Killed
                said(step, **values)

            folder.log = log
        summary = SYSTEMS[name][0].run(config, folder, live, resume=resume)
        folder.write_summary(summary)
        return summary, json.dumps([dataclasses.asdict(block) for block in account(folder).blocks])


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_killed_run_ends_with_the_numbers_of_a_whole_one(name, tmp_path):
    system, config = config_of(name)
    whole, page = run(tmp_path / "whole", name, config)
    with pytest.raises(Killed):
        run(tmp_path / "cut", name, config, killed_after=3)
    again, _ = run(tmp_path / "cut", name, config, resume=True)
    assert stable(tmp_path / "cut") == stable(tmp_path / "whole")
    assert again["score"] == whole["score"] and again.get("asked") == whole.get("asked")
    assert ("What was got, by what was asked for" in page) == (name in ("dt", "decision_mamba"))
    assert ("promised" in page) == (name == "doc")
    if name == "madt":
        assert whole["online_steps"] == 128 and whole["updates"] == 4 + 2
    elif name != "doc":
        assert [row["asked"] for row in whole["asked"]] == [1.0, 0.75, 0.5, 0.25]
    with Live(plain=True) as live:
        judged = system.evaluate(RunFolder.open(tmp_path / "whole"), live, 4)
    assert judged["greedy"]["value"] == whole["score"]["value"]


def test_madt_goes_on_from_another_run_and_from_scratch(tmp_path):
    _, config = config_of("madt")
    run(tmp_path / "first", "madt", with_fields(config, online=0))
    for name, given in (("on", {"init": str(tmp_path / "first")}), ("scratch", {})):
        config_ = with_fields(config, pretrain=False, **given)
        summary, _ = run(tmp_path / name, "madt", config_)
        assert summary["online_steps"] == 128 and summary["updates"] == 2
    losses = [stable(tmp_path / name)[1]["entropy"] for name in ("on", "scratch")]
    assert losses[0] != losses[1]


@pytest.mark.parametrize("loss", ["minmax", "released"])
def test_both_losses_of_doc_promise_something_that_is_then_played(loss, tmp_path):
    _, config = config_of("doc")
    summary, _ = run(tmp_path / "run", "doc", with_fields(config, loss=loss, steps=30, log_every=15))
    (row,) = summary["asked"]
    assert row["as"] == "promised" and row["n"] == 4
