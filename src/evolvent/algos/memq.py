"""MemQ: TD(λ) over the graph of which memory helped to write which (arXiv 2605.08374).

delta(m0) = r + gamma Q(new) - Q(m0) for each shown m0; every ancestor m at depth d, and m0 at depth 0, moves by
alpha (gamma trace)^d delta(m0). gamma = 0 is MemRL's update. Selection: score = (1-w) sim + w Q above the gate,
epsilon-greedy.

Deviations: depth is the shortest path and all changes are computed from the values before the task (both open in the
notes); rewards are 0 and 1; a new memory starts at 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.memory.rules.memq import Config as Rule
from evolvent.runs.memory.run import RankedConfig, memory_system

PAPER = "arXiv 2605.08374"
LEVELS = ("memory",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(RankedConfig):
    """Settings of MemQ; the defaults are read from a study note (the full text was not available)."""

    weight: float = Rule.weight
    """Weight of the value in the score (λ); similarity has weight 1 - λ."""
    alpha: float = Rule.alpha
    """Learning rate of the value."""
    epsilon: float = Rule.epsilon
    """Exploration ε: probability of random memories from the pool instead of the best."""
    gamma: float = Rule.gamma
    """Discount of the value of the memory that was written afterwards."""
    trace: float = Rule.trace
    """λ: decay of credit per link back to the memories that a memory was made from."""


run, evaluate = memory_system("memq", Config)
