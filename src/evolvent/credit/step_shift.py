"""Shifted mean: return minus a baseline below the mean of the group (AsymRE).

Paper: Arnal et al. 2025 (*Asymmetric REINFORCE for off-Policy Reinforcement Learning*, arXiv 2506.20520).

    A_i = R_i - (1/G sum_j R_j + shift)        for every step of attempt i, shift < 0

A baseline under the mean pushes successes up more than it pushes failures down. On policy that changes nothing in
expectation: like the group mean it is unbiased up to scale, exactly (G-1)/G, since a constant is a baseline too. Off
policy, with stale data, it is what keeps the policy from being driven away from everything it used to do. An attempt
without others gets ``-shift``.

Deviations: for an attempt without others a released trainer takes 0 for the mean, here its own return is the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._group import over_groups
from evolvent.formulas.baselines import group_mean

LEVEL = "step"
UNBIASED = "up to scale"
COMPARES = True


@dataclass(frozen=True)
class Config:
    """Settings of AsymRE's baseline."""

    shift: float = -0.1
    """Added to the mean return to form the baseline, in units of reward."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The advantage of its episode on every step of the valid episodes, in units of reward."""
    return over_groups(episodes, lambda ret, group: ret - group_mean(ret, group) - config.shift)
