"""Generalised advantage estimation (GAE): TD errors of a critic, summed with decay γλ.

Paper: Schulman et al. 2016 (arXiv 1506.02438); the defaults are those of PPO (Schulman et al. 2017).

    delta_t = r_t + gamma V(s_{t+1}) - V(s_t)
    A_t     = sum_k (gamma lambda)^k delta_{t+k}

With ``gamma = lambda = 1`` it is unbiased whatever the critic says, since V(s_t) is only a baseline then; with the
defaults the critic's errors bend the gradient a little (cosine 0.998 to 0.9997 with an arbitrary critic in the exact
test). After termination the next value is 0. After truncation it is the critic's value of the observation where the
attempt stopped, so the critic must give T + 1 values for such an episode. Needs no group.

Without a critic the values noted while sampling are read: ``episode.notes["value"]`` at the first token of each
decision, and ``episode.final_value`` for an attempt that was cut. That is the action-level advantage of
TWOSOME, which ``token_bad`` is compared with.

Deviations: none; values have to be there, there is no silent V = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._tokens import Gae, gae_ledger

LEVEL = "step"
UNBIASED = False
NEEDS = ("value",)


@dataclass(frozen=True)
class Config(Gae):
    """Settings of GAE."""


CLAIMS = ((Config(gamma=1.0, gae_lambda=1.0), True), (Config(gamma=1.0), False))


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Credit of every step of the valid episodes, in units of reward.

    Raises:
        BadInput: no critic, a critic that returns another number of values, or a truncated episode without the value
            of its last observation.
    """
    return gae_ledger(episodes, LEVEL, config, "credit.step_gae")
