"""A selective state-space mixer (Mamba), written in torch: a parallel form to learn, a form that goes on to act.

    h_t = exp(Δ_t A) h_{t-1} + Δ_t B_t x_t,   y_t = C_t h_t + D x_t,   Δ, B, C linear in x

between a short causal convolution and a gate: out(y · SiLU(z)), x and z from one projection of the input.

Paper: Gu & Dao 2023, Mamba: Linear-Time Sequence Modeling with Selective State Spaces (arXiv 2312.00752).

The gradient of ``recurrence`` is the same recurrence backwards, so nothing in between is kept. On a GPU the steps are
solved in pairs: 2 log2 K rounds of products over half, a quarter, … of them, about three times the work of a loop but
not its K small operations. A processor is faster in order and in place: half the time of a loop whose gradient torch
finds, where pairs take 1.3 to 2.4 times that of such a loop (K 60, 16k to 131k numbers a step, one thread). A token
never depends on a later one, to the last bit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Going(NamedTuple):
    """Where a mixer stands, a row a copy: the last inputs of the convolution ``[B, E, 3]``, the state ``[B, E, S]``."""

    near: Tensor
    state: Tensor

    def forget(self, rows: Tensor) -> None:
        """These rows (int64) start over."""
        self.near[rows] = 0.0
        self.state[rows] = 0.0


class Mixer(nn.Module):
    """``[B, K, width]`` to the same; inside ``expansion`` times as wide, with ``states`` numbers of state a channel."""

    KERNEL = 4

    def __init__(self, width: int, *, states: int = 16, expansion: int = 2) -> None:
        super().__init__()
        inner, self.rank, self.states = expansion * width, math.ceil(width / 16), states
        self.inward = nn.Linear(width, 2 * inner, bias=False)
        self.convolution = nn.Conv1d(inner, inner, self.KERNEL, groups=inner)
        self.select, self.delta = nn.Linear(inner, self.rank + 2 * states, bias=False), nn.Linear(self.rank, inner)
        # A = -1, -2, …; the convolution is unlike at start, Δ between .001 and .1, as published
        self.log_a = nn.Parameter(torch.arange(1, states + 1.0).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.outward = nn.Linear(inner, width, bias=False)
        nn.init.uniform_(self.delta.weight, -(self.rank**-0.5), self.rank**-0.5)
        first = torch.exp(torch.empty(inner).uniform_(math.log(1e-3), math.log(1e-1)))
        with torch.no_grad():
            self.delta.bias.copy_(first + torch.log(-torch.expm1(-first)))  # softplus gives ``first``

    def start(self, batch: int) -> Going:
        """Nothing seen yet."""
        zeros, inner = self.skip.new_zeros, len(self.skip)
        return Going(zeros(batch, inner, self.KERNEL - 1), zeros(batch, inner, self.states))

    def forward(self, x_BKW: Tensor) -> Tensor:
        """All tokens at once, from nothing."""
        return self._run(x_BKW, self.start(len(x_BKW)))[0]

    @torch.no_grad()
    def step(self, x_MJW: Tensor, going: Going, rows: Tensor) -> Tensor:
        """J further tokens of M rows (int64, distinct), ``[M, J, width]`` to the same; ``going`` goes on."""
        y, after = self._run(x_MJW, Going(*(part[rows] for part in going)))
        for part, new in zip(going, after, strict=True):
            part[rows] = new
        return y

    def _run(self, x_BKW: Tensor, before: Going) -> tuple[Tensor, Going]:
        x, gate = self.inward(x_BKW).chunk(2, -1)
        near = torch.cat([before.near, x.transpose(1, 2)], -1)
        x_BKE = functional.silu(self.convolution(near)).transpose(1, 2)
        rank, b_BKS, c_BKS = self.select(x_BKE).split([self.rank, self.states, self.states], -1)
        delta_BKE = functional.softplus(self.delta(rank))
        keep = torch.exp(delta_BKE.unsqueeze(-1) * -self.log_a.exp())
        add = (delta_BKE * x_BKE).unsqueeze(-1) * b_BKS.unsqueeze(2)
        add = torch.cat([add[:, :1] + keep[:, :1] * before.state.unsqueeze(1), add[:, 1:]], 1)
        state = recurrence(keep.transpose(0, 1), add.transpose(0, 1)).transpose(0, 1)  # [B, K, E, S]
        y = (state @ c_BKS.unsqueeze(-1)).squeeze(-1) + self.skip * x_BKE
        return self.outward(y * functional.silu(gate)), Going(near[..., x_BKW.shape[1] :], state[:, -1])


def recurrence(keep: Tensor, add: Tensor) -> Tensor:
    """``h_t = keep_t h_{t-1} + add_t`` from ``h_{-1} = 0``; time is the first axis, ``[K, ...]``, of all three."""
    return _Recurrence.apply(keep.contiguous(), add.contiguous())


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, keep: Tensor, add: Tensor) -> Tensor:
        state = _solve(keep, add)
        ctx.save_for_backward(keep, state)
        return state

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        keep, state = ctx.saved_tensors
        # g_t = dL/dh_t + keep_{t+1} g_{t+1}: the same recurrence, backwards in time
        later = torch.cat([torch.zeros_like(keep[:1]), keep[1:].flip(0)])
        back = _solve(later, grads[0].flip(0)).flip(0)
        return torch.cat([torch.zeros_like(keep[:1]), back[1:] * state[:-1]]), back


def _solve(keep: Tensor, add: Tensor) -> Tensor:
    return in_order(keep, add) if keep.device.type == "cpu" else in_pairs(keep, add)


def in_order(keep: Tensor, add: Tensor) -> Tensor:
    """One step after the other; without gradients."""
    state = add.clone()
    steps = state.unbind(0)
    for t, (kept, step) in enumerate(zip(keep.unbind(0)[1:], steps[1:], strict=True)):
        step.addcmul_(kept, steps[t])
    return state


def in_pairs(keep: Tensor, add: Tensor) -> Tensor:
    """Steps in pairs are half as many steps of the same kind; then the ones between follow; without gradients."""
    steps = len(add)
    if steps == 1:
        return add
    state, half = torch.empty_like(add), steps // 2 * 2
    second = slice(1, half, 2)
    state[second] = in_pairs(keep[second] * keep[0:half:2], torch.addcmul(add[second], keep[second], add[0:half:2]))
    state[0] = add[0]
    if steps > 2:
        state[2::2] = torch.addcmul(add[2::2], keep[2::2], state[1 : steps - 1 : 2])
    return state
