"""MemP as run by the MemRL authors: memories ranked by similarity alone, with MemRL's gate and pool.

Score: z(sim) within the pool of the k1 most similar above the gate. Deviation: the original MemP also deletes
procedures (after three uses with less than half of them right) and rewrites failed ones with a model.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.memory.rules.memp import Config as Rule
from evolvent.runs.memory.run import MemoryConfig, memory_system

PAPER = "arXiv 2508.06433"
LEVELS = ()
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(MemoryConfig):
    """Settings of MemP; the defaults are those of MemRL."""

    k: int = Rule.k
    """Memories retrieved into the prompt, at most (top k)."""
    pool: int = Rule.pool
    """Candidates kept by similarity before values rank them (k1)."""
    gate: float | None = Rule.gate
    """Cosine similarity that a candidate must exceed; the scale depends on the embedder."""


run, evaluate = memory_system("memp", Config)
