"""Networks that play several agents put each agent's number behind its observation themselves."""

import pytest
import torch

from evolvent.algos import ippo
from evolvent.learn.team.batch import View
from evolvent.models.team.actors import Actors, JointQ
from evolvent.models.team.joint import JointPolicy
from joint_cases import case, loud

torch.set_num_threads(1)
D = 7


def numbered(c):
    """By hand: observations with the numbers of the agents."""
    agents = c.team.n_agents
    return torch.cat([c.obs_BAD, torch.eye(agents).expand(len(c.obs_BAD), agents, agents)], -1)


@pytest.mark.parametrize("shared", [False, True])
def test_actors_are_shown_their_numbers_together_and_alone(shared):
    c = case("discrete")
    actors = loud(Actors(c.team, D, hidden=(8,), shared=shared, ids=True))
    seen, out = numbered(c), actors.outlook(c.obs_BAD)
    for i in range(c.team.n_agents):
        own = actors.members[0 if shared else i].net(seen[:, i])
        torch.testing.assert_close(out.logp[:, i], own.log_softmax(-1))
        torch.testing.assert_close(actors.params_one(i, c.obs_BAD[:, i]).logp, out.logp[:, i])
    action, logp = actors.act(c.obs_BAD)
    ones = [actors.logprobs_one(i, c.obs_BAD[:, i], action[:, i]).logp for i in range(c.team.n_agents)]
    torch.testing.assert_close(torch.stack(ones, 1), logp)


@pytest.mark.parametrize("actor", ["decoder", "local", "encoder"])
def test_a_joint_policy_is_shown_the_numbers_of_its_agents(actor):
    c = case("discrete")
    policy = loud(JointPolicy(c.team, D, width=8, actor=actor, ids=True))
    by_hand = JointPolicy(c.team, D + c.team.n_agents, width=8, actor=actor)
    by_hand.load_state_dict(policy.state_dict())
    acted, expected = policy.act(c.obs_BAD, greedy=True), by_hand.act(numbered(c), greedy=True)
    assert all(torch.equal(a, b) for a, b in zip(acted, expected, strict=True))
    assert torch.equal(policy.value(c.obs_BAD), by_hand.value(numbered(c)))
    judged = policy.logprobs(policy.standardise(c.obs_BAD), acted.action, standard=True)
    torch.testing.assert_close(judged.logp_BAP, acted.logp_BAP)


def test_critics_are_shown_the_numbers_of_the_agents():
    c = case("discrete")
    agents = c.team.n_agents
    q = JointQ(c.team, 2, D, hidden=(8,), ids=True)
    around = q.around(torch.zeros(16, 2), c.obs_BAD, torch.zeros(16, agents, c.team.choices))
    torch.testing.assert_close(around[..., 2 : 2 + D + agents], numbered(c))
    view = View(c.obs_BAD, c.obs_BAD.flatten(1))
    assert torch.equal(ippo.seen_by_critics(ippo.Config(), view), numbered(c))
    assert ippo.seen_by_critics(ippo.Config(ids=False), view) is c.obs_BAD
