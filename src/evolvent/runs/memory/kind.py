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
            "an agent, and you can tell how it went: right or wrong, a score",
            "a memory with measured values; the model stays as it is",
            "evolvent run memlift",
            "llama",
            "29 min on two cores",
            "no",
            "large gains where tasks of one kind come again and somebody corrects the agent; over recall by similarity "
            "it adds most where notes can be wrong, and nothing at all on some tasks",
            "beside-your-agent.md",
        ),
    ),
)
