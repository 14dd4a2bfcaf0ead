"""The learned order: an exact draw with its true probability, and a policy whose ratio is one in that order."""

import itertools

import pytest
import torch

from evolvent.algos import pmat
from evolvent.algos.pmat.plackett_luce import Orderly, Ranker, draw_order, order_logp
from evolvent.core.errors import BadInput
from evolvent.learn.team.batch import View
from evolvent.models.team.joint import JointPolicy
from joint_cases import case, loud, team_of

torch.set_num_threads(1)


def by_hand(scores: list[float], order: tuple[int, ...]) -> float:
    p, left = 1.0, list(order)
    for agent in order:
        p *= scores[agent] / sum(scores[j] for j in left)
        left.remove(agent)
    return p


def test_probabilities_of_all_orders():
    scores = [1.0, 4.0, 9.5, 2.0]
    orders = list(itertools.permutations(range(4)))
    log_scores = torch.tensor(scores, dtype=torch.float64).log().expand(24, -1)
    got = order_logp(log_scores, torch.tensor(orders)).exp()
    expected = torch.tensor([by_hand(scores, order) for order in orders], dtype=torch.float64)
    torch.testing.assert_close(got, expected)
    assert got.sum().item() == pytest.approx(1.0)


def test_draws_have_those_probabilities():
    scores, many = [1.0, 4.0, 9.5], 30_000
    order, logp = draw_order(torch.tensor(scores).log().expand(many, -1), generator=torch.Generator().manual_seed(2))
    for wanted in itertools.permutations(range(3)):
        hit = (order == torch.tensor(wanted)).all(1)
        p = by_hand(scores, wanted)
        assert hit.float().mean().item() == pytest.approx(p, abs=4.5 * (p * (1 - p) / many) ** 0.5)
        assert logp[hit].exp().mean().item() == pytest.approx(p, rel=1e-4)
    assert draw_order(torch.tensor([[0.1, 0.9, 0.5]]), greedy=True)[0].tolist() == [[1, 2, 0]]


def test_the_ranker_is_bounded_and_learns_with_all_its_layers():
    ranker = Ranker(8, layers=3, hidden=16)
    score = ranker(1000.0 * torch.randn(50, 4, 8, generator=torch.Generator().manual_seed(0)))
    assert score.min() >= 0.0
    assert score.max() <= torch.tensor(10.0).log() + 1e-6
    order_logp(score, draw_order(score)[0]).sum().backward()
    assert len(list(ranker.parameters())) == 2 + 3 * 4 + 2, "hidden layers share no weights"
    assert all(x.grad is not None for x in ranker.parameters())
    with pytest.raises(BadInput, match="ranker"):
        Ranker(8, layers=0)


@pytest.mark.parametrize("kind", ["discrete", "unequal kinds"])
def test_the_ratio_is_one_in_the_drawn_order_and_not_in_another(kind):
    """The fault of the released code: judging in the order of the numbers what was done in the drawn one."""
    c = case(kind)
    net = Orderly(JointPolicy(c.team, 7, width=16, mask_dead=True))
    loud(net, 1, 0.2)
    view = View(c.obs_BAD, c.obs_BAD.flatten(1), c.available_BAN, c.active_BA)
    acted, order, logp = net.act(view, greedy=False, generator=torch.Generator().manual_seed(0))
    assert len(order.unique(dim=0)) > 5
    judged = net.policy.logprobs(c.obs_BAD, acted.action, **c.masks, order_BA=order)
    torch.testing.assert_close(judged.logp_BAP, acted.logp_BAP, rtol=0, atol=1e-5)
    torch.testing.assert_close(order_logp(net.ranker(judged.rep_BAW), order), logp, rtol=0, atol=1e-5)
    wrong = net.policy.logprobs(c.obs_BAD, acted.action, **c.masks).logp_BAP
    assert (wrong - acted.logp_BAP).abs().max() > 0.01
    order_logp(net.ranker(judged.rep_BAW), order).sum().backward()
    assert net.policy.encoder[0].mlp.up.weight.grad.abs().sum() > 0, "the order teaches the encoder"
    _, likeliest, _ = net.act(view, greedy=True, generator=torch.Generator())
    score = net.ranker(judged.rep_BAW).gather(1, likeliest)
    assert (score.diff(dim=1) <= 0).all()


def test_a_team_of_another_size_takes_over_the_order():
    small = Orderly(JointPolicy(team_of("discrete"), 7, width=16))
    large = Orderly(JointPolicy(team_of("discrete", agents=6), 7, width=16))
    loud(small)
    large.adopt(small.state_dict())
    assert all(torch.equal(x, large.state_dict()[name]) for name, x in small.state_dict().items())


def test_the_credit_of_an_order_is_that_of_the_living():
    adv = torch.tensor([[1.0, 3.0, 8.0], [1.0, 2.0, 3.0]])
    active = torch.tensor([[True, True, False], [False, False, False]])
    assert pmat.team_mean(adv, active).tolist() == [2.0, 0.0]
    assert pmat.team_mean(adv, None).tolist() == [4.0, 2.0]
