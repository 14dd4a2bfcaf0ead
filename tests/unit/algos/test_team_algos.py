"""What HAPPO and HATRPO promise of one update, for every kind of action, with masks: M, the true KL, the gain."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from evolvent.algos import happo, hatrpo
from evolvent.core.team import ActionSpec, TeamSpec
from evolvent.learn.team.batch import Batch, View
from evolvent.learn.team.optimal_baseline import score_norms
from evolvent.learn.team.ppo import improve_together
from evolvent.models.team.actors import Actors, Perceptron

torch.set_num_threads(1)
T, B, A, D = 6, 8, 3, 5
KINDS = {
    "discrete": (ActionSpec(choices=5),) * A,
    "unequal": (ActionSpec(choices=5), ActionSpec(choices=3), ActionSpec(choices=4)),
    "continuous": (ActionSpec(dims=2), ActionSpec(dims=2), ActionSpec(dims=1)),
    "mixed": (ActionSpec(choices=3, dims=2), ActionSpec(choices=4), ActionSpec(dims=1)),
}


def rolled_out(kind, seed=0):
    """Actors, and what they did in a rollout in which some are not alive and some choices are not open."""
    team = TeamSpec(tuple("abc"), D, KINDS[kind])
    torch.manual_seed(seed)
    actors = Actors(team, D, hidden=(16,))
    with torch.no_grad():
        for member in actors.members:
            member.net.net[-1].weight.mul_(50.0)  # away from the uniform start
    gen = torch.Generator().manual_seed(seed)
    obs = torch.randn(T, B, A, D, generator=gen)
    available = None
    if team.choices:
        available = torch.from_numpy(team.choice_mask()) & (torch.rand(T, B, A, team.choices, generator=gen) < 0.7)
        available[..., 0] |= torch.from_numpy(team.choice_mask()[:, 0])
    active = torch.rand(T, B, A, generator=gen) < 0.8
    seen = View(obs, obs.flatten(2), available, active)
    flat = seen.flat()
    action, logp = actors.act(flat.obs, available_BAN=flat.available, generator=gen)
    batch = Batch(
        seen,
        action.unflatten(0, (T, B)),
        logp.unflatten(0, (T, B)),
        torch.zeros(T, B, A),
        {},
        None,  # no credit here
    )
    adv = torch.randn(T, B, 1, generator=gen).expand(T, B, A) * active
    return actors, batch, adv, gen


def joint_ratio(actors, batch):
    """Of the actions taken, over those who were alive, recomputed from scratch."""
    view = batch.view.flat()
    with torch.no_grad():
        logp = actors.logprobs(view.obs, batch.action.flatten(0, 1), available_BAN=view.available).logp
    moved = (logp - batch.logp.flatten(0, 1)).sum(-1)
    return (moved * view.active).sum(-1).exp()


@pytest.mark.parametrize("kind", KINDS)
def test_happo_ends_with_the_joint_ratio(kind):
    actors, batch, adv, gen = rolled_out(kind)
    torch.testing.assert_close(joint_ratio(actors, batch), torch.ones(T * B), atol=1e-5, rtol=0)  # before: no change
    adams = [torch.optim.Adam(actors.parameters_of(i), lr=3e-3) for i in range(A)]
    config = happo.Config(minibatches=3)
    factor, metrics = happo.improve_in_turn(config, actors, adams, batch, adv, gen)
    torch.testing.assert_close(factor, joint_ratio(actors, batch), atol=1e-5, rtol=1e-4)
    assert factor.std() > 0.01
    assert metrics["factor_sd"] == pytest.approx(factor.std(unbiased=False).item())


@pytest.mark.parametrize("kind", KINDS)
def test_hatrpo_ends_with_the_joint_ratio(kind):
    actors, batch, adv, gen = rolled_out(kind)
    factor, metrics = hatrpo.improve_in_turn(hatrpo.Config(), actors, batch, adv, gen)
    torch.testing.assert_close(factor, joint_ratio(actors, batch), atol=1e-5, rtol=1e-4)
    assert factor.std() > 0.01
    assert metrics["kl_max"] <= 0.01


def true_kl(old, new, own, kind, agent):
    """Mean over who was alive, by the definitions: a sum over choices, an integral over numbers on a grid."""
    total = torch.zeros(len(own.obs), dtype=torch.float64)
    spec = KINDS[kind][agent]
    if spec.choices:
        p, q = old.logp.double(), new.logp.double()
        for n in range(spec.choices):
            total += torch.where(p[:, n] > -1e9, p[:, n].exp() * (p[:, n] - q[:, n]), 0.0)
    x = torch.linspace(-8, 8, 20_001, dtype=torch.float64)
    for d in range(spec.dims):
        dists = [
            torch.distributions.Normal(out.mean[:, d].double(), out.sigma.expand_as(out.mean)[:, d].double())
            for out in (old, new)
        ]
        p, q = (dist.log_prob(x[:, None]) for dist in dists)
        total += torch.trapezoid(p.exp() * (p - q), x, dim=0)
    return total[own.active].mean().item()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delta", [0.001, 0.02])
def test_hatrpo_keeps_the_true_kl_within_delta_and_raises_its_surrogate(kind, delta):
    actors, batch, adv, _ = rolled_out(kind)
    before = copy.deepcopy(actors)
    for i in range(A):
        own, weight = batch.of(i), adv[..., i].flatten() * torch.linspace(0.5, 2.0, T * B)
        step, ratio = hatrpo.improve_one(hatrpo.Config(delta=delta), actors, i, own, weight)
        assert step.accepted
        old, new = (net.params_one(i, own.obs, available_BN=own.available) for net in (before, actors))
        kl = true_kl(old, new, own, kind, i)
        assert 0.1 * delta < kl <= delta * (1 + 1e-3)
        assert step.kl == pytest.approx(kl, rel=0.01)
        gain = (ratio * weight)[own.active].mean() - weight[own.active].mean()
        assert gain.item() == pytest.approx(step.improvement, abs=1e-6)
        assert gain > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pick", [0, 2])
def test_separate_actors_learn_from_their_own_means(kind, pick):
    """One agent's step must not depend on how many others there are, nor on how far they would move."""
    actors, batch, adv, _ = rolled_out(kind)
    config = SimpleNamespace(epochs=3, minibatches=1, clip=0.2, entropy=0.01, grad_clip=0.05)
    alone, own = copy.deepcopy(actors), batch.of(pick)
    scaled = adv * torch.tensor([1.0, 30.0, 2.0])
    improve_together(config, actors, adam_of(actors), batch, scaled, torch.Generator())
    adam = torch.optim.Adam(alone.parameters_of(pick), lr=1e-2, eps=1e-5)
    mine = scaled.flatten(0, 1)[:, pick]
    happo.improve_one(config, alone, pick, adam, own, [slice(None)] * 3, (mine, torch.ones_like(mine)))
    for got, want in zip(actors.parameters_of(pick), alone.parameters_of(pick), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)


def adam_of(actors):
    return torch.optim.Adam(actors.groups(), lr=1e-2, eps=1e-5)


def test_score_norms_are_those_of_the_gradients():
    torch.manual_seed(0)
    net, x = Perceptron(4, 3, (6,), gain=1.0).double(), torch.randn(5, 4, dtype=torch.float64)
    with torch.no_grad():
        net.net[-1].weight.mul_(30.0)
    open_now = torch.tensor([True, True, True]).repeat(5, 1)
    open_now[0, 2] = False
    logp = torch.log_softmax(net(x).masked_fill(~open_now, -1e10), -1)
    found = score_norms(net, x, logp.exp().detach(), chunk=2)
    for m in range(5):
        for n in range(3):
            if open_now[m, n]:
                slopes = torch.autograd.grad(logp[m, n], list(net.parameters()), retain_graph=True)
                want = sum(float((slope**2).sum()) for slope in slopes)
                assert found[m, n].item() == pytest.approx(want, rel=1e-6)
    assert np.isfinite(found.numpy()).all()
