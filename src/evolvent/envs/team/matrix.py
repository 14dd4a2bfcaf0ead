"""Cooperative matrix games of two agents: climbing, penalty with its k, nonmonotone; one move, the same pay for both.

Claus and Boutilier, "The Dynamics of Reinforcement Learning in Cooperative Multiagent Systems", AAAI 1998. In both of
theirs, missing the best cell by one agent costs so much that learners who average over a random partner settle for
less. ``nonmonotone`` (Son et al., "QTRAN", ICML 2019): no mixture that rises with each agent's value has its best cell.
"""

from __future__ import annotations

import numpy as np

from evolvent.core.errors import BadInput, closest
from evolvent.envs.team._games import OneStepGame

_PAY = {
    "climbing": [[11, -30, 0], [-30, 7, 6], [0, 0, 5]],
    "penalty": [[10, 0, 0], [0, 2, 0], [0, 0, 10]],
    "nonmonotone": [[8, -12, -12], [-12, 0, 0], [-12, 0, 0]],
}
VARIANTS = tuple(_PAY)


def make_team(variant: str = "climbing", *, n_envs: int, k: float = -100.0, ids: bool = False) -> OneStepGame:
    """``n_envs`` copies; ``k`` (at most 0) is what the penalty game charges for missing each other."""
    if variant not in VARIANTS:
        raise BadInput("unknown matrix game", got=variant, expected=closest(variant, VARIANTS), where="matrix")
    if k > 0:
        raise BadInput("a penalty that pays", got=k, expected="k of at most 0", where="matrix:penalty")
    pay = np.array(_PAY[variant], np.float64)
    if variant == "penalty":
        pay[[0, 2], [2, 0]] = k
    best = float(pay.max())
    return OneStepGame(n_envs, 2, 3, lambda move_BA: pay[move_BA[:, 0], move_BA[:, 1]], best=best, noise=0, ids=ids)
