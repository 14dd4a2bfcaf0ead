"""Group mean: return minus the mean return of the group, itself included (Dr. GRPO).

Paper: Liu et al. 2025 (*Understanding R1-Zero-like training*, arXiv 2503.20783): GRPO without the division by std.

    A_i = R_i - 1/G sum_j R_j        for every step of attempt i

Unbiased up to scale: the own return in the baseline shrinks the expected gradient by exactly (G-1)/G, in no other
direction, so the learning rate repairs it as long as all groups have one size. An attempt without others gets 0.

Deviations: none in the advantage; how tokens are averaged belongs to the learner.
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
    """Settings of the group mean."""

    kinds: tuple[str, ...] = ("return",)
    """Rewards that are summed and compared: the task's own return, and kinds of reward (``core.reward_kinds``)."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The advantage of its episode on every step of the valid episodes, in units of reward.

    Raises:
        BadInput: an attempt without a kind of reward that is asked for.
    """
    return over_groups(episodes, lambda ret, group: ret - group_mean(ret, group), kinds=config.kinds)
