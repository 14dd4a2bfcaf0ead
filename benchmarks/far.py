"""memlift as it was before nearness: an outcome counts alike, however far from a memory its task was. An ablation."""

from dataclasses import dataclass

from evolvent.memory.rules import memlift
from evolvent.memory.rules.memlift import bars, credit, rank

__all__ = ["Config", "bars", "credit", "rank"]
LEVEL = memlift.LEVEL
SOURCES = BODIES = RIVALS = True


@dataclass(frozen=True)
class Config(memlift.Config):
    """Those of memlift."""

    name: str = "far"
