"""The arms of the attack: policies, and the operator's job that quarantines a source whose lessons do harm."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from evolvent.cli.memory.audit import audit
from evolvent.memory.memory import Memory

OMISSION = {"omit": 0.2}  # an alarm needs outcomes without a lesson
NO_SOURCES = {"strength": 1e9}  # pseudo-outcomes behind the prior: so many that a source's record never counts


class Arm(NamedTuple):
    """A policy, and what is done beside it."""

    preset: str
    fields: dict[str, Any]
    reports: bool = False
    """Whether settle hears what the agent did, so that memlift credits by use."""
    alarms: int = 0
    """Harmful lessons of a source until all of them are quarantined; 0: never."""
    descendants: bool = True
    """Whether a quarantine takes what was written under its lessons too."""


ARMS = {
    "rag": Arm("rag", {}),
    "memrl": Arm("memrl", {}),
    "memlift, omission": Arm("memlift", OMISSION),
    "memlift, no source weights": Arm("memlift", NO_SOURCES),
    "memlift": Arm("memlift", {}),
    "memlift, action told": Arm("memlift", {}, reports=True),
    "memlift + quarantine at 1": Arm("memlift", OMISSION, alarms=1),
    "memlift + quarantine at 3": Arm("memlift", OMISSION, alarms=3),
    "memlift + quarantine at 1, no descendants": Arm("memlift", OMISSION, alarms=1, descendants=False),
}


def quarantine_sources(memory: Memory, arm: Arm) -> int:
    """What an operator's job might do after every pass: a source is out when that many of its lessons do harm.

    They must also be half of its lessons that were tried, so that a few errors do not condemn an honest source.
    """
    items = {item.id: item for item in memory.items()}
    flagged = Counter(items[row["id"]].source for row in audit(memory, top=10_000)["harmful"]["worst"])
    tried = Counter(item.source for item in items.values() if item.n)
    out = 0
    for source, n in flagged.items():
        if n >= arm.alarms and 2 * n >= tried[source]:
            of_source = [i for i, item in items.items() if item.source == source]
            memory.quarantine(of_source, f"{n} of its lessons do harm", descendants=arm.descendants)
            out += 1
    return out
