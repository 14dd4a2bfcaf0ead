"""Two-armed bandit: one pull pays 1 with the probability of its arm, else 0; arm 0 is the better one.

What comes is partly luck: the testbed of Dichotomy of Control (Yang et al. 2022, arXiv 2210.13435).
"""

from __future__ import annotations

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.seeding import rng
from evolvent.core.team import ActionSpec, TeamSpec
from evolvent.envs.runners.solo import Seen


def make_solo(*, better: float = 0.6, worse: float = 0.4) -> Bandit:
    """One copy whose arms pay with these probabilities."""
    if not 0.0 <= worse <= better <= 1.0:
        raise BadInput("bandit", got=f"better={better:g}, worse={worse:g}", expected="0 <= worse <= better <= 1")
    return Bandit((better, worse))


class Bandit:
    """One copy; all that is seen is a constant 1."""

    gives = columns = ()

    def __init__(self, pays: tuple[float, float]) -> None:
        self.team = TeamSpec(("agent0",), 1, (ActionSpec(choices=2),), limit=1)
        self._pays, self._rng = pays, rng(0, "bandit")

    def reset(self, seed: int) -> Seen:
        """See ``Solo.reset``."""
        self._rng = rng(seed, "bandit")
        return Seen(np.ones((1, 1), np.float32))

    def step(self, action: np.ndarray) -> Seen:
        """See ``Solo.step``."""
        won = self._rng.random() < self._pays[int(action[0])]
        return Seen(np.ones((1, 1), np.float32), float(won), terminated=True)

    def render(self) -> None:
        """There is nothing to see."""

    def close(self) -> None:
        """Nothing is held."""
