"""Split game: paid 1 when one half of the agents plays 0 and the other half plays 1.

One step, the halves are the first and the last n/2 agents, all see the same noise. Agents that share one policy without
knowing their number are right with probability 2/2ⁿ at best; separate or sequential policies reach 1.
"""

from __future__ import annotations

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.envs.team._games import OneStepGame


def make_team(*, n_envs: int, n: int = 4, noise: int = 6, ids: bool = False) -> OneStepGame:
    """``n_envs`` copies for ``n`` agents (an even number) that see ``noise`` shared random numbers."""
    if n < 2 or n % 2 or noise < 0:
        raise BadInput("split", got=f"n={n}, noise={noise}", expected="an even n of at least 2, noise of at least 0")
    return OneStepGame(n_envs, n, 2, _halves_differ, best=1.0, noise=noise, ids=ids)


def _halves_differ(action_BA: np.ndarray) -> np.ndarray:
    half = action_BA.shape[1] // 2
    sum_B = action_BA.sum(axis=1)
    return (sum_B == half) & np.isin(action_BA[:, :half].sum(axis=1), (0, half))
