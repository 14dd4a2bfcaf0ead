"""Aggregation as a weight for every unit, fixed before the optimiser step: the loss is ``sum_u weight_u term_u``.

Since the weights count over the whole step, micro-batches simply add up, whatever their number or size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent.core.errors import BadInput
from evolvent.learn.tokens.axis import Part, part_of
from evolvent.learn.tokens.ratios import segment_sum


def token_mean(trajectory: Tensor, _: int) -> Tensor:
    """1/U: the mean over all units."""
    return _ones(trajectory) / max(1, len(trajectory))


def seq_mean_token_mean(trajectory: Tensor, _: int) -> Tensor:
    """The mean over trajectories of the mean over their units."""
    ones = _ones(trajectory)
    return ones / (_count(trajectory) * segment_sum(ones, trajectory)[trajectory])


def seq_mean_token_sum(trajectory: Tensor, _: int) -> Tensor:
    """The mean over trajectories of the sum over their units."""
    return _ones(trajectory) / _count(trajectory)


def const(trajectory: Tensor, length: int) -> Tensor:
    """The sum over ``B length``: no trajectory counts less for being long (Dr. GRPO, arXiv 2503.20783)."""
    if length <= 0:
        raise BadInput("no length to divide by", got=length, expected="the largest number of tokens", where="const")
    return _ones(trajectory) / (_count(trajectory) * length)


AGGREGATES = {
    "token_mean": Part(token_mean),
    "turn_mean": Part(seq_mean_token_mean),
    "seq_mean_token_mean": Part(seq_mean_token_mean),
    "seq_mean_token_sum": Part(seq_mean_token_sum),
    "const": Part(const, ("length",)),
}
"""By name: a function of the trajectory of each unit, int64 ``[U]``, and of a length, to float32 ``[U]``;
``turn_mean`` is given turns in their place."""


def token_weights(trajectory: Tensor, aggregate: str, *, length: int = 0, turn: Tensor | None = None) -> Tensor:
    """Weight of each unit, float32 ``[U]``; B is the number of trajectories in the step.

    ``trajectory`` and, for ``turn_mean``, ``turn`` (the decision) are int64 ``[U]``; ``const`` needs ``length``, the
    largest number of tokens of a trajectory.

    Raises:
        BadInput: neither one of ``AGGREGATES`` nor ``file.py:NAME``, or ``const`` without a length.
    """
    segment = turn if aggregate == "turn_mean" and turn is not None else trajectory
    return part_of("aggregate", aggregate, AGGREGATES, Part).call(segment, length)


def _ones(trajectory: Tensor) -> Tensor:
    return torch.ones(len(trajectory), dtype=torch.float32, device=trajectory.device)


def _count(trajectory: Tensor) -> int:
    return max(1, len(torch.unique(trajectory)))
