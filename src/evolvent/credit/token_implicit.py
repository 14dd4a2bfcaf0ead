"""Implicit step rewards: log-ratio of a model of preferred attempts to the policy, per step (OPRL).

Paper: Liu et al. 2025, "Agentic Reinforcement Learning with Implicit Step Rewards" (OPRL, iStar), arXiv 2509.19199.

    r_step = beta sum_tokens (log pi_phi - log pi_old)        pi_phi trained by trajectory DPO on this batch's groups
    A = A_attempt + alpha (r_step / scale - mean of the other steps of the group)

A_attempt is leave-one-out of the returns; the scale is the largest |sum of step rewards from a step to its attempt's
end| of the batch, as in the released code, but not below what rounding alone may come to over the longest attempt,
``beta resolution tokens``: a model that has learned nothing pays nothing. ``unit="token"`` gives every token its own
``beta (log pi_phi - log pi_old)`` against the other tokens of the group; that is ours.

Biased: what pi_phi likes is added to what was earned (cosine 0.84 to 0.996 in the exact test with an arbitrary pi_phi);
alpha = 0 is unbiased. The scale pools over all that are given.

Needs ``episode.notes["prm_logp"]`` and ``["policy_logp"]``, log pi_phi and log pi_old of the sampled tokens, computed
alike: the sampler's own rounding would be taken for reward (``runs.language.notes``).

Deviations: the floor of the scale. The released code lets only the first step of each attempt into the mean of the
steps; here all enter, as in the paper. Its penalty for invalid actions is the environment's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit import step_leave_one_out
from evolvent.credit._group import labels
from evolvent.credit._tokens import pooled, spread_steps
from evolvent.formulas.baselines import leave_one_out
from evolvent.formulas.returns import discounted

LEVEL = "token"
SCOPE = "batch"
UNBIASED = False
NEEDS = ("prm_logp", "policy_logp")


@dataclass(frozen=True)
class Config:
    """Settings of OPRL's advantage."""

    alpha: float = 1.0
    """Coefficient of the step advantage beside the advantage of the attempt."""
    beta: float = 0.05
    """Scale β of the implicit reward, in units of reward per nat."""
    normalise: bool = True
    """Divide the implicit rewards by their scale over the batch; otherwise groups are independent."""
    resolution: float = 1e-4
    """Precision of recorded log-probabilities in nats; implicit rewards below it are not scaled up."""
    unit: Literal["step", "token"] = "step"
    """Unit of the implicit reward: a decision (step), or each token."""


CLAIMS = ((Config(alpha=0.0), True), (Config(normalise=False), False))
_WHERE = "credit.token_implicit"


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Advantage of every token of the valid episodes, in units of reward plus scaled implicit reward.

    Raises:
        BadInput: log-probabilities of either model missing.
    """
    ledger, adv = spread_steps(episodes, step_leave_one_out.assign)
    rows, preferred = pooled(ledger, "prm_logp", _WHERE)
    reward = config.beta * (preferred - pooled(ledger, "policy_logp", _WHERE)[1])
    # one row a unit: which unit each token belongs to, and which episode each unit
    unit = ledger.parent_index("token", "step")[rows] if config.unit == "step" else rows
    units, of_token = np.unique(unit, return_inverse=True)
    owner = ledger.episode_index(config.unit)[units]
    reward_N = np.bincount(of_token, reward, len(units))
    if config.normalise and len(reward_N):
        ends = np.append(np.diff(owner) > 0, True)
        largest = float(np.abs(discounted(reward_N, terminated_T=ends)).max())
        rounding = config.beta * config.resolution * int(np.bincount(ledger.episode_index("token")[rows]).max())
        scale = max(largest, rounding)
        reward_N = reward_N / scale if scale > 0.0 else reward_N
    names = labels(episodes, range(len(episodes)))
    group: list[str] = [names[int(i)] for i in owner]
    adv_N = reward_N - leave_one_out(reward_N, group)
    adv[rows] += config.alpha * adv_N[of_token]
    ledger.set(LEVEL, adv)
    return ledger
