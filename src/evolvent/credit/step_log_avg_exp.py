"""Log-mean-exp: return minus a soft maximum over the group (OPMD).

Paper: Trinity-RFT, Pan et al. 2025 (arXiv 2505.17826), online policy mirror descent.

    A_i = R_i - tau log( 1/G sum_j exp(R_j / tau) )        for every step of attempt i

That baseline is the group's estimate of the value of the policy that mirror descent aims at, ``pi exp(R / tau)``: large
tau gives the mean, small tau the maximum. Biased as an on-policy gradient: the own return enters the baseline, and not
linearly (cosine 0.93 to 0.995 in the exact test). An attempt without others gets 0.

Deviations: none in the advantage; the factor 1 / (1 + tau) of OPMD's loss belongs to the learner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.credit._group import over_groups
from evolvent.formulas.baselines import log_avg_exp

LEVEL = "step"
UNBIASED = False
COMPARES = True


@dataclass(frozen=True)
class Config:
    """Settings of OPMD's baseline."""

    tau: float = 1.0
    """Temperature τ of the soft maximum, in units of reward, above 0."""

    def __post_init__(self) -> None:
        if not self.tau > 0.0:
            raise BadInput("tau is not above 0", got=self.tau, where="credit.step_log_avg_exp")


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The advantage of its episode on every step of the valid episodes, in units of reward."""
    return over_groups(episodes, lambda ret, group: ret - log_avg_exp(ret, group, tau=config.tau))
