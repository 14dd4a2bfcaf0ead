"""MemQ: values travel back over the graph of which memory helped to write which (arXiv 2605.08374).

delta(m0) = r + gamma Q(new) - Q(m0) for each shown m0; every ancestor m at depth d, and m0 at depth 0, moves by
alpha (gamma trace)^d delta(m0). gamma = 0 is MemRL's update. Selection: score = (1-w) sim + w Q above the gate,
epsilon-greedy.

Deviations: depth is the shortest path and all changes are computed from the values before the task (both open in the
notes); rewards are 0 and 1; a new memory starts at 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.memory.rules.memq import Config as Rule
from evolvent.runs.memory.run import MemoryConfig, memory_system

PAPER = "arXiv 2605.08374"
LEVELS = ("memory",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(MemoryConfig):
    """Settings of MemQ; the defaults are read from a study note (the full text was not available)."""

    k: int = Rule.k
    """Memories shown."""
    pool: int = Rule.pool
    """Candidates kept by similarity before values choose (k1)."""
    gate: float = 0.37
    """Cosine that a candidate must exceed; belongs to the embedder."""
    weight: float = Rule.weight
    """Share of the value in the score (1 - lambda is similarity's)."""
    alpha: float = Rule.alpha
    """Step size of the value."""
    epsilon: float = 0.05
    """Probability of showing random members of the pool instead."""
    gamma: float = Rule.gamma
    """Discount of the value of the memory that was written after."""
    trace: float = Rule.trace
    """Decay per link back to ancestors."""


run, evaluate = memory_system("memq", Config)
