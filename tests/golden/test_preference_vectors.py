"""Preference losses and ETPO's losses on the numbers of their equations."""

import pytest
import torch

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.credit import token_guided
from evolvent.formulas import soft
from evolvent.learn.critics.soft_q import polyak, soft_q_actor, soft_q_critic
from evolvent.learn.preference import objective as pair_losses
from evolvent.learn.preference.objective import Preference
from evolvent.learn.tokens.units import Units

D = torch.float64
W, L = [0.3, 0.1, 0.5, -0.1], [-0.1, -0.3]  # log pi - log ref of the tokens of both answers: sums .8 and -.4


def pair(credit=(1.0,) * 4 + (-1.0,) * 2, groups=(0,) * 6):
    seq = torch.tensor([0] * 4 + [1] * 2)
    zero = torch.zeros(6, dtype=D)
    ids = torch.zeros(6, dtype=torch.int64)
    units = Units(
        seq, ids, ids, seq, torch.tensor(groups), ids, torch.tensor(credit, dtype=D), zero, ref_logp=zero.clone()
    )
    return units, torch.tensor(W + L, dtype=D, requires_grad=True)


def loss_of(preference, *args, **kwargs):
    units, logp = pair(*args, **kwargs)
    terms = preference.terms(preference.prepare(units), logp, torch.zeros(6), None)
    (gradient,) = torch.autograd.grad(terms.loss, logp)
    return float(terms.loss.detach()), gradient, terms.metrics


@pytest.mark.parametrize(
    ("preference", "expected"),
    [
        (Preference("dpo"), 0.634946),
        (Preference("ipo"), 14.44),
        (Preference("dpo", flipped=0.1), 0.646946),
        (Preference("robust", flipped=0.1), 0.619946),
    ],
)
def test_losses_of_pairs(preference, expected):
    value, gradient, metrics = loss_of(preference)
    assert value == pytest.approx(expected, abs=1e-5)
    assert bool((gradient[:4] < 0).all()) and bool((gradient[4:] > 0).all())  # up with the one, down with the other
    assert metrics["margin"].tolist() == pytest.approx([1.2])
    assert metrics["accuracy"].tolist() == [1.0]


def test_dpo_gradient():
    gradient = loss_of(Preference("dpo"))[1]
    slope = -0.1 * float(torch.sigmoid(torch.tensor(-0.12, dtype=D)))
    assert gradient.tolist() == pytest.approx([slope] * 4 + [-slope] * 2)


def test_sppo_hard_and_soft():
    # the loss of a pair is the sum over its answers; Preference means over answers
    value, gradient, _ = loss_of(Preference("sppo", beta=1e-3), credit=(0.5,) * 4 + (-0.5,) * 2)
    assert 2 * value == pytest.approx(249400.4)
    assert bool((gradient[:4] < 0).all()) and bool((gradient[4:] > 0).all())
    assert 2 * loss_of(Preference("sppo", beta=1.0), credit=(0.2,) * 4 + (-0.2,) * 2)[0] == pytest.approx(0.2)


def test_kto():
    wanted, anchor = torch.tensor([True, False]), torch.tensor(0.05, dtype=D)
    losses = pair_losses.kto(torch.tensor([0.8, -0.4], dtype=D), wanted, anchor, 0.1)
    assert losses.tolist() == pytest.approx([0.481259, 0.488752], abs=1e-6)
    # in a batch the anchor is the mean move, .2
    both = pair_losses.kto(torch.tensor([0.8, -0.4], dtype=D), wanted, torch.tensor(0.2), 0.1)
    value, gradient, _ = loss_of(Preference("kto", weights=(1.0, 3.0)))
    assert value == pytest.approx(float(both[0] + 3 * both[1]) / 2)
    assert bool((gradient[:4] < 0).all()) and bool((gradient[4:] > 0).all())


def test_tgdpo_is_dpo_with_weighted_tokens():
    pair = []
    for reward, guide in ((1.0, [1, 0, 2, -1]), (0.0, [0.5, -1])):
        pair.append(Episode("t", group="g"))
        pair[-1].act("x", token_ids=range(len(guide)), reward=reward)
        pair[-1].end(terminated=True)
        pair[-1].note("guide", guide)
    credit = token_guided.assign(pair, token_guided.Config(alpha=0.5, beta=0.1)).values("token")
    value, _, metrics = loss_of(Preference("dpo", beta=0.1), credit=credit.tolist())
    assert 0.1 * float(metrics["margin"]) == pytest.approx(0.12825)
    assert value == pytest.approx(0.631077, abs=1e-6)


def test_the_pair_loss_of_implicit_step_rewards():
    # iStar: scores are beta times the mean over steps of the log-ratio; the loss is logistic in their difference
    beta, good, bad = 0.05, [[0.2, 0.4], [0.1]], [[-0.3], [0, 0.1]]
    scores = [beta * sum(sum(step) for step in steps) / len(steps) for steps in (good, bad)]
    assert scores == pytest.approx([0.0175, -0.005])
    margin = torch.tensor(scores[0] - scores[1], dtype=D)
    assert float(pair_losses.dpo(margin, 1.0)) == pytest.approx(0.681960, abs=1e-6)


def test_pairs_must_be_pairs():
    for credit in ((1.0,) * 6, (0.0,) * 4 + (1.0,) * 2):
        with pytest.raises(BadInput, match="not a pair"):
            loss_of(Preference("dpo"), credit=credit)
    with pytest.raises(BadInput, match="not a pair"):
        loss_of(Preference("dpo"), groups=(0,) * 4 + (1,) * 2)
    units, _ = pair()
    with pytest.raises(BadInput, match="with_reference"):
        Preference("kto").prepare(Units(units.row, units.at, units.step, *[units.row] * 3, units.adv, units.old_logp))
    with pytest.raises(BadInput, match="dpo or robust"):
        Preference("slic")
    with pytest.raises(BadInput, match="beta > 0"):
        Preference(beta=0.0)


PI = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]], dtype=D)
RHO = torch.tensor([[0.4, 0.4, 0.2], [0.3, 0.5, 0.2]], dtype=D)
Q = torch.tensor([[1, 0.5, 0], [0.2, 0.9, -0.3]], dtype=D)


def test_soft_value_and_optimum():
    value = soft.soft_value(PI, Q, RHO, 0.1)
    assert value.tolist() == pytest.approx([0.647473, 0.690317], abs=1e-6)
    assert 0.3 + 0.99 * (1 - 0) * float(value[0]) == pytest.approx(0.940999, abs=1e-6)
    best, top = soft.soft_best_policy(Q, RHO, 0.1), soft.soft_best_value(Q, RHO, 0.1)
    assert best[0].tolist() == pytest.approx([0.993285, 0.006693, 0.000023], abs=1e-6)
    assert best[1].tolist() == pytest.approx([0.000547, 0.999451, 0.000002], abs=1e-6)
    assert top.tolist() == pytest.approx([0.909045, 0.830740], abs=1e-6)
    assert soft.soft_value(best, Q, RHO, 0.1).tolist() == pytest.approx(top.tolist())


def test_actor_loss_is_the_divergence_from_the_optimum_up_to_a_constant():
    top = torch.from_numpy(soft.soft_best_value(Q, RHO, 0.1))
    divergence = soft_q_actor(PI.log(), RHO.log(), Q, 0.1) + top / 0.1
    assert divergence.tolist() == pytest.approx([2.615714, 1.404229], abs=1e-6)


def test_actor_gradient_vanishes_at_the_optimum_and_leaves_q_alone():
    best = torch.from_numpy(soft.soft_best_policy(Q, RHO, 0.1)).log()
    logits, q = best.clone().requires_grad_(), Q.clone().requires_grad_()
    soft_q_actor(torch.log_softmax(logits, -1), RHO.log(), q, 0.1).sum().backward()
    assert logits.grad.abs().max() < 1e-12 and q.grad is None
    away = PI.log().clone().requires_grad_()
    soft_q_actor(torch.log_softmax(away, -1), RHO.log(), Q, 0.1).sum().backward()
    assert away.grad.abs().max() > 0.1


def test_tokens_that_are_not_allowed_count_nothing():
    barred = torch.tensor([[0.0, -torch.inf]], dtype=D)
    assert soft_q_actor(barred, torch.tensor([[-1.0, -1.0]], dtype=D), torch.ones(1, 2, dtype=D), 0.1).isfinite().all()


def test_critic_moves_the_taken_entry_only():
    q = Q.clone().requires_grad_()
    loss = soft_q_critic(q, torch.tensor([0, 2]), torch.tensor([0.690317, 0.940999], dtype=D))
    assert loss.tolist() == pytest.approx([0.5 * (1 - 0.690317) ** 2, 0.5 * (0.3 + 0.940999) ** 2])
    loss.sum().backward()
    assert torch.nonzero(q.grad).tolist() == [[0, 0], [1, 2]]


def test_polyak():
    slow, fast = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    before = slow.weight.detach().clone()
    polyak(slow, fast, 0.25)
    assert slow.weight.item() == pytest.approx(0.75 * before.item() + 0.25 * fast.weight.item(), abs=1e-6)
