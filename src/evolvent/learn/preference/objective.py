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

from evolvent.core.errors import BadInput
from evolvent.learn.preference import losses as pair_losses
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
            term = pair_losses.dpo(total, self.beta, flipped=self.flipped)
        elif self.kind == "robust":
            term = pair_losses.robust_dpo(total, self.beta, flipped=self.flipped)
        elif self.kind == "ipo":
            term = pair_losses.ipo(total, self.beta)
        elif self.kind == "sppo":
            term = pair_losses.sppo(total, credit + 0.5, self.beta)
        else:
            wanted = credit > 0
            term = pair_losses.kto(total, wanted, total.detach().mean().clamp(min=0.0), self.beta)
            term = term * torch.where(wanted, self.weights[0], self.weights[1])
        metrics = {"margin": total.detach(), "accuracy": (total.detach() > 0).float()}
        if self.kind not in _OF_PAIRS:
            metrics = {"margin": (total * credit.sign()).detach(), "accuracy": ((total * credit).detach() > 0).float()}
        return Terms(units.weight[0] * term.sum(), metrics)
