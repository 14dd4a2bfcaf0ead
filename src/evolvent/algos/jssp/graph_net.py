"""A graph network over the operations of a job shop; it fits every number of jobs and machines.

Nodes are operations, their neighbours the one before and the one after in their job, and those on their machine:

    h <- h + ReLU(W [h, h of the one before, h of the one after, mean of h over what its machine has left])

What it is shown: ``envs.team.jssp.FEATURES`` of every operation, the first the number of its machine, which is read as
an address only.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from evolvent.envs.team.jssp import FEATURES
from evolvent.models.team.attention import ROOT2, linear


class ShopNet(nn.Module):
    """``[..., D]``, a shop of ``jobs``, to a score for the next operation of every job, ``[..., J]``; with ``value``
    to one number for the shop, ``[...]``.
    """

    def __init__(self, jobs: int, width: int, rounds: int, *, value: bool = False) -> None:
        super().__init__()
        self.jobs, self.value = jobs, value
        self.enter = nn.Sequential(linear(len(FEATURES) - 1, width, ROOT2), nn.ReLU(), nn.LayerNorm(width))
        self.rounds = nn.ModuleList(linear(4 * width, width, ROOT2) for _ in range(rounds))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(rounds))
        self.leave = nn.Sequential(linear(2 * width, width, ROOT2), nn.ReLU())
        self.head = linear(width, 1, 1.0 if value else 0.01)

    def forward(self, obs: Tensor) -> Tensor:
        """See the class."""
        x = obs.reshape(-1, self.jobs, obs.shape[-1] // (self.jobs * len(FEATURES)), len(FEATURES))
        machine, left = x[..., 0].long(), 1.0 - x[..., 1]
        h = self.enter(x[..., 1:])
        weight = left / left.new_zeros(len(x), x.shape[2]).scatter_add_(1, machine.flatten(1), left.flatten(1)).clamp(
            min=1.0
        )[:, None].expand_as(left).gather(2, machine)
        index = machine.flatten(1)[..., None].expand(-1, -1, h.shape[-1])
        for linear_, norm in zip(self.rounds, self.norms, strict=True):
            before, after = functional.pad(h, (0, 0, 1, 0))[:, :, :-1], functional.pad(h, (0, 0, 0, 1))[:, :, 1:]
            on = h.new_zeros(len(h), h.shape[2], h.shape[3]).scatter_add_(
                1, index, (h * weight[..., None]).flatten(1, 2)
            )
            on = on.gather(1, index).view_as(h)
            h = norm(h + torch.relu(linear_(torch.cat([h, before, after, on], -1))))
        whole = h.mean((1, 2))
        if self.value:
            out = self.head(self.leave(torch.cat([whole, h.amax((1, 2))], -1)))
            return out.view(obs.shape[:-1])
        upcoming = x[..., 1].sum(2).long().clamp(max=h.shape[2] - 1)
        at = h.gather(2, upcoming[..., None, None].expand(-1, -1, 1, h.shape[3])).squeeze(2)
        out = self.head(self.leave(torch.cat([at, whole[:, None].expand_as(at)], -1)))
        return out.view(*obs.shape[:-1], self.jobs)
