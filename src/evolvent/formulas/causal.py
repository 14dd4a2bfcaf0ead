"""What a thing changed, from outcomes with and without it: contrasts under known randomisation.

A reward shared by everything that was shown cannot tell a useful memory from its constant companion. Leaving a
selected memory out at random, with a logged probability, can: the difference of outcomes is its own effect.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

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
    if not 0.0 < probability <= 1.0 or not np.isfinite(reward):
        raise BadInput(
            "an outcome needs a finite reward and a probability in (0, 1]",
            got=(reward, probability),
            where="formulas.causal.push_outcome",
            do="log the probability with which the item was shown (or omitted)",
        )
    w = 1.0 / probability
    return ArmSums(arm.reward + w * reward, arm.weight + w, arm.weight_squared + w * w)


def precision(n_shown: ArrayLike, n_omitted: ArrayLike) -> np.ndarray:
    """``n_s n_o / (n_s + n_o)``: the number of outcomes a difference of two means is worth; 0 where an arm is empty."""
    s, o = np.asarray(n_shown, dtype=np.float64), np.asarray(n_omitted, dtype=np.float64)
    s, o = np.broadcast_arrays(s, o)
    out = np.zeros(s.shape)
    return np.divide(s * o, s + o, out=out, where=(s > 0) & (o > 0))


def omission_lift(
    sum_shown: ArrayLike,
    n_shown: ArrayLike,
    sum_omitted: ArrayLike,
    n_omitted: ArrayLike,
    *,
    prior: float,
    strength: float,
    size_shown: ArrayLike | None = None,
    size_omitted: ArrayLike | None = None,
) -> np.ndarray:
    """Marginal effect of showing an item: mean reward shown minus mean reward omitted, shrunk to a prior.

    ``lift = (strength prior + m (S_s / n_s - S_o / n_o)) / (strength + m)`` with ``m = m_s m_o / (m_s + m_o)``, the
    precision of a difference of means in units of one outcome. An empty arm gives the prior: no contrast, no claim.

    Counts and plain sums are right where every task omits the item with one probability. Where it varies, give sums
    of rewards and of weights under inverse propensity (``ArmSums.reward``, ``.weight``: the self-normalised, Hájek,
    estimator, consistent and bounded by the reward range) and the effective sizes (``ArmSums.size``) beside them;
    without these, weights would be mistaken for evidence.

    Args:
        sum_shown: (weighted) reward summed over tasks that showed the item; scalar or array.
        n_shown: number (or summed weight) of those tasks.
        sum_omitted: the same over tasks that selected the item and left it out.
        n_omitted: the same count.
        prior: effect assumed before any evidence, in units of reward.
        strength: weight of the prior in outcomes; 0 trusts the difference alone (and still gives the prior for m = 0).
        size_shown: effective number of outcomes shown; default ``n_shown``.
        size_omitted: effective number omitted; default ``n_omitted``.

    Returns:
        Lift float64, broadcast over the inputs.
    """
    n_s, n_o = np.asarray(n_shown, dtype=np.float64), np.asarray(n_omitted, dtype=np.float64)
    if strength < 0 or (n_s < 0).any() or (n_o < 0).any():
        raise BadInput("counts and strength must be >= 0", got=(strength,), where="formulas.causal.omission_lift")
    m = precision(n_s if size_shown is None else size_shown, n_o if size_omitted is None else size_omitted)
    gap = np.asarray(sum_shown, dtype=np.float64) / np.where(n_s > 0, n_s, 1.0)
    gap = gap - np.asarray(sum_omitted, dtype=np.float64) / np.where(n_o > 0, n_o, 1.0)
    lift = np.full(np.broadcast(gap, m).shape, float(prior))
    total = np.broadcast_to(strength + m, lift.shape)
    np.divide(strength * prior + m * gap, total, out=lift, where=np.broadcast_to(m > 0, lift.shape))
    return lift


def lift_deviation(
    size_shown: ArrayLike, size_omitted: ArrayLike, *, variance: float = 0.25, strength: float
) -> np.ndarray:
    """Posterior standard deviation of ``omission_lift``: ``sqrt(variance / (strength + m))``.

    Args:
        size_shown: effective outcomes shown.
        size_omitted: effective outcomes omitted.
        variance: of one reward; 0.25 is the largest for rewards in 0..1, so the default never flatters.
        strength: as in ``omission_lift``, > 0 (or both arms non-empty).
    """
    return np.sqrt(variance / (strength + precision(size_shown, size_omitted)))
