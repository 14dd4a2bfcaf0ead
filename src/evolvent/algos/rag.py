"""Control: the k most similar memories, without values (RAG, the baseline of the MemRL paper).

The same memories, the same text and the same k as the learning systems, so that a difference is due to values alone.
``shuffled`` shows k memories drawn without regard to the task instead: the control for prompt length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evolvent.memory.rules.rag import Config as Rule
from evolvent.runs.memory.run import MemoryConfig, memory_system

PAPER = "control"
LEVELS = ()
STATUS = "tested"


@dataclass(frozen=True)
class Config(MemoryConfig):
    """Settings of similarity only (RAG); the defaults are the main job."""

    k: int = Rule.k
    """Memories retrieved into the prompt, at most (top k)."""
    relevance: Literal["cosine", "hybrid"] = Rule.relevance
    """Relevance: cosine of the keys, or 3/4 of it and 1/4 the share of the task's telling words in a key."""
    shuffled: bool = False
    """Show k random memories instead, to control for the length of the prompt."""


run, evaluate = memory_system("rag", Config, rule=lambda config: "random" if config.shuffled else "rag")
