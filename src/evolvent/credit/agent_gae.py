"""Generalised advantage estimation (GAE) for every agent of a rollout, from its own rewards and values.

Paper: Schulman et al. 2016 (arXiv 1506.02438); in teams: MAT (Wen et al. 2022, arXiv 2205.14953) with a value for each
agent, MAPPO and HAPPO with one value of the shared state, repeated for the agents.

    delta_t = r_t + gamma V(s_{t+1}) - V(s_t)
    A_t     = sum_k (gamma lambda)^k delta_{t+k}

With ``gamma = lambda = 1`` it is unbiased whatever the values say; with exact values any lambda is. With the defaults
it is neither, since the discount is less than 1. Values are in units of reward: denormalise them before.

Deviations: an attempt that was cut off (time limit) is bootstrapped from the value of the observation *it stopped at*
(``Rollout.final_value_TBA``), and the trace is cut there. Released code treats the limit as a true end (MAT), or sets
the advantage of the last step to 0 (HARL). Steps of agents that did not take part are not scored, but the rewards of
those steps count for the steps before: what the team earns after an agent died is owed to it too.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.core.rollout import Rollout
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.credit._rollout import gae_and_targets

LEVEL = "agent"
RECORD = "rollout"
UNBIASED = False


@dataclass(frozen=True)
class Config:
    """Settings of GAE."""

    gamma: float = 0.99
    """Discount factor per step."""
    gae_lambda: float = 0.95
    """λ of GAE: 1 = rewards only (Monte Carlo), 0 = one-step TD error of the critic."""
    pooled: bool = False
    """Give every agent the mean reward of the team, for one critic of the shared state."""


CLAIMS = ((Config(gamma=1.0, gae_lambda=1.0), True), (Config(gamma=1.0), False), (Config(1.0, 1.0, pooled=True), True))
CLAIMS_EXACT_CRITIC = ((Config(gamma=1.0), True), (Config(), False))


def assign(rollout: Rollout, config: Config = Config()) -> RolloutLedger:
    """Advantage of every agent's every step, level ``"step"`` ``[T, B, A]``, in units of reward; the critic's targets.

    Raises:
        BadInput: a value that this needs was not recorded (see ``Rollout.next_value_TBA``).
    """
    ledger = RolloutLedger.for_rollout(rollout)
    adv_TBA, ledger.targets["step"] = gae_and_targets(
        rollout, gamma=config.gamma, gae_lambda=config.gae_lambda, pooled=config.pooled
    )
    ledger.set("step", adv_TBA)
    return ledger
