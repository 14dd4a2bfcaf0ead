"""EvoKernel's rewards for drafting and refining, and its running normaliser (arXiv 2603.10846)."""

from __future__ import annotations

import math
from dataclasses import dataclass

GAIN = 1.15
"""From this ratio on a program counts as faster."""


def draft_reward(feasible: bool) -> float:
    """+1 for a program that passes all gates, -1 for any other."""
    return 1.0 if feasible else -1.0


def refine_reward(feasible: bool, best_before: float, latency: float) -> float:
    """``tanh(ln best - ln latency)``, and -1 where the program is not feasible.

    Half the latency gives 0.6, twice -0.6, the same 0; closed form ``((b/l)² - 1) / ((b/l)² + 1)``. ``best_before`` is
    the lowest latency *before* this attempt: after it, every improvement would be worth 0.
    """
    return math.tanh(math.log(best_before) - math.log(latency)) if feasible else -1.0


@dataclass
class Running:
    """Mean and standard deviation of all numbers so far (Welford); ``push`` first, then ``norm``."""

    n: int = 0
    mean: float = 0.0
    m2: float = 0.0

    def push(self, x: float) -> None:
        """One number more."""
        self.n += 1
        off = x - self.mean
        self.mean += off / self.n
        self.m2 += off * (x - self.mean)

    @property
    def sd(self) -> float:
        """Population standard deviation, 0 before the first number."""
        return math.sqrt(self.m2 / self.n) if self.n else 0.0

    def norm(self, x: float, floor: float = 1e-6) -> float:
        """``(x - mean) / sd``; 0 where the deviation is not above ``floor``, as for the first number."""
        return (x - self.mean) / self.sd if self.sd > floor else 0.0
