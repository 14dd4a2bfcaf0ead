"""memlift, our default: memories ranked by relevance and by their measured effect; credit by use and by omission.

Recall: candidates with a cosine above a gate, whose relevance (cosine, and words that tell the nearest keys apart) is
within a margin of the best; score = (1-w) z(relevance) + w z(worth), with a floor under both spreads so that noise
among equals is not blown up. worth = value + c lift / 2.

Credit: a shown memory moves towards the outcome by how much of the action came from it (overlap of word pairs; where
none is told, the best in the prompt moves most, the others half as far); its step starts as a running mean and never
falls below alpha. Each selected memory but the best is left out with a logged probability that falls with its
omissions; lift is the self-normalised inverse-propensity difference of outcomes with and without it, trusted by
c = t^2 / (t^2 + se^2). Of several answers to one question the one of the highest value is shown, on a tie the newest: a
correction takes the place of what failed.

Why each part is there: docs/memlift.md; what did not help: LOG.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evolvent.memory.rules.memlift import Config as Rule
from evolvent.runs.memory.run import MemoryConfig, memory_system

PAPER = "ours"
LEVELS = ("memory",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(MemoryConfig):
    """Settings of memlift; the defaults are chosen in surrogate and synthetic worlds (LOG.md)."""

    k: int = Rule.k
    """Memories retrieved into the prompt, at most (top k)."""
    pool: int = Rule.pool
    """Candidates kept by relevance before values rank them (k1)."""
    gate: float | None = Rule.gate
    """Cosine similarity that a candidate must exceed; default: that of the embedder, whose scale it is."""
    margin: float = Rule.margin
    """Candidates whose relevance is lower than the best one's by more than this are dropped."""
    weight: float = Rule.weight
    """Weight of the value in the score (λ); similarity has weight 1 - λ."""
    alpha: float = Rule.alpha
    """Learning rate of the value."""
    omit: float = Rule.omit
    """Probability of leaving out a selected memory (never the best), to measure its effect; falls with omissions."""
    relevance: Literal["cosine", "hybrid"] = Rule.relevance
    """Relevance: cosine of the keys, or 3/4 of it and 1/4 the share of the task's telling words in a key."""


run, evaluate = memory_system("memlift", Config)
