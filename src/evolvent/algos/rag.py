"""Similarity only: the k most similar memories, whatever became of them (RAG, the baseline of the MemRL paper).

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
    """Memories shown."""
    relevance: Literal["cosine", "hybrid"] = Rule.relevance
    """Cosine of the keys, or its mean with how much of the task's rare words a key covers."""
    shuffled: bool = False
    """Show k random memories instead (control for the length of the prompt)."""


run, evaluate = memory_system("rag", Config, rule=lambda config: "random" if config.shuffled else "rag")
