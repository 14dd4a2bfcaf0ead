"""Cooperative matrix games of two agents: climbing, and penalty with its k; one move, the same pay for both.

Claus and Boutilier, "The Dynamics of Reinforcement Learning in Cooperative Multiagent Systems", AAAI 1998. In both,
missing the best cell by one agent costs so much that learners who average over a random partner settle for less.
"""

from __future__ import annotations

import numpy as np

from evolvent.core.errors import BadInput, closest
from evolvent.envs.team._games import OneStepGame

VARIANTS = ("climbing", "penalty")


def make_team(variant: str = "climbing", *, n_envs: int, k: float = -100.0, ids: bool = False) -> OneStepGame:
    """``n_envs`` copies; ``k`` (at most 0) is what the penalty game charges for missing each other."""
    if variant not in VARIANTS:
        raise BadInput("unknown matrix game", got=variant, expected=closest(variant, VARIANTS), where="matrix")
    if k > 0:
        raise BadInput("a penalty that pays", got=k, expected="k of at most 0", where="matrix:penalty")
    climbing = [[11, -30, 0], [-30, 7, 6], [0, 0, 5]]
    pay = np.array(climbing if variant == "climbing" else [[10, 0, k], [0, 2, 0], [k, 0, 10]], np.float64)
    best = float(pay.max())
    return OneStepGame(n_envs, 2, 3, lambda move_BA: pay[move_BA[:, 0], move_BA[:, 1]], best=best, noise=0, ids=ids)
