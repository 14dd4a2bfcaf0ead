"""Group z-score: return minus the group mean, divided by the standard deviation (GRPO).

Paper: Shao et al. 2024 (DeepSeekMath, arXiv 2402.03300), outcome supervision.

    A_i = (R_i - mean_j R_j) / (std_j R_j + eps)        for every step of attempt i

Biased: dividing by a spread that depends on the attempt's own return changes the *direction* of the expected gradient
(cosine 0.89 to 0.98 in the exact test), which no learning rate repairs; groups with little spread (nearly solved,
nearly hopeless) are weighted up. In return, rewards of any scale work with one learning rate. An attempt without
others, or a group of equal returns, gets 0.

Deviations: the paper does not say which std; the sample one (ddof 1) and eps 1e-6 are what released trainers use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._group import over_groups
from evolvent.formulas.baselines import group_z

LEVEL = "step"
UNBIASED = False
COMPARES = True


@dataclass(frozen=True)
class Config:
    """Settings of GRPO's advantage."""

    eps: float = 1e-6
    """Added to the standard deviation, against division by zero."""
    ddof: int = 1
    """1: sample standard deviation, 0: population."""
    kinds: tuple[str, ...] = ("return",)
    """Rewards that are summed and compared: the task's own return, and kinds of reward (``core.reward_kinds``)."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The advantage of its episode on every step of the valid episodes, in standard deviations.

    Raises:
        BadInput: an attempt without a kind of reward that is asked for.
    """
    return over_groups(episodes, partial(group_z, ddof=config.ddof, eps=config.eps), kinds=config.kinds)
