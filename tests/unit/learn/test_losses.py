"""Clipped surrogates and value losses: symmetric where released code is not, and equal to their definitions."""

import math

import pytest
import torch

from evolvent.learn.losses import clipped_share, clipped_surrogate, huber, masked_mean, normalised, value_loss


@pytest.mark.parametrize("size", [0.3, 9.9, 10.0, 10.1, 30.0, 1e4])
def test_huber_is_symmetric_in_value_and_gradient(size):
    out = []
    for sign in (1.0, -1.0):
        e = torch.tensor(sign * size, requires_grad=True)
        loss = huber(e, 10.0)
        loss.backward()
        out.append((loss.item(), sign * e.grad.item()))
    assert out[0] == out[1]
    assert out[0][1] == pytest.approx(min(size, 10.0))  # never 0 away from 0


def test_huber_by_hand():
    assert huber(torch.tensor([2.0, -2.0, 30.0, -30.0])).tolist() == [2.0, 2.0, 250.0, 250.0]


def test_value_loss_takes_the_worse_of_both():
    target, old = torch.tensor([1.0, 1.0, 0.0]), torch.tensor([0.0, 0.0, 0.0])
    value = torch.tensor([0.9, 0.1, 0.5])
    # kept within 0.2 of the old value: 0.2, 0.1, 0.2
    want = [max(0.5 * 0.1**2, 0.5 * 0.8**2), 0.5 * 0.9**2, 0.5 * 0.5**2]
    assert value_loss(value, target, old_value=old, clip=0.2).tolist() == pytest.approx(want)
    assert value_loss(value, target).tolist() == pytest.approx([0.5 * 0.1**2, 0.5 * 0.9**2, 0.5 * 0.5**2])


def test_parts_are_clipped_one_by_one_or_as_one_action():
    old = torch.zeros(2, 2)
    logp = torch.tensor([[math.log(1.5), math.log(0.8)], [math.log(1.5), math.log(1.5)]])
    adv = torch.tensor([1.0, -2.0])
    each = clipped_surrogate(logp, old, adv, clip=0.2)
    assert each.tolist() == pytest.approx([1.2 + 0.8, 2 * -2.0 * 1.5])
    whole = clipped_surrogate(logp, old, adv, clip=0.2, parts="product")
    assert whole.tolist() == pytest.approx([1.2, -2.0 * 2.25])
    weight = torch.tensor([0.5, 3.0])
    weighted = clipped_surrogate(logp, old, adv, clip=0.2, parts="product", weight=weight)
    inside = clipped_surrogate(logp, old, weight * adv, clip=0.2, parts="product")  # M > 0: in or out is the same
    assert weighted.tolist() == pytest.approx(inside.tolist())
    assert clipped_share(logp, old, 0.2) == 0.5 + 0.5 * (abs(1.5 * 0.8 - 1) > 0.2)


def test_the_clip_stops_the_gradient():
    logp = torch.tensor([[math.log(1.5)], [math.log(0.5)]], requires_grad=True)
    clipped_surrogate(logp, torch.zeros(2, 1), torch.tensor([1.0, 1.0]), clip=0.2).sum().backward()
    assert logp.grad[:, 0].tolist() == pytest.approx([0.0, 0.5])


def test_who_is_not_alive_does_not_count():
    x = torch.tensor([1.0, float("nan"), 3.0], requires_grad=True)
    mask = torch.tensor([True, False, True])
    mean = masked_mean(x, mask)
    mean.backward()
    assert mean.item() == 2.0
    assert x.grad.tolist() == [0.5, 0.0, 0.5]
    assert masked_mean(x, torch.zeros(3, dtype=torch.bool)).item() == 0.0


def test_advantages_are_normalised_over_the_living():
    gen = torch.Generator().manual_seed(0)
    adv = torch.randn(50, 4, 3, generator=gen, dtype=torch.float64) * torch.tensor([1.0, 10.0, 100.0]) + 5
    mask = torch.rand(50, 4, 3, generator=gen) < 0.7
    broken = torch.where(mask, adv, torch.full_like(adv, float("nan")))
    for per_agent in (False, True):
        out = normalised(broken, mask, per_agent=per_agent)
        assert (out[~mask] == 0).all()
        groups = [(out[..., i], mask[..., i]) for i in range(3)] if per_agent else [(out, mask)]
        for values, alive in groups:
            assert values[alive].mean().item() == pytest.approx(0, abs=1e-9)
            assert values[alive].std(unbiased=False).item() == pytest.approx(1, abs=1e-4)
    scaled, moved = (normalised(broken, mask, centre=centre) for centre in (False, True))
    assert scaled[mask].mean() > 0.04
    assert scaled[mask].std().item() == pytest.approx(moved[mask].std().item())
    assert (scaled[mask] * adv[mask] > 0).all()  # no sign changes
    one = normalised(adv, mask)
    assert one[..., 0][mask[..., 0]].std() < 0.1 * one[..., 2][mask[..., 2]].std()
