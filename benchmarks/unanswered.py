"""memlift without answers: a correction stands beside what it corrects, and does not take its place. An ablation."""

from dataclasses import dataclass

from evolvent.memory.rules import memlift
from evolvent.memory.rules.memlift import bars, credit, rank

__all__ = ["Config", "bars", "credit", "rank"]
LEVEL = memlift.LEVEL
SOURCES = BODIES = NEARNESS = True


@dataclass(frozen=True)
class Config(memlift.Config):
    """Those of memlift."""

    name: str = "unanswered"
