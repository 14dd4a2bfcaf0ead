"""MemRL: a frozen model with an episodic memory whose items have learned values (arXiv 2601.03192).

Phase A: the k1 most similar memories with cosine > gate. Phase B: score = (1-w) z(sim) + w z(Q), z over the pool;
the k2 best are shown (section "Two-phase retrieval"). After the task every shown memory moves by Q += alpha (r - Q).

Deviations: rewards are 0 and 1 with Q starting at .5, an affine image of the paper's -1, +1 and 0; the gate belongs
to the embedding model (all-MiniLM-L6-v2 here); lessons are corrections and own successes instead of model-written
scripts and reflections unless ``lessons`` says "procedures" and "failures"; ties go to similarity, then to age.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evolvent.memory.rules.memrl import Config as Rule
from evolvent.runs.memory.run import RankedConfig, memory_system

PAPER = "arXiv 2601.03192"
LEVELS = ("memory",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(RankedConfig):
    """Settings of MemRL; where the defaults come from: ``memory/rules/memrl.py``."""

    weight: float = Rule.weight
    """Weight of the value in the score (λ); similarity has weight 1 - λ."""
    alpha: float = Rule.alpha
    """Learning rate of the value."""
    epsilon: float = Rule.epsilon
    """Exploration ε: probability of random memories from the pool instead of the best."""
    relevance: Literal["cosine", "hybrid"] = Rule.relevance
    """Relevance: cosine of the keys, or 3/4 of it and 1/4 the share of the task's telling words in a key."""


run, evaluate = memory_system("memrl", Config)
