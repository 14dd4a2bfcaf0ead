"""MemRL: a frozen model with an episodic memory whose items carry a learned utility (arXiv 2601.03192).

Phase A: the k1 most similar memories with cosine > gate. Phase B: score = (1-w) z(sim) + w z(Q), z over the pool;
the k2 best are shown (section "Two-phase retrieval"). After the task every shown memory moves by Q += alpha (r - Q).

Deviations: rewards are 0 and 1 with Q starting at .5, an affine image of the paper's -1, +1 and 0; the gate belongs
to the embedding model (all-MiniLM-L6-v2 here); lessons are corrections and own successes instead of model-written
scripts and reflections unless ``lessons`` says "procedures" and "failures"; ties go to similarity, then to age.
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

PAPER = "arXiv 2601.03192"
LEVELS = ("memory",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(MemoryConfig):
    """Settings of MemRL; the defaults are those of table 8 of the paper (k1/k2 10/3)."""

    k: int = 3
    """Memories shown."""
    pool: int = 10
    """Candidates kept by similarity before values choose (k1)."""
    gate: float = 0.37
    """Cosine that a candidate must exceed; belongs to the embedder."""
    weight: float = 0.5
    """Share of the value in the score (1 - lambda is similarity's)."""
    alpha: float = 0.3
    """Step size of the value."""
    epsilon: float = 0.0
    """Probability of showing random members of the pool instead."""
    relevance: Literal["cosine", "hybrid"] = "cosine"
    """Cosine of the keys, or its mean with how much of the task's rare words a key covers."""


def policy(config: Config) -> Policy:
    """The memory's policy under these settings."""
    return preset_for("memrl", config)


def run(
    config: Config, folder: RunFolder, live: Live, *, resume: bool = False, model: Model | None = None
) -> dict[str, Any]:
    """Run it and return the summary that stands in ``summary.json``."""
    return run_memory_system("memrl", config, policy(config), folder, live, resume=resume, model=model)


def evaluate(folder: RunFolder, live: Live, episodes: int | None = None) -> dict[str, Any]:
    """Held-out success of what a finished run learned, its memory frozen."""
    config = from_json(Config, folder.config)
    return evaluate_memory_system(config, policy(config), folder, live, episodes)
