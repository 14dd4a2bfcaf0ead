"""memlift without use: each shown memory is credited alike, however much of the action came from it. An ablation."""

from dataclasses import dataclass

from evolvent.memory.rules import memlift
from evolvent.memory.rules.memlift import bars, credit, rank

__all__ = ["Config", "bars", "credit", "rank"]
LEVEL = memlift.LEVEL
SOURCES = RIVALS = NEARNESS = True


@dataclass(frozen=True)
class Config(memlift.Config):
    """Those of memlift."""

    name: str = "unused"
