"""Learning from recorded attempts: golden numbers, cuts that are no ends, what is refused, the same after a kill."""

import copy
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from evolvent import envs
from evolvent.algos import bc, iql, td3_bc
from evolvent.core.config import with_fields
from evolvent.core.errors import BadInput
from evolvent.core.seeding import seed_tree
from evolvent.core.team import ActionSpec, TeamSpec
from evolvent.data.recorded.episodes import Attempt, Recorded
from evolvent.data.recorded.opening import team_of
from evolvent.data.recorded.recording import record
from evolvent.evaluate.live import Live
from evolvent.learn.team.recorded import replay_of, take_in
from evolvent.learn.team.views import Views
from evolvent.runs.offline.account import account
from evolvent.runs.offline.behaviour import a_third
from evolvent.runs.offline.run import open_offline
from run_folders import Killed, begin, stable

ENV = "gymnasium:Pendulum-v1,max_episode_steps=20"
TEAM = TeamSpec(("a",), 1, (ActionSpec(dims=1),))
SYSTEMS = {"bc": bc, "iql": iql, "td3_bc": td3_bc}


# ------------------------------------------------------------------------------------------------ golden
def test_expectile_loss():
    better = torch.tensor([-1.0, 2.0])
    assert iql.expectile_loss(better, 0.7).item() == pytest.approx((0.3 * 1 + 0.7 * 4) / 2)
    assert iql.expectile_loss(better, 0.5).item() == pytest.approx(1.25)  # half the squared error
    numbers = torch.arange(11.0)
    least = min(torch.linspace(0, 10, 1001), key=lambda v: iql.expectile_loss(numbers - v, 0.9).item())
    assert least.item() == pytest.approx(7.75, abs=0.01)  # 0.1 (36 + ... below) = 0.9 (above): solved by hand below
    below, above = numbers[numbers < least], numbers[numbers > least]
    assert 0.1 * (least - below).sum() == pytest.approx(0.9 * (above - least).sum().item(), rel=1e-2)


def test_the_weight_of_the_critic_is_alpha_over_its_mean_size():
    q = torch.tensor([2.0, -4.0], requires_grad=True)
    done, action = torch.tensor([[0.5], [0.0]]), torch.tensor([[0.0], [0.0]])
    loss = td3_bc.policy_loss(q, done, action, 2.5)
    assert loss.item() == pytest.approx(-2.5 / 3.0 * -1.0 + 0.125)
    loss.backward()
    assert q.grad.tolist() == pytest.approx([-2.5 / 6.0, -2.5 / 6.0])  # the weight itself has no gradient


def test_imitation_counts_only_who_was_alive():
    team = TeamSpec(("a", "b"), 1, (ActionSpec(choices=2),) * 2)
    active = np.array([[True, False], [True, True]])
    one = Attempt(
        np.zeros((2, 2, 1), np.float32), np.array([[1, 0]]), np.zeros((1, 2), np.float32), True, None, None, active
    )
    views = Views(team, ids=False, device=torch.device("cpu"))
    drawn = replay_of(views, Recorded("mine", team, (one,))).sample(1, torch.Generator())
    actors = bc.make_actors(bc.Config(hidden=(4,)), views)
    logp = actors.logprobs(drawn.view.obs, drawn.action).logp[0, 0, 0]
    assert bc.imitation_loss(actors, drawn).item() == pytest.approx(-logp.item())


# ------------------------------------------------------------------------------------------------ cuts, learning
def drawn_from(*attempts, gamma=0.8):
    views = Views(TEAM, ids=False, device=torch.device("cpu"))
    return views, replay_of(views, Recorded("mine", TEAM, attempts), gamma=gamma)


def chain(terminated):
    """Five steps of a chain that pays 1 everywhere and shows nothing."""
    return Attempt(
        np.ones((6, 1, 1), np.float32), np.zeros((5, 1, 1), np.float32), np.ones((5, 1), np.float32), terminated
    )


@pytest.mark.parametrize("system", ["iql", "td3_bc"])
@pytest.mark.parametrize(("terminated", "value"), [(False, 5.0), (True, 25 / 9)])
def test_a_chain_that_was_cut_at_five_steps_goes_on(system, terminated, value):
    """Where one step in five ends, V = 1 + 0.8 (4/5) V; where it is only cut off V = 1 / (1 - 0.8)."""
    torch.manual_seed(0)
    views, replay = drawn_from(chain(terminated))
    module, generator = SYSTEMS[system], torch.Generator()
    config = with_fields(module.Config(), env="mine", hidden=(16,), gamma=0.8, lr=1e-2, tau=0.3)
    nets = module.make_networks(config, views)
    if system == "iql":
        adams, config = nets.adams(config.lr), with_fields(config, expectile=0.5)
        for _ in range(150):
            seen = iql.improve(config, nets, adams, replay.sample(64, generator))
    else:
        old = copy.deepcopy(nets)
        adams = td3_bc.make_adams(nets, config.lr)
        for step in range(150):
            seen = td3_bc.improve(
                config, nets, old, adams, replay.sample(64, generator), generator, policy=step % 2 == 0
            )
    assert seen["value"] == pytest.approx(value, rel=0.1)


def one_step(best, power):
    """Attempts of one step with uniform actions, of which ``best`` earns most."""
    action = np.random.default_rng(0).uniform(-1, 1, (500, 1, 1, 1)).astype(np.float32)
    obs = np.ones((2, 1, 1), np.float32)
    return [Attempt(obs, one, -10 * np.abs(one[:, :, 0] - np.float32(best)) ** power, True) for one in action]


SEE = torch.ones(1, 1, 1)


def test_imitation_is_as_good_as_what_it_is_shown():
    torch.manual_seed(0)
    attempts, generator = one_step(0.6, 2), torch.Generator()
    views, everything = drawn_from(*attempts)
    best = replay_of(views, Recorded("mine", TEAM, tuple(attempts)).best(0.1))
    for replay, expected in ((everything, 0.0), (best, 0.6)):
        actors = bc.make_actors(bc.Config(hidden=(32,)), views)
        adam = torch.optim.Adam(actors.parameters(), lr=3e-3)
        for _ in range(300):
            bc.improve(actors, adam, replay.sample(64, generator))
        assert actors.act(SEE, greedy=True)[0].item() == pytest.approx(expected, abs=0.12)


def test_iql_finds_the_better_action_in_random_data():
    torch.manual_seed(0)
    views, replay = drawn_from(*one_step(0.6, 2))
    config, generator = iql.Config(hidden=(32,), lr=3e-3), torch.Generator()
    nets = iql.make_networks(config, views)
    adams = nets.adams(config.lr)
    for _ in range(400):
        iql.improve(config, nets, adams, replay.sample(64, generator))
    assert nets.actors.act(SEE, greedy=True)[0].item() == pytest.approx(0.6, abs=0.2)


def test_td3_bc_finds_the_better_action_in_random_data():
    torch.manual_seed(0)
    views, replay = drawn_from(*one_step(0.4, 1))
    config, generator = td3_bc.Config(hidden=(32,), lr=1e-3), torch.Generator()
    nets = td3_bc.make_networks(config, views)
    old, adams = copy.deepcopy(nets), td3_bc.make_adams(nets, config.lr)
    for step in range(300):
        td3_bc.improve(config, nets, old, adams, replay.sample(64, generator), generator, policy=step % 2 == 0)
    assert nets.act(SEE).item() == pytest.approx(0.4, abs=0.15)


def test_observations_are_shown_in_units_of_the_data():
    rng = np.random.default_rng(0)
    obs = (100 + 5 * rng.normal(size=(200, 1, 1))).astype(np.float32)
    views = Views(TEAM, ids=False, device=torch.device("cpu"))
    views.normalise()
    one = Attempt(obs, np.zeros((199, 1, 1), np.float32), np.zeros((199, 1), np.float32), True)
    held = Recorded("mine", TEAM, (one,))
    take_in(views, held)
    seen = replay_of(views, held).sample(2000, torch.Generator()).view.obs
    assert seen.mean().item() == pytest.approx(0, abs=0.1) and seen.std().item() == pytest.approx(1, abs=0.1)


# ------------------------------------------------------------------------------------------------ runs
@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    rng, team = np.random.default_rng(0), team_of(ENV)
    env = envs.load_team(ENV, 4)
    played = record(env, lambda frame: rng.uniform(-1, 1, (4, 1, 1)).astype(np.float32), steps=200, seed=7)
    scale = {"random": -150.0, "expert": -50.0}
    data = Recorded(ENV, team, played, "random actions", (7, seed_tree(3, "eval")), scale)
    return data.save(tmp_path_factory.mktemp("data") / "pendulum")


def settings(module, held, **more):
    config = with_fields(module.Config(), data=str(held), env=ENV, steps=40, log_every=10, hidden=(8,), batch=16)
    return with_fields(config, eval_every=2, eval_episodes=2, save_every=1, **more)


def run(path, module, config, *, resume=False, killed_after=0):
    with begin(path, module.__name__.rpartition(".")[2], config, resume=resume) as folder, Live(plain=True) as live:
        if killed_after:
            said = folder.log

            def log(step, **values):
                if values.get("update") == killed_after:
                    raise Killed
                said(step, **values)

            folder.log = log
        summary = module.run(config, folder, live, resume=resume)
        folder.write_summary(summary)
        return summary, account(folder)


@pytest.mark.parametrize("system", ["bc", "iql", "td3_bc"])
def test_a_killed_run_ends_with_the_numbers_of_a_whole_one(tmp_path, pendulum, system):
    module = SYSTEMS[system]
    config = settings(module, pendulum)
    whole, page = run(tmp_path / "whole", module, config)
    with pytest.raises(Killed):
        run(tmp_path / "killed", module, config, killed_after=3)
    again, _ = run(tmp_path / "killed", module, config, resume=True)
    assert stable(tmp_path / "killed") == stable(tmp_path / "whole")
    assert again["score"] == whole["score"]
    assert whole["normalised"] == pytest.approx(whole["score"]["value"] + 150.0)
    titles = json.dumps([dataclasses.asdict(block) for block in page.blocks])
    assert (
        "data, mean attempt" in titles and "on the scale of the data" in titles and "Returns of all attempts" in titles
    )
    with Live(plain=True) as live:
        from evolvent.core.folder import RunFolder

        judged = module.evaluate(RunFolder.open(tmp_path / "whole"), live, 2)
    assert judged["greedy"]["value"] == pytest.approx(whole["score"]["value"])


def refuse(tmp_path, said, config):
    with begin(tmp_path / "refused", "bc", config) as folder, Live(plain=True) as live:
        with pytest.raises(BadInput, match=said), open_offline(config, folder, live):
            pass
        assert not folder.read_metrics()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"data": ""}, "nothing to learn from"),
        ({"env": "gymnasium:Pendulum-v1"}, "of another environment"),
        ({"seed": 3}, "would repeat the data"),
        ({"steps": 0}, "out of range"),
        ({"data": "nowhere"}, "no recorded data"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_learned(tmp_path, pendulum, changed, said):
    refuse(tmp_path, said, settings(bc, pendulum, **changed))


def test_systems_say_which_actions_they_take(pendulum):
    choices = Views(TeamSpec(("a",), 1, (ActionSpec(choices=2),)), ids=False, device=torch.device("cpu"))
    with pytest.raises(BadInput, match="use bc, or iql for choices"):
        td3_bc.make_networks(td3_bc.Config(), choices)
    assert iql.make_networks(iql.Config(hidden=(4,)), choices).critics.choices == 2
    two = TeamSpec(("a", "b"), 1, (ActionSpec(dims=1),) * 2)
    with pytest.raises(BadInput, match="use bc"):
        iql.make_networks(iql.Config(), Views(two, ids=False, device=torch.device("cpu")))


def test_data_that_changed_are_not_gone_on_with(tmp_path, pendulum):
    from evolvent.data.recorded.opening import open_recorded

    copied = open_recorded(pendulum).save(tmp_path / "data")
    config = settings(bc, copied)
    with pytest.raises(Killed):
        run(tmp_path / "run", bc, config, killed_after=2)
    open_recorded(copied).best(0.5).save(copied)
    with pytest.raises(BadInput, match="have changed since the run began"):
        run(tmp_path / "run", bc, config, resume=True)
    assert Path(copied, "recorded.json").exists()


def test_a_third_of_the_way():
    rows = [{"update": i + 1, "return": float(i)} for i in range(31)]  # means of five: 2, 3, … 28
    assert a_third([{"phase": "eval"}, *rows], random=-3.0) == 11  # -3 + 31 / 3 = 7.3; 8 is the mean of 6 to 10
    with pytest.raises(BadInput, match="learned nothing"):
        a_third(rows, random=40.0)
    with pytest.raises(BadInput, match="no attempt ended"):
        a_third([{"update": 1, "return": None}], random=0.0)
