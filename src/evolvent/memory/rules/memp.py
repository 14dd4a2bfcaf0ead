"""MemP as the authors of MemRL ran it: MemRL's memories, gate and pool, ranked by similarity, no values.

Paper: MemP, arXiv 2508.06433; this form: MemRL, arXiv 2601.03192, whose code it is without value learning.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.memory.rule import Candidates, Policy, Ranking
from evolvent.memory.rules.memrl import blend


@dataclass(frozen=True)
class Config(Policy):
    """Settings of MemP."""

    name: str = "memp"


def rank(config: Config, pool: Candidates) -> Ranking:
    """By z-scores of similarity in the pool."""
    return blend(pool, 0.0)
