"""Value normalisation: an identity there and back, quick enough to follow growing returns, and part of a checkpoint."""

import pytest
import torch
from torch import nn

from evolvent.core.errors import BadInput
from evolvent.learn import checkpoint
from evolvent.learn.team.value_norm import ValueNorm


def test_there_and_back_is_the_identity():
    norm, x = ValueNorm(), torch.linspace(-50, 900, 7, dtype=torch.float64)
    assert norm.normalise(x).tolist() == x.tolist()  # nothing known yet: nothing changed
    norm.update(x)
    assert norm.denormalise(norm.normalise(x)).tolist() == pytest.approx(x.tolist())
    assert norm.normalise(x).mean().item() == pytest.approx(0, abs=1e-9)
    assert norm.normalise(x).std(unbiased=False).item() == pytest.approx(1)


def test_it_follows_returns_that_grow_by_orders_of_magnitude():
    slow, quick = ValueNorm(beta=1 - 1e-5), ValueNorm(beta=0.9)
    for step in range(400):
        target = torch.tensor([-1.0, 1.0]) + 100.0 * step
        slow.update(target)
        quick.update(target)
    assert abs(quick.normalise(torch.tensor(39_900.0)).item()) < 1.5
    assert quick.mean == pytest.approx(39_900, rel=0.05)
    assert slow.mean < 21_000  # what the published weight still believes


def test_rescaling_the_head_keeps_what_the_critic_says():
    torch.manual_seed(0)
    norm, head, x = ValueNorm(beta=0.5), nn.Linear(4, 1).double(), torch.randn(16, 4, dtype=torch.float64)
    for scale in (1.0, 1e3, -1e5):
        before = norm.denormalise(head(x))
        norm.update(scale * torch.arange(9.0), head=head)
        torch.testing.assert_close(norm.denormalise(head(x)), before, rtol=1e-9, atol=1e-6)
    assert norm.sd > 1e4


def test_it_round_trips_through_a_checkpoint(tmp_path):
    norm = ValueNorm(beta=0.7)
    for scale in (1.0, 30.0):
        norm.update(scale * torch.arange(5.0))
    path = checkpoint.save(tmp_path, 1, {"norm": norm})
    again = ValueNorm(beta=0.7)
    checkpoint.load(path, {"norm": again})
    assert (again.mean, again.sd) == (norm.mean, norm.sd)
    for one in (norm, again):
        one.update(torch.arange(3.0))
    assert (again.mean, again.sd) == (norm.mean, norm.sd)


def test_masks_and_bad_targets():
    norm = ValueNorm()
    norm.update(torch.tensor([1.0, float("nan"), 3.0]), mask=torch.tensor([True, False, True]))
    assert (norm.mean, norm.sd) == pytest.approx((2.0, 1.0))
    norm.update(torch.tensor([5.0]), mask=torch.tensor([False]))
    assert norm.mean == pytest.approx(2.0)
    with pytest.raises(BadInput, match="not finite"):
        norm.update(torch.tensor([float("inf")]))
    assert norm.mean == pytest.approx(2.0)
    norm.update(torch.tensor([7.0, 7.0, 7.0]))
    assert ValueNorm().sd == 1.0
    with pytest.raises(BadInput, match="beta"):
        ValueNorm(beta=1.0)
