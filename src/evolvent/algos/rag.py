"""Similarity only: the k most similar memories, whatever became of them (RAG, the baseline of the MemRL paper).

The same memories, the same text and the same k as the learning systems, so that a difference is due to values alone.
``shuffled`` shows k memories drawn without regard to the task instead: the control for prompt length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from evolvent.core.config import from_json
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Model
from evolvent.evaluate.live import Live
from evolvent.memory.policies import Policy, preset_for
from evolvent.rollout.memory_run import MemoryConfig, evaluate_memory_system, run_memory_system

PAPER = "control"
LEVELS = ()
STATUS = "tested"


@dataclass(frozen=True)
class Config(MemoryConfig):
    """Settings of similarity only (RAG); the defaults are the main job."""

    k: int = 3
    """Memories shown."""
    relevance: Literal["cosine", "hybrid"] = "cosine"
    """Cosine of the keys, or its mean with how much of the task's rare words a key covers."""
    shuffled: bool = False
    """Show k random memories instead (control for the length of the prompt)."""


def policy(config: Config) -> Policy:
    """The memory's policy under these settings."""
    return preset_for("random" if config.shuffled else "rag", config)


def run(
    config: Config, folder: RunFolder, live: Live, *, resume: bool = False, model: Model | None = None
) -> dict[str, Any]:
    """Run it and return the summary that stands in ``summary.json``."""
    return run_memory_system("rag", config, policy(config), folder, live, resume=resume, model=model)


def evaluate(folder: RunFolder, live: Live, episodes: int | None = None) -> dict[str, Any]:
    """Held-out success of what a finished run learned, its memory frozen."""
    config = from_json(Config, folder.config)
    return evaluate_memory_system(config, policy(config), folder, live, episodes)
