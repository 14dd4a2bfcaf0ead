"""What a thing changed, from outcomes with and without it: contrasts under known randomisation.

A reward shared by everything that was shown cannot tell a useful memory from its constant companion. Leaving a
selected memory out at random, with a logged probability, can: the difference of outcomes is its own effect.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from evolvent.core.errors import BadInput


class ArmSums(NamedTuple):
    """Weighted sums of one arm (shown or omitted): rewards, weights, squared weights; grown by ``push_outcome``."""

    reward: float = 0.0
    weight: float = 0.0
    weight_squared: float = 0.0

    @property
    def size(self) -> float:
        """Effective number of outcomes ``(sum w)² / sum w²`` (Kish 1965): what n is worth under unequal weights."""
        return self.weight**2 / self.weight_squared if self.weight_squared else 0.0


def push_outcome(arm: ArmSums, reward: float, probability: float) -> ArmSums:
    """The arm after one more outcome that had ``probability`` of landing in it; weight ``1 / probability``."""
    if not 0.0 < probability <= 1.0 or not math.isfinite(reward):
        raise BadInput(
            "an outcome needs a finite reward and a probability in (0, 1]",
            got=(reward, probability),
            where="formulas.causal.push_outcome",
            do="log the probability with which the item was shown (or omitted)",
        )
    return push_weighted(arm, reward, 1.0 / probability)


def push_weighted(arm: ArmSums, reward: float, weight: float, decay: float = 1.0) -> ArmSums:
    """The arm after one more outcome of this weight, the older ones counting ``decay`` times as much as before."""
    d, w = decay, weight
    return ArmSums(d * arm.reward + w * reward, d * arm.weight + w, d * d * arm.weight_squared + w * w)


def as_weighed(shown: ArmSums, omitted: ArmSums) -> tuple[ArmSums, ArmSums]:
    """The arms with sizes in which an outcome of weight ``w`` counts ``w``; their weights are ``w / probability``.

    Kish's size ignores a common factor. The weights of each arm add up to about those of all outcomes, and under one
    probability the larger of both sums is at least that: what it falls short of the sizes is that factor.
    """
    size, weight = shown.size + omitted.size, max(shown.weight, omitted.weight)
    if weight >= size:
        return shown, omitted
    a, b = (arm._replace(weight_squared=arm.weight_squared * size / weight) for arm in (shown, omitted))
    return a, b


def contrast(shown: ArmSums, omitted: ArmSums) -> tuple[float, float]:
    """Mean reward shown minus mean reward omitted, and its precision ``m_s m_o / (m_s + m_o)`` in outcomes.

    The means are weighted by inverse propensity and self-normalised (Hájek): consistent, and bounded by the reward
    range. An empty arm gives ``(0, 0)``: no contrast, no claim. With plain counts as weights this is the difference
    of two averages; ``m`` is then the number of outcomes that such a difference is worth.
    """
    if shown.weight <= 0.0 or omitted.weight <= 0.0:
        return 0.0, 0.0
    gap = shown.reward / shown.weight - omitted.reward / omitted.weight
    return gap, shown.size * omitted.size / (shown.size + omitted.size)


def omission_lift(shown: ArmSums, omitted: ArmSums, *, prior: float, strength: float) -> tuple[float, float]:
    """Marginal effect of showing an item, shrunk to a prior, and how much of it is evidence.

    ``lift = (strength prior + m gap) / (strength + m)`` and ``confidence = m / (strength + m)``, with gap and m of
    ``contrast``: the posterior mean of an effect whose prior is worth ``strength`` outcomes. For outcomes of variance
    v and an effect of prior standard deviation t, that is ``strength = v / t²``, and the posterior standard deviation
    is ``t sqrt(1 - confidence)``.

    Args:
        shown: outcomes of tasks that showed the item.
        omitted: outcomes of tasks that selected the item and left it out.
        prior: effect assumed before any evidence, in units of reward.
        strength: weight of the prior in outcomes, >= 0; 0 trusts the difference alone (and gives the prior for m = 0).

    Returns:
        ``(lift, confidence 0..1)``.
    """
    if strength < 0.0:
        raise BadInput("strength must be >= 0", got=strength, where="formulas.causal.omission_lift")
    gap, m = contrast(shown, omitted)
    if m == 0.0:
        return prior, 0.0
    return (strength * prior + m * gap) / (strength + m), m / (strength + m)
