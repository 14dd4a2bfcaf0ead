"""Learners of teams from a buffer: mixtures that rise, targets by hand, and gradients that go to the right network."""

import copy
import importlib
import math

import pytest
import torch
from torch import nn

from evolvent import envs
from evolvent.algos import hasac, maddpg
from evolvent.core.config import with_fields
from evolvent.core.errors import BadInput
from evolvent.core.team import ActionSpec, TeamSpec
from evolvent.learn.team.batch import View
from evolvent.learn.team.replay import Transitions
from evolvent.learn.team.views import Views
from evolvent.models.team.action_heads import ActionHead
from evolvent.models.team.mixers import Monotone, Sum
from evolvent.models.team.pathwise import coded, squashed, straight_through, uniform
from evolvent.runs.team.factored import Networks, targets

pytestmark = pytest.mark.usefixtures("one_thread")


def views_of(spec, ids=True):
    return Views(envs.load_team(spec, 1).team, ids=ids, device=torch.device("cpu"))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


# ------------------------------------------------------------------------------------------------ mixtures
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_the_mixture_never_falls_when_an_agent_is_worth_more(scale):
    """1,000 random states, with weights that are no longer those it starts with."""
    torch.manual_seed(0)
    mixer = Monotone(5, 4)
    for weight in mixer.parameters():
        nn.init.normal_(weight)
    q, state = scale * torch.randn(1000, 4), scale * torch.randn(1000, 5)
    (slope,) = torch.autograd.grad(mixer(q.requires_grad_(), state).sum(), q)
    assert (slope >= 0).all() and (slope > 0).float().mean() > 0.5
    (by_state,) = torch.autograd.grad(mixer.net(state).sum(), [mixer.net.net[-1].weight])
    assert by_state.abs().sum() > 0


def test_the_mixture_by_hand():
    mixer = Monotone(1, 2, width=1)
    mixer.net.forward = lambda state: torch.tensor([[-2.0, 3.0, -5.0, -0.5, 7.0]])  # W1, b1, w2, b2
    got = mixer(torch.tensor([[1.0, 0.5], [4.0, 1.0]]), torch.zeros(2, 1))
    torch.testing.assert_close(got, torch.tensor([0.5 * math.expm1(2 * 1 + 3 * 0.5 - 5), 0.5 * (8 + 3 - 5)]) + 7)


def table(rows):
    """Values by what is seen first."""
    held = torch.tensor(rows)

    class Table:
        seen = staticmethod(lambda obs, memory=None, begins=None: obs)
        __call__ = staticmethod(lambda obs: held[obs[..., 0].long()])

    return Table()


def test_targets_of_factored_values():
    """The networks choose, the copies say what that is worth; team reward is the mean; who is dead counts 0."""
    seen = View(
        torch.tensor([[[0.0], [1.0]]] * 3), torch.zeros(3, 1), None, torch.tensor([[True, True]] * 2 + [[True, False]])
    )
    drawn = Transitions(seen, torch.zeros(3, 2), torch.tensor([[1.0, 3.0]] * 3), torch.tensor([0.5, 0.0, 0.5]), seen)
    nets, old = (Networks(table(rows), Sum()) for rows in ([[0.0, 9.0], [5.0, 1.0]], [[10.0, 20.0], [30.0, 40.0]]))
    torch.testing.assert_close(targets(nets, old, drawn), torch.tensor([2 + (20 + 30) / 2, 2, 2 + 20 / 2]))


# ------------------------------------------------------------------------------------------------ actions
def test_choices_are_one_hot_and_their_gradients_are_of_the_softmax():
    logits = torch.tensor([[0.0, 1.0, -1e10]]).expand(20_000, 3).clone().requires_grad_()
    logp = logits.log_softmax(-1)
    drawn = straight_through(logp, seeded())
    assert set(drawn.detach().round(decimals=4).unique().tolist()) <= {0.0, 1.0}
    torch.testing.assert_close(drawn.detach().mean(0), logp[0].detach().exp(), atol=0.02, rtol=0)
    drawn[:, 1].sum().backward()
    assert (logits.grad[:, 1] >= 0).all() and logits.grad[:, 1].sum() > 0 and (logits.grad[:, 2] == 0).all()


def test_squashed_numbers_have_the_density_they_say():
    out = torch.tensor([0.3, -1.0, -0.5, 0.2]).expand(50, 4)
    action, logp = squashed(out, None, seeded())
    normal = torch.distributions.Normal(out[:, :2], out[:, 2:].exp())
    want = torch.distributions.TransformedDistribution(normal, torch.distributions.TanhTransform(cache_size=1))
    torch.testing.assert_close(logp, want.log_prob(action).sum(-1), atol=1e-2, rtol=1e-3)
    one, logp_one = squashed(out, torch.tensor([True, False]), seeded())
    assert (one[:, 1] == 0).all() and torch.equal(one[:, 0], action[:, 0])
    torch.testing.assert_close(
        logp_one, want.base_dist.log_prob(action.atanh())[:, 0] - (1 - action[:, 0] ** 2).log(), atol=1e-2, rtol=1e-3
    )


def test_random_actions_are_available_and_say_how_likely_they_were():
    head = ActionHead(TeamSpec(("a", "b"), 1, (ActionSpec(choices=3), ActionSpec(choices=2))))
    open_ = torch.tensor([[[True, False, True], [False, True, True]]]).expand(400, 2, 3)
    action, logp = uniform(head, torch.zeros(400, 2, 1), open_, seeded())
    assert set(action[:, 0].tolist()) == {0, 2} and set(action[:, 1].tolist()) == {1}  # b has two choices
    torch.testing.assert_close(logp[..., 0].exp(), torch.tensor([[0.5, 1.0]]).expand(400, 2))
    head = ActionHead(TeamSpec(("a", "b"), 1, (ActionSpec(dims=2), ActionSpec(dims=1))))
    action, logp = uniform(head, torch.zeros(400, 2, 1), None, seeded())
    assert (action[:, 1, 1] == 0).all() and action.abs().max() <= 1 and (action[:, 0] != 0).all()
    torch.testing.assert_close(logp.sum(-1).exp()[0], torch.tensor([0.25, 0.5]))


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_maddpg_explores_with_what_is_available(share):
    team = TeamSpec(("a", "b"), 1, (ActionSpec(choices=4),) * 2)
    nets = maddpg.make_networks(maddpg.Config(hidden=(4,)), Views(team, ids=True, device=torch.device("cpu")))
    open_ = torch.tensor([[[True, False, True, True], [True, True, False, False]]]).expand(3000, 2, 4)
    view = View(torch.zeros(3000, 2, 1), torch.zeros(3000, 2), open_)
    action, logp = maddpg.explore(nets.actors, view, share, seeded())
    assert open_.gather(-1, action.unsqueeze(-1)).all()
    p = torch.bincount(action[:, 0], minlength=4) / 3000
    torch.testing.assert_close(logp[:, 0, 0].detach().exp(), p[action[:, 0]], atol=0.04, rtol=0)


# ------------------------------------------------------------------------------------------------ learning
def filled(views, count=32):
    team, generator = views.team, seeded(1)
    obs = torch.randn(count, team.n_agents, team.obs_dim, generator=generator)
    view = views.shown(obs, torch.randn(count, views.state_dim, generator=generator), None, None)
    action, _ = uniform(ActionHead(team), obs, None, generator)
    reward = torch.randn(count, team.n_agents, generator=generator)
    return Transitions(view, action, reward, torch.full((count,), 0.9), view)


@pytest.mark.parametrize("env", ["spread:n=3", "spread:n=3,discrete=true"])
def test_a_policy_of_maddpg_climbs_its_own_critic_against_what_the_others_did(env):
    torch.manual_seed(0)
    views = views_of(env)
    nets = maddpg.make_networks(maddpg.Config(hidden=(16,)), views)
    drawn = filled(views)
    taken = coded(nets.actors.action, drawn.action)
    own = maddpg.own_values(nets, drawn.view, taken, seeded(3))
    fresh = nets.act(drawn.view, seeded(3))
    for i in range(3):
        joint = taken.clone()
        joint[:, i] = fresh[:, i]
        torch.testing.assert_close(own[:, i], nets.values(drawn.view, joint)[:, i])
        grads = torch.autograd.grad(
            own[:, i].sum(), list(nets.actors.parameters()), retain_graph=True, allow_unused=True
        )
        moved = {
            id(p) for p, g in zip(nets.actors.parameters(), grads, strict=True) if g is not None and g.abs().sum() > 0
        }
        assert moved and moved <= {id(p) for p in nets.actors.parameters_of(i)}
    old = copy.deepcopy(nets)
    y = maddpg.targets(old, drawn, seeded(3))
    torch.testing.assert_close(y, drawn.reward + 0.9 * nets.values(drawn.view, fresh).detach())
    before = [weight.clone() for weight in old.critic.parameters()]
    adams = tuple(torch.optim.Adam(net.parameters(), lr=1e-2) for net in nets)
    maddpg.improve(maddpg.Config(tau=0.5), nets, old, adams, drawn, seeded(4))
    for was, is_, new in zip(before, old.critic.parameters(), nets.critic.parameters(), strict=True):
        torch.testing.assert_close(is_, (was + new) / 2)


@pytest.mark.parametrize("env", ["spread:n=3", "spread:n=3,discrete=true"])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_a_step_of_hasac_raises_values_and_entropy_by_the_policies_alone(env, alpha):
    torch.manual_seed(0)
    views = views_of(env)
    config = hasac.Config(hidden=(16,), alpha=alpha, tau=1.0)
    nets = hasac.make_networks(config, views)
    drawn, old = filled(views), copy.deepcopy(nets.critics)
    weight = torch.full((3,), alpha or 1.0)

    def gain():
        with torch.no_grad():
            pairs = [nets.fresh(drawn.view, seeded(k)) for k in range(20)]
            said = [
                hasac.least(nets.critics, drawn.view, action)[:, 0] - (weight * logp).sum(-1) for action, logp in pairs
            ]
            return torch.stack(said).mean().item()

    y = hasac.targets(nets, old, weight, drawn, seeded(5))
    action, logp = nets.fresh(drawn.view, seeded(5))
    value = torch.minimum(*(c(torch.cat([drawn.view.state, action.flatten(1)], -1)) for c in old))
    torch.testing.assert_close(y, (drawn.reward.mean(-1) + 0.9 * (value - (weight * logp).sum(-1))).detach())
    adams = {
        "adam": torch.optim.Adam(nets.actors.parameters(), lr=3e-3),
        "critic_adam": torch.optim.SGD(nets.critics.parameters(), lr=0.0),
    }
    adams["alpha_adam"] = torch.optim.SGD(nets.log_alpha.parameters(), lr=0.1)
    before, said = gain(), nets.log_alpha[0].detach().clone()
    for k in range(10):
        seen = hasac.improve(config, nets, old, adams, drawn, seeded(10 + k))
    if alpha:
        assert gain() > before + 1e-3
    assert torch.equal(nets.log_alpha[0], said) == bool(alpha)
    assert set(seen) == {"value_loss", "value", "log_pi", "alpha"}


def test_entropy_is_held_where_the_paper_says():
    choices = TeamSpec(("a", "b"), 1, (ActionSpec(choices=5), ActionSpec(choices=2)))
    torch.testing.assert_close(hasac.target_entropy(ActionHead(choices)), 0.98 * torch.tensor([5.0, 2.0]).log())
    numbers = TeamSpec(("a", "b"), 1, (ActionSpec(dims=3), ActionSpec(dims=1)))
    assert hasac.target_entropy(ActionHead(numbers)).tolist() == [-3, -1]
    same = TeamSpec(("a", "b"), 1, (ActionSpec(dims=2),) * 2)
    assert hasac.target_entropy(ActionHead(same)).item() == -2


# ------------------------------------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    ("algo", "team", "message"),
    [
        ("vdn", (ActionSpec(dims=2),) * 2, "continuous actions(?s:.*)discrete actions(?s:.*)use maddpg, hasac"),
        ("maddpg", (ActionSpec(2, 2),) * 2, "mixed actions(?s:.*)discrete actions or continuous(?s:.*)use mappo"),
        ("hasac", (ActionSpec(2, 2),) * 2, "mixed actions(?s:.*)use mappo"),
    ],
)
def test_others_are_named_for_what_it_does_not_take(algo, team, message):
    module = importlib.import_module(f"evolvent.algos.{algo}")
    views = Views(TeamSpec(("a", "b"), 1, team), ids=True, device=torch.device("cpu"))
    make = getattr(module, "make_networks", None) or module.played
    with pytest.raises(BadInput, match=message):
        make(with_fields(module.Config(), env="mine"), views)
