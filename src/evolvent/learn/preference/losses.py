"""Preference losses on recorded answers: functions of the log-ratio between the policy and a reference.

``delta = sum over the tokens of log pi - log ref`` of an answer; ``w`` is the preferred answer, ``l`` the other one.
Element by element over pairs (or answers) ``[P]``.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def dpo(margin: Tensor, beta: float = 0.1, *, flipped: float = 0.0) -> Tensor:
    """``-log sigmoid(beta m)``, ``m = delta_w - delta_l`` (Rafailov et al. 2023, arXiv 2305.18290).

    ``flipped`` is the share of labels assumed wrong (conservative DPO): ``-(1 - e) log s(bm) - e log s(-bm)``.
    """
    return -(1.0 - flipped) * logsigmoid(beta * margin) - flipped * logsigmoid(-beta * margin)


def robust_dpo(margin: Tensor, beta: float = 0.1, *, flipped: float = 0.1) -> Tensor:
    """DPO that is unbiased under a known share of wrong labels (Chowdhury et al. 2024, arXiv 2403.00409)."""
    right, wrong = logsigmoid(beta * margin), logsigmoid(-beta * margin)
    return (-(1.0 - flipped) * right + flipped * wrong) / (1.0 - 2.0 * flipped)


def ipo(margin: Tensor, beta: float = 0.1) -> Tensor:
    """``(m - 1 / (2 beta))^2`` (Azar et al. 2023, arXiv 2310.12036), with sums over tokens."""
    return (margin - 1.0 / (2.0 * beta)) ** 2


def sppo(delta: Tensor, win: Tensor, beta: float = 1e-3) -> Tensor:
    """``1/2 (delta - (P - 1/2) / beta)^2`` of an answer that wins with probability P (Wu et al., arXiv 2405.00675).

    ``win`` is 1 and 0 for the hard form. The loss of a pair is the sum of both (some code has twice that).
    """
    return 0.5 * (delta - (win - 0.5) / beta) ** 2


def kto(delta: Tensor, desirable: Tensor, anchor: Tensor, beta: float = 0.1) -> Tensor:
    """``1 - sigmoid(±beta (delta - z))`` of one answer, wanted or not (Ethayarajh et al. 2024, arXiv 2402.01306).

    ``desirable`` bool; ``anchor`` z is the KL of the policy to the reference, at least 0, no gradient through it.
    """
    sign = torch.where(desirable, 1.0, -1.0).to(delta.dtype)
    return 1.0 - torch.sigmoid(sign * beta * (delta - anchor.detach()))
