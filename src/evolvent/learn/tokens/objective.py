"""``Objective``: what a policy gradient minimises, as one choice on each of a few axes.

    L = sum_u w_u [ keep_u phi(ratio_u, A_u, log pi_u) / (1 + opmd) + kl KL_u - entropy H_u ] + kl_cov |log r_u| there

A unit u is a token (or a whole action). Where the advantage ``A_u`` comes from is credit and no business of an
objective. ``learn.tokens.objectives_of_papers`` holds the choices of the published systems.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from evolvent.core import outside
from evolvent.core.errors import BadInput
from evolvent.formulas.entropy import relative_entropy
from evolvent.learn.losses import normalised
from evolvent.learn.tokens import keep as keeps
from evolvent.learn.tokens import surrogates
from evolvent.learn.tokens.adaptive_clip import adaptive_bounds, redistributed
from evolvent.learn.tokens.ratios import LEVELS, log_ratios, ratios
from evolvent.learn.tokens.regularisers import KL_FORMS, kl
from evolvent.learn.tokens.units import Terms, Units
from evolvent.learn.tokens.weights import AGGREGATES, token_weights

SURROGATES: dict[str, Callable[[Objective, surrogates.Now], Tensor]] = {
    "pg": lambda _, u: surrogates.pg(u.logp, u.adv),
    "is": lambda _, u: surrogates.importance(u.ratio, u.adv),
    "ppo": lambda o, u: surrogates.ppo(u.ratio, u.adv, u.low, u.high, dual=o.dual),
    "log_sym": lambda o, u: surrogates.ppo(u.ratio, u.adv, u.low, u.high, dual=o.dual),
    "cispo": lambda _, u: surrogates.cispo(u.ratio, u.adv, u.logp, u.low, u.high),
    "sapo": lambda o, u: surrogates.sapo(u.ratio, u.adv, *o.gate),
    "aepo_ste": lambda o, u: surrogates.aepo_ste(u.ratio, u.adv, o.clip_low, o.clip_high),
    "gmpo": lambda o, u: surrogates.gmpo(u.log_ratio, u.adv, u.trajectory, o.clip_low, o.clip_high),
    "adaptive": lambda o, u: surrogates.ppo(u.ratio, u.adv, u.low, u.high, dual=o.dual),
    "nft": lambda o, u: surrogates.nft(u.ratio, u.adv, o.floor),
}
"""phi by name: one function of ``learn.tokens.surrogates`` each."""


def surrogate_named(name: str) -> Callable[[Objective, surrogates.Now], Tensor]:
    """One of ``SURROGATES``, or ``file.py:phi``: a function of the objective and what there is now, to ``[U]``.

    Raises:
        BadInput: no such surrogate, file, or function.
    """
    at = outside.pointer(name)
    if at is None and name not in SURROGATES:
        raise BadInput("unknown surrogate", got=name, expected=" or ".join(SURROGATES), where="Objective")
    return SURROGATES[name] if at is None else outside.load(at, "a surrogate", ("phi",))[2]


NORMALISE = ("none", "minibatch")
_PER_TOKEN = ("gmpo", "adaptive", "nft")  # defined on the ratio of single tokens


@dataclass(frozen=True)
class Objective:
    """One choice on each axis; the defaults are PPO on tokens."""

    surrogate: str = "ppo"
    """phi: one of pg, is, ppo, log_sym, cispo, sapo, aepo_ste, gmpo, adaptive (HAPO), nft; or file.py:phi."""
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
    """minibatch: advantages to mean 0, deviation 1 over the units of an optimiser step (POAD)."""
    aggregate: str = "token_mean"
    """token_mean, seq_mean_token_mean, seq_mean_token_sum, const."""
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
        for name, value, known in (
            ("ratio", self.ratio, LEVELS), ("keep", self.keep, keeps.KEEPS),
            ("normalise", self.normalise, NORMALISE), ("aggregate", self.aggregate, AGGREGATES),
            ("kl_form", self.kl_form, KL_FORMS),
        ):  # fmt: skip
            if value not in known:
                raise BadInput(f"unknown {name}", got=value, expected=" or ".join(known), where="Objective")
        surrogate_named(self.surrogate)
        wanted: tuple[str, ...] = LEVELS
        if self.surrogate in SURROGATES:
            wanted = ("none",) if self.surrogate == "pg" else ("token",) if self.surrogate in _PER_TOKEN else LEVELS[1:]
        if self.ratio not in wanted:
            raise BadInput(
                "surrogate and ratio do not go together", got=f"{self.surrogate} with ratio={self.ratio}",
                expected=" or ".join(wanted), where="Objective",
            )  # fmt: skip
        if self.aggregate == "const" and self.length <= 0:
            raise BadInput("aggregate const needs a length", got=self.length, expected="> 0", where="Objective")
        if min(self.clip_low, self.clip_high, self.floor, *self.gate) < 0 or self.clip_low >= 1 or self.floor == 0:
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
        return self.ratio != "none" or self.keep == "neg_seq_kl" or self.kl_cov > 0.0

    @property
    def needs_entropy(self) -> bool:
        """Whether entropies as sampled are needed."""
        return self.keep == "top_entropy" or self.surrogate == "adaptive" or self.redistribute

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
        ):  # fmt: skip
            if needed and (column is None or bool(column.isnan().any())):
                raise BadInput(f"no {name}", expected="one for every unit", where="Objective.prepare", do=do)
        adv = normalised(units.adv, eps=1e-8) if self.normalise == "minibatch" else units.adv
        weight = token_weights(units.trajectory, self.aggregate, length=self.length).to(adv)
        h, kept = None, None
        if (self.surrogate == "adaptive" or self.redistribute) and units.entropy is not None:
            h = torch.as_tensor(relative_entropy(units.entropy.numpy(force=True))).to(adv)
        if self.keep == "top_entropy" and units.entropy is not None:
            kept = keeps.top_entropy(units.entropy, self.keep_share)
        if self.keep == "nonzero":
            kept = keeps.nonzero(adv, self.keep_range[0])
        return replace(units, adv=adv, weight=weight, h=h, kept=kept)

    def spans_rows(self, units: Units) -> bool:
        """Whether a unit's loss needs units of other rows: covariances always, long ratios where turns are rows."""
        if self.keep == "clip_cov" or self.kl_cov > 0.0:
            return True
        return self._long and len(torch.unique(units.row)) > len(torch.unique(units.trajectory))

    def idle(self, units: Units) -> Tensor:
        """Units of rows that contribute nothing; where ratios are long, of whole trajectories that do."""
        if self.kl > 0.0 or self.entropy > 0.0 or self.kl_cov > 0.0 or self.keep == "clip_cov":
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
        low, high = self._bounds(units)
        cut_low, cut_high = surrogates.clipped(ratio.detach(), units.adv, low, high)
        term = self._surrogate(units, logp, ratio, log_ratio)
        kept = self._kept(units, logp.detach(), log_ratio.detach(), cut_low | cut_high, generator)
        # where, not a product: a term that does not count may be infinite
        term = torch.where(kept, term, torch.zeros_like(term)) / (1.0 + self.opmd)
        metrics = {"ratio": ratio.detach(), "clip_low": cut_low, "clip_high": cut_high, "kept": kept}
        if self.kl > 0.0 and units.ref_logp is not None:
            term = term + self.kl * kl(logp, units.ref_logp, self.kl_form)
        if self.kl_cov > 0.0:
            picked = keeps.top_covariance(keeps.covariance(units.adv, logp.detach()), self.kl_cov)
            term = term + self.kl_cov_weight * torch.where(picked, log_ratio.abs(), torch.zeros_like(term))
        if self.entropy > 0.0:
            term = term - self.entropy * entropy
        return Terms((units.weight * term).sum(), metrics)

    # ---------------------------------------------------------------------------------------------------- inside
    @property
    def _long(self) -> bool:
        return self.ratio in ("trajectory", "seq_geo") or self.surrogate == "gmpo" or self.keep == "neg_seq_kl"

    def _bounds(self, units: Units) -> tuple[surrogates.Bound, surrogates.Bound]:
        if self.surrogate == "adaptive" and units.h is not None:
            return adaptive_bounds(units.h, self.clip_low, self.clip_high)
        low = self.clip_high / (1.0 + self.clip_high) if self.surrogate == "log_sym" else self.clip_low
        return low, self.clip_high

    def _surrogate(self, units: Units, logp: Tensor, ratio: Tensor, log_ratio: Tensor) -> Tensor:
        adv, (low, high) = units.adv, self._bounds(units)
        if self.redistribute and units.h is not None:
            adv = redistributed(adv, ratio, units.h, self.clip_low, self.clip_high)
        now = surrogates.Now(logp, ratio, log_ratio, adv, low, high, units.trajectory)
        return surrogate_named(self.surrogate)(self, now)

    def _kept(
        self, units: Units, logp: Tensor, log_ratio: Tensor, cut: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        if self.keep == "clip_cov":
            low, high = self.keep_range
            cov = keeps.covariance(units.adv, logp)
            return keeps.clip_cov(cov, cut, share=self.keep_share, low=low, high=high, generator=generator)
        if self.keep == "neg_seq_kl":
            return keeps.neg_seq_kl(units.adv, log_ratio, units.trajectory, self.keep_range[0])
        return torch.ones_like(units.adv, dtype=torch.bool) if units.kept is None else units.kept
