"""Experiences for action values: the most similar situations, all of them; what was shown learns as in MemRL.

The combination is our own: an agent that chooses among admissible commands averages over these.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.memory.rule import Policy, within
from evolvent.memory.rules import memrl, rag

rank = rag.rank
credit = memrl.credit


@dataclass(frozen=True)
class Config(Policy):
    """Settings of the recall of experiences."""

    name: str = "neighbours"
    k: int = 32
    pool: int = 32
    alpha: float = memrl.Config.alpha
    """Learning rate of the value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, 0.0, 1.0, "alpha")
