"""MemQ: values travel back over the graph of which memory helped to write which (arXiv 2605.08374).

delta(m0) = r + gamma Q(new) - Q(m0) for each shown m0; every ancestor m at depth d, and m0 at depth 0, moves by
alpha (gamma trace)^d delta(m0). gamma = 0 is MemRL's update. Selection: score = (1-w) sim + w Q above the gate,
epsilon-greedy.

Deviations: depth is the shortest path and all changes are computed from the values before the task (both open in the
notes); rewards are 0 and 1; a new memory starts at 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolvent.core.config import from_json
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Model
from evolvent.evaluate.live import Live
from evolvent.memory.policies import Policy, preset_for
from evolvent.rollout.memory_run import MemoryConfig, evaluate_memory_system, run_memory_system

PAPER = "arXiv 2605.08374"
LEVELS = ("memory",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(MemoryConfig):
    """Settings of MemQ; the defaults are read from a study note (the full text was not available)."""

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
    epsilon: float = 0.05
    """Probability of showing random members of the pool instead."""
    gamma: float = 0.5
    """Discount of the value of the memory that was written after."""
    trace: float = 0.5
    """Decay per link back to ancestors."""


def policy(config: Config) -> Policy:
    """The memory's policy under these settings."""
    return preset_for("memq", config)


def run(
    config: Config, folder: RunFolder, live: Live, *, resume: bool = False, model: Model | None = None
) -> dict[str, Any]:
    """Run it and return the summary that stands in ``summary.json``."""
    return run_memory_system("memq", config, policy(config), folder, live, resume=resume, model=model)


def evaluate(folder: RunFolder, live: Live, episodes: int | None = None) -> dict[str, Any]:
    """Held-out success of what a finished run learned, its memory frozen."""
    config = from_json(Config, folder.config)
    return evaluate_memory_system(config, policy(config), folder, live, episodes)
