"""Permutation game: n agents that see the same noise are paid 1 when all their moves differ.

One step. A policy that treats the agents alike and independently is right with probability n!/nⁿ (0.094 for n = 4); to
do better an agent must see its own number (``ids=true``) or the moves of those before it.
"""

from __future__ import annotations

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.envs.team._games import OneStepGame


def make_team(*, n_envs: int, n: int = 4, noise: int = 6, ids: bool = False) -> OneStepGame:
    """``n_envs`` copies; the ``n`` agents see ``noise`` shared random numbers, and with ``ids`` their own number."""
    if n < 2 or noise < 0:
        raise BadInput("permutation", got=f"n={n}, noise={noise}", expected="n of at least 2, noise of at least 0")
    return OneStepGame(n_envs, n, n, _all_differ, best=1.0, noise=noise, ids=ids)


def _all_differ(action_BA: np.ndarray) -> np.ndarray:
    return (np.sort(action_BA, axis=1) == np.arange(action_BA.shape[1])).all(axis=1)
