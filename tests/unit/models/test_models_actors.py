"""Separate actors: one batch for acting, own parameters for learning, and both are the same numbers."""

import copy

import pytest
import torch
from torch.distributions import Categorical, Normal, kl_divergence

from evolvent.core.team import ActionSpec, TeamSpec
from evolvent.models.team.actors import Actors, Critic
from evolvent.models.team.sizes import sized
from joint_cases import KINDS, case, loud

torch.set_num_threads(1)


def actors_for(c, *, shared=False, seed=1, hidden=(32, 24)) -> Actors:
    torch.manual_seed(seed)
    actors = Actors(c.team, c.obs_BAD.shape[-1], hidden=hidden, shared=shared).to(c.obs_BAD.dtype)
    loud(actors, seed, 0.2)
    return actors


def alone(actors: Actors, c, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows = []
    for i in range(c.team.n_agents):
        available = None if c.available_BAN is None else c.available_BAN[:, i]
        rows.append(actors.logprobs_one(i, c.obs_BAD[:, i], action[:, i], available_BN=available))
    return torch.stack([row.logp for row in rows], 1), torch.stack([row.entropy for row in rows], 1)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_acting_judging_together_and_judging_alone_agree(kind, shared):
    for dtype, near in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        c = case(kind, dtype=dtype)
        actors = actors_for(c, shared=shared)
        action, logp = actors.act(c.obs_BAD, available_BAN=c.available_BAN)
        judged = actors.logprobs(c.obs_BAD, action, available_BAN=c.available_BAN)
        one_logp, one_entropy = alone(actors, c, action)
        for other in (judged.logp, one_logp):
            torch.testing.assert_close(other, logp, rtol=0, atol=near)
        torch.testing.assert_close(one_entropy, judged.entropy, rtol=0, atol=near)


def test_an_actor_is_the_published_network():
    c = case("discrete", dtype=torch.float64)
    actors = actors_for(c)
    net = actors.members[2].net
    shown = sized(c.obs_BAD[:, 2])
    x = net.net(shown * net.norm.weight + net.norm.bias)
    expected = torch.log_softmax(x.masked_fill(~c.available_BAN[:, 2], -1e10), -1)
    got = actors.params_one(2, c.obs_BAD[:, 2], available_BN=c.available_BAN[:, 2]).logp
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
    fresh = Actors(c.team, 7, hidden=(12, 8))
    weight = fresh.members[0].net.net[3].weight
    torch.testing.assert_close(weight @ weight.t(), 2.0 * torch.eye(8))
    assert fresh.members[0].net.net[-1].weight.norm(dim=1).allclose(torch.tensor(0.01))


@pytest.mark.parametrize("shared", [False, True])
def test_gradients_together_are_those_of_each_alone(shared):
    c = case("unequal kinds", dtype=torch.float64)
    actors = actors_for(c, shared=shared)
    action, logp = actors.act(c.obs_BAD, available_BAN=c.available_BAN)
    weight = torch.linspace(-1, 1, logp.numel(), dtype=logp.dtype).view_as(logp)
    judged = actors.logprobs(c.obs_BAD, action, available_BAN=c.available_BAN)
    ((judged.logp * weight).sum() + judged.entropy.square().sum()).backward()
    together = [x.grad.clone() for x in actors.parameters()]
    actors.zero_grad()
    one_logp, one_entropy = alone(actors, c, action)
    ((one_logp * weight).sum() + one_entropy.square().sum()).backward()
    for x, grad in zip(actors.parameters(), together, strict=True):
        torch.testing.assert_close(x.grad, grad, rtol=0, atol=1e-10)


def test_one_agent_learns_and_the_others_stay():
    c = case("discrete", dtype=torch.float64)
    actors = actors_for(c)
    action, before = actors.act(c.obs_BAD, available_BAN=c.available_BAN, greedy=True)
    optimizer = torch.optim.Adam(actors.parameters_of(1), lr=0.05)
    actors.logprobs_one(1, c.obs_BAD[:, 1], action[:, 1], available_BN=c.available_BAN[:, 1]).logp.sum().backward()
    optimizer.step()
    after = actors.logprobs(c.obs_BAD, action, available_BAN=c.available_BAN).logp
    changed = [bool((after[:, i] != before[:, i]).any()) for i in range(4)]
    assert changed == [False, True, False, False]
    with torch.no_grad():
        again = actors.logprobs(c.obs_BAD, action, available_BAN=c.available_BAN).logp
    assert torch.equal(again, after), "acting uses the stack, and the stack has learned too"


@pytest.mark.parametrize("how", ["deepcopy", "to", "data", "load"])
def test_stacks_follow_what_breaks_their_views(how):
    c = case("mixed", dtype=torch.float64)
    actors = actors_for(c)
    actors.act(c.obs_BAD, available_BAN=c.available_BAN)
    original, kept = actors, [x.detach().clone() for x in actors.parameters()]
    if how == "deepcopy":
        actors = copy.deepcopy(actors)
        loud(actors, 5, 0.3)
        assert all(torch.equal(x, y) for x, y in zip(original.parameters(), kept, strict=True))
    elif how == "to":
        actors = actors.float().double()
    elif how == "data":
        for x in actors.parameters_of(2):
            x.data = x.data * 1.5
    else:
        actors.load_state_dict(actors_for(c, seed=8).state_dict(), assign=True)
    action, logp = actors.act(c.obs_BAD, available_BAN=c.available_BAN)
    torch.testing.assert_close(alone(actors, c, action)[0], logp, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["discrete", "continuous", "unequal kinds"])
def test_the_divergence_is_the_true_one(kind):
    c = case(kind, dtype=torch.float64)
    old_net, new_net = actors_for(c, seed=1), actors_for(c, seed=2)
    for i, spec in enumerate(c.team.actions):
        available = None if c.available_BAN is None else c.available_BAN[:, i]
        old, new = (net.params_one(i, c.obs_BAD[:, i], available_BN=available) for net in (old_net, new_net))
        expected = torch.zeros(len(c.obs_BAD), dtype=torch.float64)
        if spec.choices:
            expected += kl_divergence(Categorical(logits=old.logp), Categorical(logits=new.logp))
        if spec.dims:
            pair = (Normal(x.mean, x.sigma.expand_as(x.mean)) for x in (old, new))
            expected += kl_divergence(*pair)[:, : spec.dims].sum(-1)
        got = new_net.kl_one(i, old, new)
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
        assert (got > -1e-12).all()
        assert got.max() > 1e-3
        assert old_net.kl_one(i, old, old).abs().max() < 1e-12


def test_shapes_and_sampling():
    team = TeamSpec(("a", "b"), 3, (ActionSpec(3), ActionSpec(3)))
    actors = Actors(team, 3, hidden=(8,))
    loud(actors, 4, 0.5)
    obs = torch.tensor([[[1.0, 0.0, -1.0], [0.5, 2.0, 0.0]]]).expand(20_000, -1, -1)
    action, logp = actors.act(obs, generator=torch.Generator().manual_seed(3))
    p = actors.outlook(obs[:1]).logp.exp()[0]
    seen = torch.stack([(action == k).float().mean(0) for k in range(3)], 1)
    assert (seen - p).abs().max() < 4 * 0.5 / 20_000**0.5
    assert logp.shape == (20_000, 2, 1)
    assert torch.equal(actors.act(obs[:1], greedy=True)[0][0], p.argmax(-1))


def test_critics():
    x = torch.randn(5, 3, 6, generator=torch.Generator().manual_seed(0))
    one, many = Critic(6, hidden=(8,)), Critic(6, 4, hidden=(8, 8))
    assert one(x).shape == (5, 3)
    assert many(x).shape == (5, 3, 4)
    assert many.head.weight.shape == (4, 8)
    shown = sized(x) * one.net.norm.weight + one.net.norm.bias
    torch.testing.assert_close(one(x), one.net.net(shown).squeeze(-1))
    assert one.head.weight.norm().item() == pytest.approx(1.0, abs=1e-6)  # HARL's gain; actors have .01
