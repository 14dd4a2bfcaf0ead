"""The decisions of an attempt with a memory: what was recalled for each and shown, and how it goes on record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from evolvent.core.episode import Episode
from evolvent.memory.items import Recall


@dataclass
class Decision:
    """A decision of an attempt."""

    key: str
    """What was seen, in words."""
    recall: Recall | None = None
    shown: tuple[str, ...] = ()
    action: str = ""
    at: int = -1
    """Its place in the record; -1 = it was not made."""


D = TypeVar("D", bound=Decision)


def undecided(decisions: list[D]) -> D | None:
    """Remove the last decision if it was never made; returns it."""
    return decisions.pop() if decisions and decisions[-1].at < 0 else None


def record(episode: Episode, recall: Recall, shown: Sequence[str]) -> None:
    """Put on record what of a receipt was shown and left out for the decision at hand, and with which probability.

    What was handed out and dropped is kept where it might have been left out: else it says nothing.
    """
    omitted = [item.id for item in recall.omitted]
    dropped = [item.id for item in recall.items if item.id not in shown and 0.0 < item.propensity < 1.0]
    known = {*shown, *omitted, *dropped}
    chances = {
        item.id: item.propensity
        for item in (*recall.items, *recall.omitted)
        if item.id in known and item.propensity > 0.0
    }
    episode.recall(recall.id, shown, omitted=omitted, dropped=dropped, propensity=chances)
