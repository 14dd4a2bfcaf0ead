"""``Objective``: what a policy gradient minimises, as one choice on each of a few axes.

    L = sum_u w_u [ keep_u phi(ratio_u, A_u, log pi_u) / (1 + opmd) + kl KL_u - entropy H_u ] + kl_cov |log r_u| there

A unit u is a token (or a whole action). Where the advantage ``A_u`` comes from is credit and no business of an
objective. ``learn.tokens.objectives_of_papers`` holds the choices of the published systems.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from evolvent.core.errors import BadInput
from evolvent.formulas.entropy import relative_entropy
from evolvent.learn.losses import normalised
from evolvent.learn.tokens.axis import Now, Part, part_of
from evolvent.learn.tokens.keep import KEEPS, covariance, top_covariance
from evolvent.learn.tokens.ratios import KL_FORMS, RATIOS, kl, log_ratios, ratios, segment_mean
from evolvent.learn.tokens.surrogates import SURROGATES, Surrogate, clipped, redistributed
from evolvent.learn.tokens.units import Terms, Units
from evolvent.learn.tokens.weights import AGGREGATES, token_weights

NORMALISE = {
    "none": Part(lambda adv: adv),
    "minibatch": Part(partial(normalised, eps=1e-8)),
    "turns": Part(partial(normalised, eps=1e-8)),
}
"""By name: a function of the advantages of an optimiser step, ``[U]``; ``turns`` is given one of each turn."""
AXES: dict[str, Mapping[str, Part]] = {
    "ratio": RATIOS,
    "keep": KEEPS,
    "normalise": NORMALISE,
    "aggregate": AGGREGATES,
    "kl_form": KL_FORMS,
}
"""The choices of each axis by name, besides the surrogate."""


@dataclass(frozen=True)
class Objective:
    """One choice on each axis; the defaults are PPO on tokens."""

    surrogate: str = "ppo"
    """phi: one of pg, is, ppo, log_sym, cispo, sapo, aepo_ste, gmpo, adaptive (HAPO), nft.

    Here, and for every choice that is a name: or file.py:NAME, a function of your own (``learn.tokens.axis``)."""
    ratio: str = "token"
    """Level of the importance ratio: none, token, turn, trajectory, seq_geo (geometric mean, GSPO)."""
    clip_low: float = 0.2
    """How far below 1 a ratio counts."""
    clip_high: float = 0.2
    """How far above 1 a ratio counts (also the eps of log_sym)."""
    dual: float = 0.0
    """Bound c > 1 on what a negative advantage can cost (ppo, adaptive); 0 = none."""
    gate: tuple[float, float] = (1.0, 1.05)
    """Temperatures of sapo, for positive and negative advantages."""
    redistribute: bool = False
    """Advantages follow entropy and ratio (HAPO); not together with ``credit.token_entropy_redistribute``."""
    floor: float = 1.0
    """Smallest ratio of the implicit negative policy (nft)."""
    keep: str = "all"
    """Units that take part: all, clip_cov, top_entropy, neg_seq_kl, nonzero. The others stay in the denominator."""
    keep_share: float = 2e-4
    """Share of the units that clip_cov drops or top_entropy keeps."""
    keep_range: tuple[float, float] = (1.0, 5.0)
    """Covariances that clip_cov may drop; the first is the limit of neg_seq_kl and nonzero."""
    normalise: str = "none"
    """minibatch: advantages to mean 0, deviation 1 over the units of an optimiser step (POAD); turns: over its turns,
    each counted once (OpenR)."""
    aggregate: str = "token_mean"
    """token_mean, turn_mean, seq_mean_token_mean, seq_mean_token_sum, const."""
    length: int = 0
    """Largest number of tokens of a trajectory (const)."""
    kl: float = 0.0
    """Weight of the divergence from the reference."""
    kl_form: str = "k3"
    """Its estimator: k1, k2, k3."""
    kl_cov: float = 0.0
    """Share of the units, those of largest covariance, that pay for moving (KL-Cov); 0 = none."""
    kl_cov_weight: float = 1.0
    """What they pay, times |log pi - log pi_old|."""
    entropy: float = 0.0
    """Weight of the entropy."""
    opmd: float = 0.0
    """Temperature of OPMD: the surrogate is divided by 1 + opmd."""

    def __post_init__(self) -> None:
        parts, phi = self._parts, self._phi
        if self.ratio in RATIOS and self.ratio not in phi.ratios:
            raise BadInput(
                "surrogate and ratio do not go together",
                got=f"{self.surrogate} with ratio={self.ratio}",
                expected=" or ".join(phi.ratios),
                where="Objective",
            )
        if any("length" in part.needs for part in parts) and self.length <= 0:
            raise BadInput(
                f"aggregate {self.aggregate} needs a length", got=self.length, expected="> 0", where="Objective"
            )
        least = all(x >= 0 for x in (self.clip_high, *self.gate))  # of NaN nothing is true
        if not (least and 0 <= self.clip_low < 1 and self.floor > 0):
            raise BadInput(
                "range out of bounds", got=self, expected="0 <= clip_low < 1, others >= 0", where="Objective"
            )

    @property
    def needs_reference(self) -> bool:
        """Whether log-probabilities of a reference are needed."""
        return self.kl > 0.0

    @property
    def needs_old(self) -> bool:
        """Whether log-probabilities as sampled are needed."""
        return any("old_logp" in part.needs for part in self._parts) or self.kl_cov > 0.0

    @property
    def needs_entropy(self) -> bool:
        """Whether entropies as sampled are needed."""
        return any("entropy" in part.needs for part in self._parts) or self.redistribute

    @property
    def together(self) -> str:
        """A trajectory is never split over two optimiser steps."""
        return "trajectory"

    def prepare(self, units: Units) -> Units:
        """Weights, normalised advantages and relative entropies over the units of one optimiser step.

        Raises:
            BadInput: a column that the objective needs is missing or not known.
        """
        for needed, column, name, do in (
            (self.needs_old, units.old_logp, "log-probabilities as sampled", "TokenBatch.with_old(policy)"),
            (self.needs_reference, units.ref_logp, "reference log-probabilities", "TokenBatch.with_reference(base)"),
            (self.needs_entropy, units.entropy, "entropies as sampled", "note them: episode.note('entropy', …)"),
        ):
            if needed and (column is None or bool(column.isnan().any())):
                raise BadInput(f"no {name}", expected="one for every unit", where="Objective.prepare", do=do)
        normalise = part_of("normalise", self.normalise, NORMALISE, Part).call
        if self.normalise == "turns":
            turn = torch.unique(units.row, return_inverse=True)[1]
            adv = normalise(segment_mean(units.adv, turn))[turn]
        else:
            adv = normalise(units.adv)
        weight = token_weights(units.trajectory, self.aggregate, length=self.length, turn=units.row).to(adv)
        units = replace(units, adv=adv, weight=weight)
        if ("entropy" in self._phi.needs or self.redistribute) and units.entropy is not None:
            h = torch.as_tensor(relative_entropy(units.entropy.numpy(force=True))).to(adv)
            units = replace(units, h=h)
        keep = self._keep
        return replace(units, kept=keep.call(self, units)) if keep.spans == "sampled" else units

    def spans_rows(self, units: Units) -> bool:
        """Whether a unit's loss needs units of other rows: covariances always, long ratios where turns are rows."""
        if self.kl_cov > 0.0 or any(part.spans == "step" for part in self._parts):
            return True
        return self._long and len(torch.unique(units.row)) > len(torch.unique(units.trajectory))

    def idle(self, units: Units) -> Tensor:
        """Units of rows that contribute nothing; where ratios are long, of whole trajectories that do."""
        if self.kl > 0.0 or self.entropy > 0.0 or self.kl_cov > 0.0 or self._keep.spans == "step":
            return torch.zeros(len(units), dtype=torch.bool)
        busy = (units.adv != 0.0) if units.kept is None else (units.adv != 0.0) & units.kept
        segment = units.trajectory if self._long else units.row
        return torch.zeros(int(segment.max()) + 1).index_add(0, segment, busy.float())[segment] == 0

    def terms(self, units: Units, logp: Tensor, entropy: Tensor, generator: torch.Generator | None = None) -> Terms:
        """The loss of some units, given log-probability and entropy of the policy now, ``[U]`` each."""
        assert units.weight is not None
        old = torch.where(units.old_logp.isnan(), logp.detach(), units.old_logp)
        log_ratio = log_ratios(logp, old)
        ratio = ratios(logp, old, self.ratio, turn=units.row, trajectory=units.trajectory)
        low, high = self._phi.bounds(self, units)
        cut_low, cut_high = clipped(ratio.detach(), units.adv, low, high)
        now = Now(logp, ratio, log_ratio, units.adv, low, high, units.trajectory, cut_low | cut_high, generator)
        term, kept = self._surrogate(units, now), self._kept(units, now)
        # where, not a product: a term that does not count may be infinite
        term = torch.where(kept, term, torch.zeros_like(term)) / (1.0 + self.opmd)
        metrics = {"ratio": ratio.detach(), "clip_low": cut_low, "clip_high": cut_high, "kept": kept}
        if self.kl > 0.0 and units.ref_logp is not None:
            term = term + self.kl * kl(logp, units.ref_logp, self.kl_form)
        if self.kl_cov > 0.0:
            picked = top_covariance(covariance(units.adv, logp.detach()), self.kl_cov)
            term = term + self.kl_cov_weight * torch.where(picked, log_ratio.abs(), torch.zeros_like(term))
        if self.entropy > 0.0:
            term = term - self.entropy * entropy
        return Terms((units.weight * term).sum(), metrics)

    # ---------------------------------------------------------------------------------------------------- inside
    @property
    def _phi(self) -> Surrogate:
        return part_of("surrogate", self.surrogate, SURROGATES, Surrogate)

    @property
    def _keep(self) -> Part:
        return part_of("keep", self.keep, KEEPS, Part)

    @property
    def _parts(self) -> list[Part]:
        return [self._phi, *(part_of(axis, getattr(self, axis), known, Part) for axis, known in AXES.items())]

    @property
    def _long(self) -> bool:
        return any(part.spans == "trajectory" for part in self._parts)

    def _surrogate(self, units: Units, now: Now) -> Tensor:
        if self.redistribute and units.h is not None:
            now = now._replace(adv=redistributed(now.adv, now.ratio, units.h, self.clip_low, self.clip_high))
        return self._phi.call(self, now)

    def _kept(self, units: Units, now: Now) -> Tensor:
        if units.kept is not None and self._keep.spans == "sampled":
            return units.kept
        return self._keep.call(self, now._replace(logp=now.logp.detach(), log_ratio=now.log_ratio.detach()))
