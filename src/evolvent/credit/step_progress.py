"""Progress attribution: GAE over a learned split of the outcome, with a reward for actions that could be executed.

Paper: Wang et al. 2025 (SPA-RL, *Stepwise Progress Attribution*, arXiv 2505.20732).

    r'_t = c_t + weight executed_t
    A_t  = sum_k (gamma lambda)^k delta_{t+k}          delta_t = r'_t + gamma V(s_{t+1}) - V(s_t)

The estimator gives each turn a contribution c_t and is trained so that they add up to the outcome, ``(sum_t c_t - R)²``
(``formulas.process_rewards.progress_loss``). The record carries them as the kind ``progress``, and as the kind
``executed`` whether the action could be carried out, 1 or 0 (``core.reward_kinds``). The task's own reward is not paid
besides: it is in the contributions. Biased unless they equal what really earned it: with c = r, ``weight = 0`` and
``gamma = lambda = 1`` it is exact, with arbitrary contributions anything (cosine -0.26 to 0.94 in the exact test).
Needs no group.

Deviations: the released code weighs contributions with the number of turns left, which leaves the last turn nothing,
and broadcasts the difference to the others' mean over all turns; here the equations. gamma and trace are PPO's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.core.reward_kinds import rewards_of
from evolvent.credit._tokens import Gae, gae_ledger
from evolvent.formulas.process_rewards import progress_rewards

LEVEL = "step"
UNBIASED = False
NEEDS = ("value", "progress")


@dataclass(frozen=True)
class Config(Gae):
    """Settings of SPA-RL's credit."""

    weight: float = 0.5
    """Coefficient of the reward for an action that could be executed."""
    kind: str = "progress"
    """Kind of reward that holds the contributions."""
    executed: str = "executed"
    """Kind of reward that says which actions could be executed; not read where ``weight`` is 0."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Credit of every step of the valid episodes, in units of reward.

    Raises:
        BadInput: no critic, values that do not fit, or an attempt without contributions.
    """

    def paid(episode: Episode) -> np.ndarray:
        reward = rewards_of(episode, config.kind)
        return (
            progress_rewards(reward, rewards_of(episode, config.executed), config.weight) if config.weight else reward
        )

    return gae_ledger(episodes, LEVEL, config, "credit.step_progress", rewards=paid)
