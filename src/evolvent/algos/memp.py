"""MemP as the MemRL authors ran it: MemRL's memories, gate and pool, ranked by similarity, no values.

Score: z(sim) within the pool of the k1 most similar above the gate. Deviation: the original MemP also deletes
procedures (after three uses with less than half of them right) and rewrites failed ones with a model.
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

PAPER = "arXiv 2508.06433"
LEVELS = ()
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(MemoryConfig):
    """Settings of MemP; the defaults are those of MemRL."""

    k: int = 3
    """Memories shown."""
    pool: int = 10
    """Candidates kept by similarity before values choose (k1)."""
    gate: float = 0.37
    """Cosine that a candidate must exceed; belongs to the embedder."""


def policy(config: Config) -> Policy:
    """The memory's policy under these settings."""
    return preset_for("memp", config)


def run(
    config: Config, folder: RunFolder, live: Live, *, resume: bool = False, model: Model | None = None
) -> dict[str, Any]:
    """Run it and return the summary that stands in ``summary.json``."""
    return run_memory_system("memp", config, policy(config), folder, live, resume=resume, model=model)


def evaluate(folder: RunFolder, live: Live, episodes: int | None = None) -> dict[str, Any]:
    """Held-out success of what a finished run learned, its memory frozen."""
    config = from_json(Config, folder.config)
    return evaluate_memory_system(config, policy(config), folder, live, episodes)
