"""Control: the frozen model without memory, with as many attempts as a memory system has passes (pass@k).

Not a published system. A curve of a memory system means nothing without it: cumulative success rises by itself when
tasks are tried again, so ``attempts`` independent samples per task (temperature above 0) show what luck alone brings.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.runs.memory.run import MemoryConfig, memory_system

PAPER = "control"
LEVELS = ()
STATUS = "tested"


@dataclass(frozen=True)
class Config(MemoryConfig):
    """Settings of the control."""

    passes: int = 1
    """Passes over the stream of tasks."""
    attempts: int = 1
    """Attempts at each task; it counts as solved if one succeeds (pass@k). Needs temperature above 0."""


run, evaluate = memory_system("no_memory", Config, rule="none", attempts=lambda config: config.attempts)
