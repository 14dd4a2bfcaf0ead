"""Delta: a step earns its process score minus the next one's, so that repeating steps earns nothing.

Paper: Gao et al. 2024 (*On Designing Effective RL Reward at Training Time*, arXiv 2410.15115).

    q_k = p_k - p_{k+1}, the last step q = p           sum_{k >= t} q_k = p_t
    G_t = sum_{k >= t} (r_k + weight q_k)              A_t = G_t - mean_j G_{j,t}     (ended attempts count 0)

The scores p of a process reward model stand in the record as the kind ``process`` (``core.reward_kinds``). Whatever an
attempt does after step t, all it ever gets for it from the scores is p_t: a thousand good-looking steps are worth one.
Biased against the return unless the scores are 0, since they are paid besides it (cosine -0.18 to 0.92 in the exact
test, where scores are arbitrary); with ``weight = 0`` unbiased up to scale.

Deviations: the paper adds the refined scores to the success reward in PPO, with a critic; here the mean of the group at
the same turn is the baseline. Its weight was not readable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._turns import refined_to_go
from evolvent.formulas.process_rewards import delta_rewards

LEVEL = "step"
UNBIASED = False
COMPARES = True
NEEDS = ("kind:process",)


@dataclass(frozen=True)
class Config:
    """Settings of Delta."""

    weight: float = 1.0
    """Coefficient of the refined scores beside the task's reward."""
    kind: str = "process"
    """Kind of reward that holds the scores."""


CLAIMS = ((Config(weight=0.0), "up to scale"),)


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Credit of every step of the valid episodes, in units of reward.

    Raises:
        BadInput: an attempt without scores.
    """
    return refined_to_go(episodes, config.kind, config.weight, delta_rewards)
