"""MemP as run by the MemRL authors: memories ranked by similarity alone, with MemRL's gate and pool.

Score: z(sim) within the pool of the k1 most similar above the gate. Deviation: the original MemP also deletes
procedures (after three uses with less than half of them right) and rewrites failed ones with a model.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.runs.memory.run import RankedConfig, memory_system

PAPER = "arXiv 2508.06433"
LEVELS = ()
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(RankedConfig):
    """Settings of MemP; the defaults are those of MemRL."""


run, evaluate = memory_system("memp", Config)
