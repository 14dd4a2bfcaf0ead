"""The control: the frozen model alone, with as many attempts as a memory system has passes (pass@k).

Not a published system. A curve of a memory system means nothing without it: cumulative success rises by itself when
tasks are tried again, so ``attempts`` independent samples per task (temperature above 0) show what luck alone brings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Model
from evolvent.evaluate.live import Live
from evolvent.memory.policies import preset
from evolvent.rollout.memory_run import MemoryConfig, run_memory_system

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


def run(
    config: Config, folder: RunFolder, live: Live, *, resume: bool = False, model: Model | None = None
) -> dict[str, Any]:
    """Run it and return the summary that stands in ``summary.json``."""
    return run_memory_system(
        "no_memory", config, preset("none"), folder, live,
        resume=resume, model=model, attempts=config.attempts, use="none",
    )  # fmt: skip
