"""``Preference``: losses of preference learning (DPO and relatives) on a batch with credit.

The batch's groups are pairs, its reference is the frozen model, and the credit c_u of a token is its label:

    margin of a pair    m = sum_u c_u (log pi - log ref)_u,    c = +1 in the preferred answer, -1 in the other
    move of an answer   d = sum_u     (log pi - log ref)_u

``dpo`` (with ``flipped``: conservative), ``robust`` and ``ipo`` are functions of the margin; TGDPO is ``dpo`` with
the credit of ``token_guided``. ``sppo`` and ``kto`` take each answer alone, without pairs: SPPO with credit
``P(wins) - 1/2``, KTO with the sign of the credit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from evolvent.core.errors import BadInput
from evolvent.learn.tokens.ratios import segment_mean, segment_sum
from evolvent.learn.tokens.units import Terms, Units

KINDS = ("dpo", "robust", "ipo", "sppo", "kto")
_OF_PAIRS = ("dpo", "robust", "ipo")


@dataclass(frozen=True)
class Preference:
    """A loss on pairs or on single answers."""

    kind: str = "dpo"
    """dpo, robust, ipo (pairs); sppo, kto (single answers)."""
    beta: float = 0.1
    """How far the policy may move for a preference: small is far."""
    flipped: float = 0.0
    """Share of preferences assumed to be wrong (dpo, robust)."""
    weights: tuple[float, float] = (1.0, 1.0)
    """Weight of wanted and unwanted answers (kto)."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadInput("unknown kind of preference loss", got=self.kind, expected=" or ".join(KINDS))
        if self.beta <= 0.0 or not 0.0 <= self.flipped < 0.5:
            raise BadInput("out of range", got=self, expected="beta > 0, 0 <= flipped < 0.5", where="Preference")

    needs_reference = True
    together = "group"

    def prepare(self, units: Units) -> Units:
        """One weight for each pair or answer.

        Raises:
            BadInput: no reference, a group that is not a pair, or an answer without a side.
        """
        if units.ref_logp is None:
            raise BadInput("no reference", where="Preference.prepare", do="TokenBatch.with_reference(base)")
        segment = units.group if self.kind in _OF_PAIRS else units.trajectory
        for g in torch.unique(segment).tolist() if self.kind in _OF_PAIRS else ():
            mine = segment == g
            side = segment_sum(units.adv[mine].sign(), units.trajectory[mine])[torch.unique(units.trajectory[mine])]
            if sorted(side.sign().tolist()) != [-1.0, 1.0]:
                raise BadInput(
                    "a group is not a pair",
                    got=f"{len(side)} answers, sides {side.sign().tolist()}",
                    expected="one answer with credit above 0 and one below",
                    where="Preference.prepare",
                )
        return replace(units, weight=torch.ones(len(units)).to(units.adv) / len(torch.unique(segment)))

    def spans_rows(self, units: Units) -> bool:
        """A pair is more than one row, and the anchor of KTO is made of all of them."""
        return len(torch.unique(units.row)) > 1

    def idle(self, units: Units) -> Tensor:
        """None: the loss depends on whole answers, units without credit included."""
        return torch.zeros(len(units), dtype=torch.bool)

    def terms(self, units: Units, logp: Tensor, entropy: Tensor, generator: torch.Generator | None = None) -> Terms:
        """The loss of whole pairs or answers."""
        assert units.ref_logp is not None and units.weight is not None
        moved = logp - units.ref_logp
        segment = units.group if self.kind in _OF_PAIRS else units.trajectory
        there = torch.unique(segment)
        credit = segment_mean(units.adv, segment)[there]
        total = segment_sum(moved * units.adv if self.kind in _OF_PAIRS else moved, segment)[there]
        if self.kind == "dpo":
            term = dpo(total, self.beta, flipped=self.flipped)
        elif self.kind == "robust":
            term = robust_dpo(total, self.beta, flipped=self.flipped)
        elif self.kind == "ipo":
            term = ipo(total, self.beta)
        elif self.kind == "sppo":
            term = sppo(total, credit + 0.5, self.beta)
        else:
            wanted = credit > 0
            term = kto(total, wanted, total.detach().mean().clamp(min=0.0), self.beta)
            term = term * torch.where(wanted, self.weights[0], self.weights[1])
        metrics = {"margin": total.detach(), "accuracy": (total.detach() > 0).float()}
        if self.kind not in _OF_PAIRS:
            metrics = {"margin": (total * credit.sign()).detach(), "accuracy": ((total * credit).detach() > 0).float()}
        return Terms(units.weight[0] * term.sum(), metrics)


# ----------------------------------------- losses of pairs (or answers) ``[P]``, with ``delta`` the move of an answer
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
