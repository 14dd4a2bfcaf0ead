"""Greedy: one answer, each token the likeliest; what the model says without a search.

Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.search.best_of_n import draw
from evolvent.search.search import Search, Settings

TEMPERATURE = 0.0
UNIT = "answer"


@dataclass(frozen=True)
class Config(Settings):
    """It has no settings."""


def run(search: Search, config: Config = Config()) -> None:
    """Write one answer for every task."""
    draw(search, 1, 1)
