"""Normalised value targets whose statistics can follow returns that grow by orders of magnitude.

The critic predicts ``(R - mean) / sd``. Mean and mean square are moving averages with weight ``beta``, corrected for
their start at zero: ``m <- beta m + (1 - beta) mean(R)``, ``d <- beta d + (1 - beta)``, mean = ``m / d``.

Deviations from the released multi-agent code, on purpose:

- ``beta`` counts *rollouts*: call ``update`` once a rollout with all its targets. There the weight is 0.99999 on every
  minibatch of every epoch, which hardly forgets: returns that went from -100 to 9000 are still normalised by the old
  ones. 0.99 here remembers about a hundred rollouts; smaller follows faster.
- ``update(…, head=…)`` rescales the critic's last layer so that its values in units of reward stay what they were
  (PopArt, van Hasselt et al. 2016, arXiv 1602.07714). Without that a change of scale changes every value.
- Before the first update nothing is changed; there, values are shrunk to a tenth.
- It is a module: its statistics stand in ``state_dict`` and so in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from evolvent.core.errors import BadInput

_MIN_VARIANCE = 1e-2


class ValueNorm(nn.Module):
    """Running mean and spread of value targets, one pair for all outputs; float64 inside."""

    mean_sum: Tensor
    square_sum: Tensor
    weight: Tensor

    def __init__(self, beta: float = 0.99) -> None:
        super().__init__()
        if not 0.0 <= beta < 1.0:
            raise BadInput("beta out of range", got=beta, expected="0 <= beta < 1", where="ValueNorm")
        self.beta = beta
        for name in ("mean_sum", "square_sum", "weight"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))

    @property
    def mean(self) -> float:
        """Mean of the targets; 0 before the first update."""
        return float(self.mean_sum / self.weight) if self.weight > 0 else 0.0

    @property
    def sd(self) -> float:
        """Their standard deviation, at least 0.1; 1 before the first update."""
        if not self.weight > 0:
            return 1.0
        variance = self.square_sum / self.weight - (self.mean_sum / self.weight) ** 2
        return float(variance.clamp(min=_MIN_VARIANCE).sqrt())

    @torch.no_grad()
    def update(
        self, target: Tensor, *, mask: Tensor | None = None, head: nn.Linear | Sequence[nn.Linear] | None = None
    ) -> None:
        """Take in the targets of one rollout, in units of reward; with nothing to count (``mask``) nothing changes.

        ``head`` is the last linear layer of the critic (or of several), rescaled so that ``denormalise(critic)`` stays
        the same.

        Raises:
            BadInput: a target that is NaN or infinite.
        """
        values = (target if mask is None else target[mask]).double()
        if not values.numel():
            return
        if not torch.isfinite(values).all():
            raise BadInput("a value target is not finite", where="ValueNorm.update", do="check rewards and values")
        mean, sd = self.mean, self.sd
        first, second = values.mean().item(), (values**2).mean().item()
        for name, new in (("mean_sum", first), ("square_sum", second), ("weight", 1.0)):
            old = cast("Tensor", getattr(self, name))
            old.mul_(self.beta).add_((1.0 - self.beta) * new)
        for layer in () if head is None else (head,) if isinstance(head, nn.Linear) else head:
            layer.weight.mul_(sd / self.sd)
            layer.bias.mul_(sd).add_(mean - self.mean).div_(self.sd)

    def normalise(self, value: Tensor) -> Tensor:
        """Units of reward → what the critic says."""
        return (value - self.mean) / self.sd

    def denormalise(self, value: Tensor) -> Tensor:
        """What the critic says → units of reward."""
        return value * self.sd + self.mean
