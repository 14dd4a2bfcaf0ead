"""Any k memories, whatever the task: the control for the length of the prompt."""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.memory.policies import Policy
from evolvent.memory.rule import Candidates, Ranking

CANDIDATES = "any"


@dataclass(frozen=True)
class Config(Policy):
    """Settings of the control."""

    name: str = "random"


def rank(config: Config, pool: Candidates) -> Ranking:
    """As they were drawn."""
    return Ranking(pool.relevance)
