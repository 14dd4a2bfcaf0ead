"""memlift, our default: relevance that sees rare words, values by use, and credit by leaving out.

Recall: candidates with a cosine above a gate, whose hybrid relevance (cosine and coverage of the task's rare words) is
within a margin of the best; score = (1-w) z(relevance) + w z(worth), with a floor under both spreads so that noise
among equals is not blown up. worth = c lift + (1-c) (value - pool mean).

Credit: a shown memory moves towards the outcome by how much of the action came from it (overlap of word pairs); its
step starts as a running mean and never falls below alpha. Each selected memory but the best is left out with a logged
probability that falls with its omissions; lift is the self-normalised inverse-propensity difference of outcomes with
and without it, trusted by c = t^2 / (t^2 + se^2). Ancestors of a memory that came from a success earn trace^depth.

Why each part is there, and what did not help: LOG.md.
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

PAPER = "ours"
LEVELS = ("memory",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(MemoryConfig):
    """Settings of memlift; the defaults are chosen in surrogate and synthetic worlds (LOG.md)."""

    k: int = 3
    """Memories shown."""
    pool: int = 10
    """Candidates kept by similarity before values choose (k1)."""
    gate: float = 0.3
    """Cosine that a candidate must exceed; belongs to the embedder."""
    margin: float = 0.15
    """Candidates this much less relevant than the best one are left out."""
    weight: float = 0.5
    """Share of the value in the score (1 - lambda is similarity's)."""
    alpha: float = 0.3
    """Step size of the value."""
    omit: float = 0.2
    """Probability of leaving out a selected memory (never the best one); falls with the number of omissions."""
    trace: float = 0.3
    """Decay per link back to ancestors."""
    relevance: Literal["cosine", "hybrid"] = "hybrid"
    """Cosine of the keys, or its mean with how much of the task's rare words a key covers."""


def policy(config: Config) -> Policy:
    """The memory's policy under these settings."""
    return preset_for("memlift", config)


def run(
    config: Config, folder: RunFolder, live: Live, *, resume: bool = False, model: Model | None = None
) -> dict[str, Any]:
    """Run it and return the summary that stands in ``summary.json``."""
    return run_memory_system("memlift", config, policy(config), folder, live, resume=resume, model=model)


def evaluate(folder: RunFolder, live: Live, episodes: int | None = None) -> dict[str, Any]:
    """Held-out success of what a finished run learned, its memory frozen."""
    config = from_json(Config, folder.config)
    return evaluate_memory_system(config, policy(config), folder, live, episodes)
