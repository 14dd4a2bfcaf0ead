"""Systems of one agent: their targets by hand, what they refuse, and that they learn without a run folder alike."""

import importlib

import numpy as np
import pytest
import torch

from evolvent import envs
from evolvent.algos import ddpg, dqn, ppo
from evolvent.core.config import with_fields
from evolvent.core.errors import BadInput
from evolvent.core.seeding import seed_tree
from evolvent.evaluate.live import Live
from evolvent.learn.team.batch import View
from evolvent.learn.team.replay import Transitions
from evolvent.learn.team.targets import epsilon_at, epsilon_greedy
from evolvent.learn.team.views import Views
from run_folders import begin

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = {"steps": 40, "horizon": 10, "envs": 2, "hidden": (8,), "eval_every": 0, "eval_episodes": 2}
FEW = {"warmup": 6, "batch": 4}
CASES = {
    "ppo": {"env": "gymnasium:CartPole-v1", "minibatches": 2, "epochs": 1},
    "dqn": {"env": "gymnasium:CartPole-v1", "train_every": 2, "target_every": 3, "n_step": 2, "double": True, **FEW},
    "ddpg": {"env": "gymnasium:Pendulum-v1,max_episode_steps=9", "twin": True, "smoothing": 0.2, "delay": 2, **FEW},
}


def config_of(algo, **fields):
    return with_fields(importlib.import_module(f"evolvent.algos.{algo}").Config(), **{**TINY, **CASES[algo], **fields})


def table(*rows):
    """A network that says these numbers, whatever it sees: the row is the first number seen."""
    held = torch.tensor(rows)
    return lambda obs: held[obs[..., 0].long()]


def drawn(**changes):
    """Three transitions of one agent: one goes on, one terminated, one went on for two steps."""
    seen = View(torch.tensor([[[0.0]], [[1.0]], [[2.0]]]), torch.zeros(3, 1))
    reward, discount = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0.9, 0.0, 0.81])
    return Transitions(seen, torch.zeros(3, 1, dtype=torch.int64), reward, discount, seen)._replace(**changes)


def test_dqn_targets():
    q, target_q = table([0.0, 9.0], [0.0, 9.0], [5.0, 1.0]), table([10.0, 20.0], [10.0, 20.0], [30.0, 40.0])
    torch.testing.assert_close(dqn.targets(q, target_q, drawn(), double=False).squeeze(1), torch.tensor([19, 2, 35.4]))
    double = dqn.targets(q, target_q, drawn(), double=True).squeeze(1)
    torch.testing.assert_close(double, torch.tensor([19, 2, 27.3]))  # the network would take 30 in the last
    open_ = torch.tensor([[[True, False]]]).expand(3, 1, 2)
    after = View(drawn().view.obs, torch.zeros(3, 1), open_)
    masked = dqn.targets(q, target_q, drawn(after=after), double=False).squeeze(1)
    torch.testing.assert_close(masked, torch.tensor([10, 2, 27.3]))


def test_ddpg_and_td3_targets():
    """The policy does tanh(0.5) everywhere; the critics say their number times the action."""
    own = float(np.tanh(0.5))
    first, second = (lambda seen, c=c: c * seen[..., 1] for c in (10.0, 4.0))
    old = ddpg.Networks(lambda obs: torch.full_like(obs, 0.5), [first])
    generator = torch.Generator().manual_seed(0)
    plain = ddpg.targets(ddpg.Config(), old, drawn(), generator).squeeze(1)
    torch.testing.assert_close(plain, torch.tensor([1 + 9 * own, 2, 3 + 8.1 * own]))
    twin = ddpg.targets(ddpg.Config(), old._replace(critics=[first, second]), drawn(), generator).squeeze(1)
    torch.testing.assert_close(twin, torch.tensor([1 + 3.6 * own, 2, 3 + 3.24 * own]))
    far = ddpg.targets(ddpg.Config(smoothing=50.0), old, drawn(), generator).squeeze(1)  # noise of ±0.5, clipped at 1
    ends = [1 + 9 * (own - 0.5), 1 + 9 * min(own + 0.5, 1.0)]
    assert far[0].item() in (pytest.approx(ends[0], rel=1e-5), pytest.approx(ends[1], rel=1e-5))
    assert far[1].item() == 2


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0])
def test_epsilon_greedy_draws_what_it_says(epsilon):
    q = torch.tensor([[[1.0, 3.0, 2.0, 9.0]]]).expand(40_000, 1, 4)
    open_ = torch.tensor([[[True, True, True, False]]]).expand(40_000, 1, 4)
    action, logp = epsilon_greedy(q, open_, epsilon, torch.Generator().manual_seed(0))
    share = torch.bincount(action.flatten(), minlength=4) / len(action)
    want = torch.tensor([epsilon / 3, 1 - 2 * epsilon / 3, epsilon / 3, 0])
    torch.testing.assert_close(share, want, atol=0.01, rtol=0)
    torch.testing.assert_close(logp.exp().flatten(), want[action.flatten()])


def test_epsilon_falls_and_stays():
    assert [epsilon_at(step, 500, 0.1) for step in (0, 250, 500, 900)] == pytest.approx([1, 0.55, 0.1, 0.1])


def test_ddpg_says_how_likely_its_noise_was():
    obs, generator = torch.zeros(5, 1, 2), torch.Generator().manual_seed(0)
    action, logp = ddpg.explore(lambda obs: obs, obs, 0.1, generator)
    want = torch.distributions.Normal(torch.zeros(5, 1, 2), 0.1).log_prob(action)
    torch.testing.assert_close(logp, want, rtol=1e-4, atol=1e-4)
    action, logp = ddpg.explore(lambda obs: obs, obs, None, generator)
    assert action.abs().max() <= 1 and (logp == -np.log(2)).all()


def test_the_policy_climbs_its_critic_where_it_is_time():
    torch.manual_seed(0)
    config, team = config_of("ddpg"), envs.load_team("gymnasium:Pendulum-v1", 1).team
    nets, old = (ddpg.make_networks(config, Views(team, ids=False, device=torch.device("cpu"))) for _ in range(2))
    adams = [torch.optim.Adam(net.parameters(), lr=lr) for net, lr in zip(nets, (1e-2, 0.0), strict=True)]
    seen = View(torch.randn(16, 1, 3), torch.zeros(16, 3))
    rows = Transitions(seen, torch.rand(16, 1, 1), torch.randn(16, 1), torch.full((16,), 0.9), seen)

    def value():
        with torch.no_grad():
            return nets.values(seen.obs, nets.act(seen.obs))[0].mean().item()

    before, its = value(), old.actor.net[-1].weight.clone()
    ddpg.improve(config, nets, old, adams, rows, torch.Generator(), policy=False)
    assert value() == before and torch.equal(old.actor.net[-1].weight, its)
    ddpg.improve(config, nets, old, adams, rows, torch.Generator(), policy=True)
    assert value() > before + 1e-4
    assert not torch.equal(old.actor.net[-1].weight, its)


@pytest.mark.parametrize("algo", CASES)
def test_without_a_folder_it_learns_the_same_as_a_run_and_a_run_gives_its_policy(algo, tmp_path):
    module, config = importlib.import_module(f"evolvent.algos.{algo}"), config_of(algo, seed=3)
    with begin(tmp_path, algo, config) as folder, Live(plain=True) as live:
        module.run(config, folder, live)
    torch.manual_seed(5)
    stream = torch.get_rng_state()
    env, rows = envs.load_team(config.env, 2), []
    trained = module.train(config, env, seed=3, watch=lambda _, row: rows.append(row))
    played, frame = module.policy(folder), env.reset(seed_tree(1, "x"))
    assert torch.equal(torch.get_rng_state(), stream)
    for greedy in (True, False):
        a, b = (one.act(frame, greedy=greedy, generator=torch.Generator().manual_seed(1)) for one in (trained, played))
        np.testing.assert_array_equal(a, b)
    logged = [row for row in folder.read_metrics() if "update" in row]
    assert [row["return"] for row in logged] == [row["return"] for row in rows]
    assert len(rows) == 2 and "value_loss" in rows[-1]


@pytest.mark.parametrize(("setting", "flag"), [({"minibatches": 41}, "--minibatches"), ({"gamma": 1.5}, "--gamma")])
def test_settings_are_checked_without_a_folder_too(setting, flag):
    with pytest.raises(BadInput, match=flag):
        ppo.train(config_of("ppo", horizon=20, **setting), envs.load_team("gymnasium:CartPole-v1", 2), seed=0)


@pytest.mark.parametrize(
    ("algo", "env", "message"),
    [
        ("ppo", "spread:n=2", "several agents(?s:.*)use ippo"),
        ("dqn", "gymnasium:Pendulum-v1", "continuous actions(?s:.*)use ddpg or ppo"),
        ("ddpg", "gymnasium:CartPole-v1", "discrete actions(?s:.*)use dqn or ppo"),
    ],
)
def test_others_are_named_for_what_it_does_not_take(algo, env, message):
    config = config_of(algo)
    with pytest.raises(BadInput, match=message):
        importlib.import_module(f"evolvent.algos.{algo}").train(config, envs.load_team(env, 2), seed=0)
