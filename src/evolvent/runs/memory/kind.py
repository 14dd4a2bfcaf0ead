"""A frozen model that learns from experience."""

from __future__ import annotations

from evolvent import envs
from evolvent.runs.kind import Choice, Kind
from evolvent.runs.memory.account import account

KIND = Kind(
    "memory",
    "memory: a frozen model learns from experience",
    account,
    envs.TASKS,
    choices=(
        Choice(
            "questions with right answers, and a language model that stays as it is",
            "a memory with measured values; the main job, with a model in the process (1.1 GB, fetched once)",
            "evolvent run memlift",
            "llama",
            "12 min on one core",
            "no",
            "large gains where tasks of one kind come again and somebody corrects the agent; over recall by similarity "
            "little or nothing on most tasks",
            "memlift.md",
        ),
    ),
)
