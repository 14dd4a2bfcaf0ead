"""Aggregation as a weight for every unit, fixed before the optimiser step: the loss is ``sum_u weight_u term_u``.

Since the weights count over the whole step, micro-batches simply add up, whatever their number or size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent.core.errors import BadInput
from evolvent.learn.tokens.ratios import segment_sum

AGGREGATES = ("token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "const")


def token_weights(trajectory: Tensor, aggregate: str, *, length: int = 0) -> Tensor:
    """Weight of each unit, float32 ``[U]``; B is the number of trajectories in the step.

    ``token_mean``: 1/U. ``seq_mean_token_mean``: the mean over trajectories of the mean over their units.
    ``seq_mean_token_sum``: the mean over trajectories of the sum. ``const``: the sum over ``B * length`` (Dr. GRPO,
    arXiv 2503.20783: no trajectory counts less for being long, ``length`` is the largest there can be).

    Args:
        trajectory: int64 ``[U]``, of every unit of the step.
        aggregate: one of ``AGGREGATES``.
        length: of ``const``.

    Raises:
        BadInput: unknown name, or ``const`` without a length.
    """
    ones = torch.ones(len(trajectory), dtype=torch.float32, device=trajectory.device)
    n = max(1, len(torch.unique(trajectory)))
    if aggregate == "token_mean":
        return ones / max(1, len(trajectory))
    if aggregate == "seq_mean_token_mean":
        return ones / (n * segment_sum(ones, trajectory)[trajectory])
    if aggregate == "seq_mean_token_sum":
        return ones / n
    if aggregate == "const" and length > 0:
        return ones / (n * length)
    if aggregate == "const":
        raise BadInput("no length to divide by", got=length, expected="the largest number of tokens", where="const")
    raise BadInput("unknown aggregate", got=aggregate, expected=AGGREGATES, where="learn.token_weights")
