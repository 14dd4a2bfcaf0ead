"""Any k memories, whatever the task: the control for the length of the prompt."""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.memory.rule import Policy
from evolvent.memory.rules import rag

rank = rag.rank
CANDIDATES = "any"


@dataclass(frozen=True)
class Config(Policy):
    """Settings of the control."""

    name: str = "random"
