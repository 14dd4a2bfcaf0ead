"""Clip: process scores above a threshold earn 0 and lower ones cost, so that more steps never earn more.

Paper: Gao et al. 2024 (*On Designing Effective RL Reward at Training Time*, arXiv 2410.15115).

    q_k = min(p_k - eta, 0)
    G_t = sum_{k >= t} (r_k + weight q_k)              A_t = G_t - mean_j G_{j,t}     (ended attempts count 0)

The scores p of a process reward model stand in the record as the kind ``process`` (``core.reward_kinds``). Biased
against the return, since they are paid besides it (cosine -0.47 to 0.86 in the exact test, where scores are arbitrary);
with ``weight = 0`` unbiased up to scale. The sum of q is at most 0, which makes short attempts safe: choose ``eta`` so
low that most steps pay nothing, or use ``step_delta``.

Deviations: the paper adds the refined scores to the success reward in PPO, with a critic; here the mean of the group at
the same turn is the baseline. Its eta and weight were not readable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._turns import refined_to_go
from evolvent.formulas.process_rewards import clip_rewards

LEVEL = "step"
UNBIASED = False
COMPARES = True
NEEDS = ("kind:process",)


@dataclass(frozen=True)
class Config:
    """Settings of Clip."""

    eta: float = 0.75
    """Threshold: process scores above it earn 0."""
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
    return refined_to_go(episodes, config.kind, config.weight, lambda p_T: clip_rewards(p_T, config.eta))
