"""Observations in units of their own spread: running mean and variance of each feature, merged batch by batch.

    x  ->  clip((x - mean) / sd, -10, 10)

Statistics of a batch are merged into those before it (Chan, Golub and LeVeque 1979), so that their number, mean and sum
of squared deviations are those of all that was seen at once, in whatever order and batches it came. Features of which
nothing but 0 and 1 was seen (flags, one-hot numbers) stay as they are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

CLIP = 10.0
_FLAT = 1e-10
"""Share of mean² below which a variance is rounding, not spread."""


class ObsNorm(nn.Module):
    """Running mean and variance of G x D features; float64 inside, its state is a part of the checkpoint.

    G agents are normalised each by its own statistics, or (1) all by the same.
    """

    count: Tensor
    mean: Tensor
    square: Tensor
    varied: Tensor

    def __init__(self, width: int, groups: int = 1) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("count", torch.zeros(groups, 1, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(groups, width, dtype=torch.float64))
        self.register_buffer("square", torch.zeros(groups, width, dtype=torch.float64))
        self.register_buffer("varied", torch.zeros(groups, width, dtype=torch.bool))
        self._shift_scale: tuple[Tensor, Tensor] | None = None

    @torch.no_grad()
    def update(self, seen: Tensor, mask: Tensor | None = None) -> None:
        """Take in a batch ``[..., A, D]``; A = G, or any where G is 1. ``mask`` bool ``[..., A]`` says which count."""
        groups = len(self.count)
        rows = seen.to(self.mean.device, torch.float64)
        rows = rows.reshape(-1, groups, self.width)
        weight = torch.ones_like(rows[..., :1])
        if mask is not None:
            weight = mask.to(rows.device, torch.float64).reshape(-1, groups, 1)
        count = weight.sum(0)
        mean = (weight * rows).sum(0) / count.clamp(min=1.0)
        square = (weight * (rows - mean).square()).sum(0)
        total = (self.count + count).clamp(min=1.0)
        apart = mean - self.mean
        self.square += square + apart.square() * self.count * count / total
        self.mean += apart * count / total
        self.count += count
        self.varied |= ((rows != 0) & (rows != 1) & (weight > 0)).any(0)
        self._shift_scale = None

    def forward(self, seen: Tensor) -> Tensor:
        """``[..., A, D]`` in units of the spread seen so far."""
        if self._shift_scale is None or self._shift_scale[0].device != seen.device:
            self._shift_scale = self._prepared(seen)
        shift, scale = self._shift_scale
        return ((seen - shift) * scale).clamp_(-CLIP, CLIP)

    def factor(self) -> float:
        """How many times the largest feature exceeds the spread of the smallest one that varies; 1 where none does.

        The size of a feature is the root of its mean square, so that an offset counts; that of a flag is 1.
        """
        var, size = self._variance(), (self._variance() + self.mean.square()).sqrt()
        moves = self.varied & (var > _FLAT * self.mean.square())
        if not bool(moves.any()):
            return 1.0
        flags = (self.square > 0) & ~self.varied
        least = min(float(var[moves].sqrt().min()), 1.0 if bool(flags.any()) else torch.inf)
        return max(float(size[self.varied].max()), 1.0 if bool(flags.any()) else 0.0) / least

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """As of ``nn.Module``."""
        self._shift_scale = None
        return super().load_state_dict(*args, **kwargs)

    def _variance(self) -> Tensor:
        return self.square / self.count.clamp(min=1.0)

    def _prepared(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """What is subtracted and what is multiplied by, ``[G, D]``."""
        var = self._variance()
        flat = ~(var > _FLAT * self.mean.square())  # a constant, up to rounding: 0 while it stays one
        sd = torch.where(flat, self.mean.abs().clamp(min=1.0), var.sqrt())
        shift, scale = self.mean * self.varied, torch.where(self.varied, 1.0 / sd, 1.0)
        return shift.to(like.device, like.dtype), scale.to(like.device, like.dtype)
