"""Baseline of least variance for each agent's policy gradient, given the others' actions.

Paper: Kuba et al. 2021, Settling the Variance of Multi-Agent Policy Gradients (arXiv 2108.08612).

    b*(s, a^{-i}) = E_b[Q(s, (a^{-i}, b)) |grad log pi^i(b)|²] / E_b[|grad log pi^i(b)|²],   b ~ pi^i

Any other baseline adds exactly ``(b - b*)² E|grad log pi|²`` to the variance of the gradient. ``norm_TBAN`` gives the
squared lengths with respect to all weights (the exact form); without it they are those with respect to the softmax
logits, ``1 - 2 pi(b) + |pi|²`` (the surrogate, which costs nothing). For Gaussian policies sample the baseline with
``formulas.baselines.gaussian_optimal_baseline`` and give it as ``baseline_TBA``. It does not depend on the agent's own
action, so it never biases.

Deviations: the lambda-return stands where the released code has the plain discounted return (``lambda = 1``, the
default); smaller traces trade variance for the critic's errors. A choice that is not available has no weight; there it
keeps a small probability times an untrained Q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput
from evolvent.core.rollout import Rollout
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.credit._rollout import OverBaseline, choices, over_baseline
from evolvent.formulas.baselines import optimal_weights

LEVEL = "agent"
RECORD = "rollout"
UNBIASED = False


@dataclass(frozen=True)
class Config(OverBaseline):
    """Settings of the optimal baseline."""

    target: Literal["q", "return"] = "return"
    """What the baseline is subtracted from: the λ-return, or the critic's Q of the action taken (COMA)."""
    gae_lambda: float = 1.0
    """λ of the λ-return."""
    floor: float = 1e-4
    """Least probability of an available action in the weights."""


CLAIMS = ((Config(gamma=1.0), True), (Config(target="q"), False))
CLAIMS_EXACT_CRITIC = ((Config(target="q"), True), (Config(gamma=1.0, gae_lambda=0.5), True))


def assign(
    rollout: Rollout,
    config: Config = Config(),
    *,
    q_TBAN: ArrayLike | None = None,
    policy_TBAN: ArrayLike | None = None,
    norm_TBAN: ArrayLike | None = None,
    baseline_TBA: ArrayLike | None = None,
) -> RolloutLedger:
    """Advantage of every agent's every step, level ``"step"`` ``[T, B, A]``, in units of reward.

    ``q_TBAN`` and ``policy_TBAN`` as in ``agent_counterfactual``; ``norm_TBAN`` is the squared length of each choice's
    score, ``None`` = with respect to the logits. A baseline made elsewhere (continuous actions) takes the place of all
    three.

    Raises:
        BadInput: columns that do not fit, or that are missing.
    """
    given = {"q_TBAN": q_TBAN, "policy_TBAN": policy_TBAN, "norm_TBAN": norm_TBAN, "baseline_TBA": baseline_TBA}
    q = None if q_TBAN is None else choices(rollout, q_TBAN, "q_TBAN")
    if baseline_TBA is not None:
        baseline = np.asarray(baseline_TBA, dtype=np.float64)
        if baseline.shape != rollout.shape:
            raise BadInput("baseline_TBA does not fit", got=baseline.shape, expected=rollout.shape, where="assign")
    elif q is None or policy_TBAN is None:
        raise BadInput(
            "nothing to make a baseline of",
            expected="q_TBAN and policy_TBAN, or baseline_TBA",
            where="credit.agent_optimal_baseline",
            do="take a run with a critic of joint actions: coma has one, mappo with --optimal-baseline surrogate",
        )
    else:
        weights = optimal_weights(choices(rollout, policy_TBAN, "policy_TBAN"), norm_TBAN, floor=config.floor)
        baseline = np.where(weights > 0.0, weights * q, 0.0).sum(axis=-1)
    return over_baseline(rollout, baseline, q, given, config)
