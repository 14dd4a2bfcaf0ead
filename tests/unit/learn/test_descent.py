"""Minibatches in pieces: the gradient of the whole, up to rounding."""

import pytest
import torch
from torch import Tensor, nn

from evolvent.learn.losses import masked_mean
from evolvent.learn.team import descent
from evolvent.learn.team.descent import Rows, decaying, descend, pieces

ROWS, AGENTS = 50, 3


def fitted(mask: Tensor | None, passes: list[Rows]) -> tuple[nn.Linear, dict[str, float]]:
    torch.manual_seed(0)
    net, x, y = nn.Linear(4, 1), torch.randn(ROWS, AGENTS, 4), torch.randn(ROWS, AGENTS)
    net = net.double()
    x, y = x.double(), y.double()

    def loss_of(rows: Rows) -> tuple[Tensor, dict[str, Tensor | float]]:
        error = (net(x[rows]).squeeze(-1) - y[rows]).square()
        loss = masked_mean(error, None if mask is None else mask[rows])
        return loss, {"loss": loss, "one": 1.0}

    return net, descend(torch.optim.SGD(net.parameters(), lr=0.1), passes, loss_of, y, mask=mask, grad_clip=0.5)


def masks() -> list[Tensor | None]:
    alive = torch.rand(ROWS, AGENTS, generator=torch.Generator().manual_seed(1)) < 0.4
    alive[:10] = False  # a piece in which nobody counts
    return [None, alive]


@pytest.mark.parametrize("mask", masks(), ids=["all", "some"])
@pytest.mark.parametrize("size", [1, 7, 30, 149])
def test_pieces_give_the_step_of_the_whole(monkeypatch: pytest.MonkeyPatch, mask: Tensor | None, size: int):
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(2))
    passes: list[Rows] = [slice(None), *order.tensor_split(3), slice(5, 45)]
    whole, metrics = fitted(mask, passes)
    monkeypatch.setattr(descent, "PIECE", size)
    parts, seen = fitted(mask, passes)
    torch.testing.assert_close(parts.weight, whole.weight, rtol=0, atol=1e-12)
    torch.testing.assert_close(parts.bias, whole.bias, rtol=0, atol=1e-12)
    assert seen == pytest.approx(metrics, abs=1e-12)
    assert set(metrics) == {"loss", "one", "grad_norm"}


def test_pieces_are_a_partition_in_order(monkeypatch: pytest.MonkeyPatch):
    like = torch.zeros(ROWS, AGENTS)
    monkeypatch.setattr(descent, "PIECE", 12)
    order = torch.randperm(ROWS)[:23]
    found = list(pieces(order, like))
    assert torch.equal(torch.cat([order[:0], *(rows for rows, _ in found if isinstance(rows, Tensor))]), order)
    assert [len(like[rows]) for rows, _ in found] == [4, 4, 4, 4, 4, 3]
    assert sum(share for _, share in found) == pytest.approx(1.0)
    assert [rows for rows, _ in pieces(slice(1, 9), like)] == [slice(1, 5, 1), slice(5, 9, 1)]


def test_what_fits_is_one_piece_without_a_copy():
    assert list(pieces(slice(None), torch.zeros(ROWS, AGENTS))) == [(slice(None), 1.0)]


def test_a_loss_that_is_no_mean_is_never_in_pieces(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(descent, "PIECE", 1)
    net, seen = nn.Linear(1, 1), list[Rows]()
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)

    def loss_of(rows: Rows) -> tuple[Tensor, dict[str, Tensor | float]]:
        seen.append(rows)
        return net.weight.sum(), {}

    descend(sgd, [slice(None)], loss_of, torch.zeros(ROWS), grad_clip=1.0, whole=True)
    assert seen == [slice(None)]


def test_nothing_to_do_tells_nothing():
    net = nn.Linear(1, 1)
    adam = torch.optim.Adam(net.parameters())
    assert descend(adam, [], lambda rows: (net.weight.sum(), {}), torch.zeros(0), grad_clip=1.0) == {}


def test_rates_fall_from_what_they_began_with_also_after_a_checkpoint_was_loaded():
    nets = [torch.nn.Linear(1, 1) for _ in range(2)]
    adams = [torch.optim.Adam(net.parameters(), lr=lr) for net, lr in zip(nets, (0.4, 0.1), strict=True)]
    at = decaying({"net": nets[0], "first": adams[0], "second": adams[1]}, 0.5)
    at(0.5)
    assert [adam.param_groups[0]["lr"] for adam in adams] == pytest.approx([0.3, 0.075])
    adams[0].load_state_dict(adams[0].state_dict())
    at(1.0)
    assert [adam.param_groups[0]["lr"] for adam in adams] == pytest.approx([0.2, 0.05])
