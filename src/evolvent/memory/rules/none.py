"""No memory: nothing is compared, nothing is shown (control)."""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.memory.rule import Policy
from evolvent.memory.rules import rag

rank = rag.rank
CANDIDATES = "none"


@dataclass(frozen=True)
class Config(Policy):
    """Settings of no memory."""

    name: str = "none"
