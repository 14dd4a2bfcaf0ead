"""Everything there is, newest first: no choice among memories (in-context learning with the whole stream)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evolvent.memory.rule import Candidates, Policy, Ranking

ALL = 100_000


@dataclass(frozen=True)
class Config(Policy):
    """Settings of the control: no gate, and room for all."""

    name: str = "icl"
    k: int = ALL
    pool: int = ALL
    gate: float | None = -1.0
    order: Literal["newest", "relevance"] = "newest"
    """What comes first, and stays where not all has room."""


def rank(config: Config, pool: Candidates) -> Ranking:
    """By age or by relevance: the rows of a store are numbered as they are written."""
    return Ranking(pool.relevance if config.order == "relevance" else np.array(pool.ids, np.float64))
