"""Steps of trajectories that are shown beside the step at hand (TRAD, arXiv 2403.06221): which, and in which order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Hit(NamedTuple):
    """A step that was found: its trajectory, its number in it (from 0), the cosine of its thought."""

    trajectory: str
    step: int
    cosine: float


def first_of_each(hits: Iterable[Hit], k: int) -> list[Hit]:
    """The nearest hit of each trajectory, of the ``k`` nearest of them; earliest step first.

    Of equal cosines the first trajectory by name comes first, then the earlier step.
    """
    found: dict[str, Hit] = {}
    for hit in sorted(hits, key=lambda hit: (-hit.cosine, hit.trajectory, hit.step)):
        if len(found) == k:
            break
        found.setdefault(hit.trajectory, hit)
    return sorted(found.values(), key=lambda hit: (hit.step, hit.trajectory))


def window(at: int, length: int, back: int, forward: int) -> list[tuple[int, int]]:
    """Steps ``at - back .. at + forward`` of a trajectory of ``length``, with offsets to ``at``; cut at its ends."""
    return [(step, step - at) for step in range(max(0, at - back), min(length - 1, at + forward) + 1)]


def history(now: int, length: int) -> list[int]:
    """The own steps before step ``now`` that are shown: ``length``, or as many as there are."""
    return list(range(max(0, now - length), now))
