"""EvoKernel: of many near memories those of the highest value for the stage at hand, epsilon-greedy.

Paper: EvoKernel, arXiv 2603.10846, section 3.2. The stage is that of the recall: drafting and refining have values of
their own, in the same memory.

    pool = the K = multiplier × N nearest by cosine; of these the N of the highest Q_stage     epsilon-greedy
    Q_stage(m) <- Q_stage(m) + alpha (r - Q_stage(m))                                          for each memory m shown

Deviations: values belong to a memory and a stage, not to a state as well (how states are keyed is not said); equal
values go to the memory with fewer outcomes, then to the nearer one. The multiplier 15 is theirs; N 4, alpha 0.2 and
epsilon 0.1 are those of a re-implementation by others, since the paper's text does not say them. Values begin at the
reward of success, so that all are tried, and equal ones are distinguished on the scale of the rewards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.memory.ledger import Known, ledger_of
from evolvent.memory.rule import Candidates, Policy, Ranking, within
from evolvent.memory.rules import memrl

LEVEL = "memory"
UNBIASED = None
_TIE = 1e-9
credit = memrl.credit


@dataclass(frozen=True)
class Config(Policy):
    """Settings of EvoKernel's memory."""

    name: str = "evokernel"
    k: int = 4
    pool: int = 60
    gate: float | None = -1.0
    epsilon: float = 0.1
    q_init: float | Literal["low", "middle", "high"] = "high"
    alpha: float = 0.2
    """Learning rate of the value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, 0.0, 1.0, "alpha")


def rank(config: Config, pool: Candidates) -> Ranking:
    """By value alone; of equal ones by fewer outcomes."""
    return Ranking(pool.share_N - _TIE * np.array([row.value.n for row in pool.rows], np.float64))


def assign(episodes: Sequence[Episode], config: Config = Config(), known: Known = Known()) -> Ledger:
    """Change of value of every memory shown in a valid episode, in units of reward; see ``memory/ledger.py``."""
    return ledger_of(credit, episodes, config, known)
