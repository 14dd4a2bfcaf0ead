"""What rules over rollouts share: rewards, GAE with its critic's targets, and returns over a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput
from evolvent.core.rollout import Rollout
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.formulas.returns import gae, lambda_returns


@dataclass(frozen=True)
class OverBaseline:
    """Settings of the rules that subtract a baseline."""

    target: Literal["q", "return"] = "q"
    """What the baseline is subtracted from: the critic's Q of the action taken (q), or the λ-return (return)."""
    gamma: float = 0.99
    """Discount factor per step of the λ-return."""
    gae_lambda: float = 0.8
    """λ of the λ-return."""
    pooled: bool = False
    """Give every agent the mean reward of the team."""


def rewards(rollout: Rollout, *, pooled: bool) -> np.ndarray:
    """Rewards float64 ``[T, B, A]``, those of absent agents too (0 where not finite); pooled: the mean of the team."""
    reward_TBA: np.ndarray = np.where(rollout.active_TBA | np.isfinite(rollout.reward_TBA), rollout.reward_TBA, 0.0)
    return np.broadcast_to(reward_TBA.mean(axis=2, keepdims=True), rollout.shape) if pooled else reward_TBA


def gae_and_targets(
    rollout: Rollout, *, gamma: float, gae_lambda: float, pooled: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Advantages float64 and the critic's targets, in the dtype of its values, both ``[T, B, A]``.

    Both cover steps in which an agent took no part: the values there enter the advantages of earlier steps, so a critic
    for each agent must learn them.

    Raises:
        BadInput: a value that this needs was not recorded (see ``Rollout.next_value_TBA``).
    """
    value_TBA, next_TBA = rollout.value_TBA, rollout.next_value_TBA
    assert value_TBA is not None  # the value of what follows was there
    adv_TBA = gae(
        rewards(rollout, pooled=pooled),
        value_TBA,
        next_TBA,
        gamma=gamma,
        gae_lambda=gae_lambda,
        terminated_T=rollout.terminated_TB,
        truncated_T=rollout.truncated_TB & ~rollout.terminated_TB,
    )
    return adv_TBA, adv_TBA.astype(value_TBA.dtype) + value_TBA


def choices(rollout: Rollout, x: ArrayLike, name: str) -> np.ndarray:
    """A column over the choices of a discrete rollout, float64 ``[T, B, A, N]``."""
    x_TBAN = np.asarray(x, dtype=np.float64)
    if x_TBAN.ndim != 4 or x_TBAN.shape[:3] != rollout.shape or rollout.action_TBA.ndim != 3:
        raise BadInput(
            f"{name} does not fit the rollout",
            got=x_TBAN.shape,
            expected=(*rollout.shape, "choices"),
            where="credit.agent_*",
            do="for continuous actions give baseline_TBA",
        )
    return x_TBAN


def over_baseline(
    rollout: Rollout,
    baseline_TBA: np.ndarray,
    q_TBAN: np.ndarray | None,
    given: Mapping[str, ArrayLike | None],
    config: OverBaseline,
) -> RolloutLedger:
    """Level ``"step"``: Q of the action taken, or the lambda-return that followed it, minus the baseline.

    Where lambda-returns are read, they are the critic's targets. What the rule was ``given`` besides stays with the
    ledger.
    """
    ledger = RolloutLedger.for_rollout(rollout)
    ledger.columns = {name: np.asarray(column) for name, column in given.items() if column is not None}
    discount = {"gamma": config.gamma, "gae_lambda": config.gae_lambda}
    if config.target == "q":
        if q_TBAN is None:
            raise BadInput("no Q of the action taken", expected='q_TBAN, or target="return"', where="credit.agent_*")
        ahead = np.take_along_axis(q_TBAN, rollout.action_TBA[..., None].astype(np.intp), axis=-1)[..., 0]
    else:
        ahead = lambda_returns(
            rewards(rollout, pooled=config.pooled),
            rollout.next_value_TBA,
            **discount,
            terminated_T=rollout.terminated_TB,
            truncated_T=rollout.truncated_TB & ~rollout.terminated_TB,
        )
        _, ledger.targets["step"] = gae_and_targets(rollout, **discount, pooled=config.pooled)
    ledger.set("step", ahead - baseline_TBA)
    return ledger
