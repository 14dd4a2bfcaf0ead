"""Counterfactual baseline: Q of the action taken, minus the mean Q over the agent's other actions (COMA).

Paper: Foerster et al. 2018, Counterfactual Multi-Agent Policy Gradients (COMA, arXiv 1705.08926, eq. 4).

    A^i(s, a) = Q(s, a) - sum_b pi^i(b | o^i) Q(s, (a^{-i}, b))

Q is a joint critic: for each agent its values over that agent's choices, the others' actions held at what they did. The
baseline does not depend on the agent's own action, so it never biases; Q in the place of the return does, as far as it
is wrong. With the exact Q the gradient is exact. Discrete actions.

Deviations: ``target="return"`` takes the lambda-return of the rollout instead of Q (with ``gamma = lambda = 1``
unbiased whatever the critic says); rewards of steps that an agent took no part in count for its steps before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.rollout import Rollout
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.credit._rollout import OverBaseline, choices, over_baseline

LEVEL = "agent"
RECORD = "rollout"
UNBIASED = False


@dataclass(frozen=True)
class Config(OverBaseline):
    """Settings of the counterfactual baseline."""


CLAIMS = ((Config(target="return", gamma=1.0, gae_lambda=1.0), True),)
CLAIMS_EXACT_CRITIC = ((Config(), True), (Config(target="return", gamma=1.0), True))


def assign(rollout: Rollout, config: Config = Config(), *, q_TBAN: ArrayLike, policy_TBAN: ArrayLike) -> RolloutLedger:
    """Advantage of every agent's every step, level ``"step"`` ``[T, B, A]``, in units of reward.

    ``q_TBAN`` is Q(s, (a^{-i}, b)) for each choice b of agent i; ``policy_TBAN`` the probability of each choice when
    acting, 0 where it was not available. ``target="return"`` also needs the rollout's values.

    Raises:
        BadInput: columns that do not fit, or values that are missing.
    """
    q, policy = choices(rollout, q_TBAN, "q_TBAN"), choices(rollout, policy_TBAN, "policy_TBAN")
    baseline = np.where(policy > 0.0, policy * q, 0.0).sum(axis=-1)
    return over_baseline(rollout, baseline, q, {"q_TBAN": q_TBAN, "policy_TBAN": policy_TBAN}, config)
