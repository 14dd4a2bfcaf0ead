"""The control: the frozen model alone, with as many attempts as a memory system has passes (pass@k).

Not a published system. A curve of a memory system means nothing without it: cumulative success rises by itself when
tasks are tried again, so ``attempts`` independent samples per task (temperature above 0) show what luck alone brings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolvent.core.config import from_json
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Model
from evolvent.evaluate.live import Live
from evolvent.memory.policies import Policy, preset
from evolvent.rollout.memory_run import MemoryConfig, evaluate_memory_system, run_memory_system

PAPER = "control"
LEVELS = ()
STATUS = "tested"


@dataclass(frozen=True)
class Config(MemoryConfig):
    """Settings of the control."""

    passes: int = 1
    """Passes over the stream."""
    attempts: int = 1
    """Attempts per task; a task counts as solved when one succeeds (pass@k). Needs temperature above 0."""


def policy(config: Config) -> Policy:
    """No memory is shown or written."""
    return preset("none")


def run(
    config: Config, folder: RunFolder, live: Live, *, resume: bool = False, model: Model | None = None
) -> dict[str, Any]:
    """Run it and return the summary that stands in ``summary.json``."""
    return run_memory_system(
        "no_memory", config, policy(config), folder, live, resume=resume, model=model, attempts=config.attempts
    )


def evaluate(folder: RunFolder, live: Live, episodes: int | None = None) -> dict[str, Any]:
    """Held-out success of the model alone."""
    config = from_json(Config, folder.config)
    return evaluate_memory_system(config, policy(config), folder, live, episodes)
