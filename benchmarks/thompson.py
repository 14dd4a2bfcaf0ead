"""Thompson sampling over values, as a rule of the memory: the control for learned values with honest exploration.

Every candidate's success is drawn from its posterior Beta(1 + successes, 1 + failures); the highest draws are shown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evolvent.memory.policies import Policy
from evolvent.memory.rule import Candidates, Change, Ranking, Settled

LEVEL = "memory"
_DRAWS = [np.random.default_rng(0)]


@dataclass(frozen=True)
class Config(Policy):
    """Settings of Thompson sampling: none of its own."""

    name: str = "thompson"


def start(seed: int) -> None:
    """The stream of draws of a run begins."""
    _DRAWS[0] = np.random.default_rng(seed)


def rank(config: Config, pool: Candidates) -> Ranking:
    """By a draw from each posterior."""
    lo, hi = pool.reward_range
    won = np.array([(row.value.sum_r - row.value.n * lo) / (hi - lo) for row in pool.rows])
    n = np.array([row.value.n for row in pool.rows])
    return Ranking(_DRAWS[0].beta(1.0 + won, 1.0 + np.maximum(0.0, n - won)))


def credit(config: Config, settled: Settled) -> list[Change]:
    """The mean of all outcomes."""
    made = []
    for m in settled.used:
        v = settled.values[m].value
        step = 1.0 / (v.n + 2.0)
        made.append(Change(m, "shown", v.q, v.q + step * (settled.reward - v.q), settled.reward, step=step))
    return made
