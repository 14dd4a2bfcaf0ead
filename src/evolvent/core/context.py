"""The tokens on the path from the root of a record to a node, cached between calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

_ROOM = 256


class RunningContext:
    """The path that was asked for last, with its tokens in a buffer that grows.

    A longer path, or a node on it, costs only the tokens added since; a path that branches off reuses the shared
    beginning. Arrays that were returned are read-only and never change.
    """

    def __init__(self) -> None:
        self._ids = np.empty(_ROOM, np.int32)
        self._ends: dict[int, int] = {}  # nodes on the way, in order: tokens up to and including each

    def to(self, node: int, parents: Sequence[int], own: Callable[[int], Sequence[int]]) -> np.ndarray:
        """Tokens from the root down to ``node``, itself included: int32 ``[P]``, read-only.

        ``parents``: of each node, -1 at a root; ``own``: the tokens that a node adds.
        """
        new: list[int] = []
        at = node
        while at >= 0 and at not in self._ends:
            new.append(at)
            at = parents[at]
        if new:
            self._turn_off(at)
            for index in reversed(new):
                self._append(index, own(index))
        found = self._ids[: self._ends[node]]
        found.flags.writeable = False
        return found

    def _turn_off(self, node: int) -> None:
        """Leave the way behind ``node`` (-1 = all of it)."""
        if node < 0:
            self._ids, self._ends = np.empty(_ROOM, np.int32), {}
        elif node != next(reversed(self._ends)):
            shared = list(self._ends)
            shared = shared[: shared.index(node) + 1]
            self._ids, self._ends = self._ids[: self._ends[node]].copy(), {n: self._ends[n] for n in shared}

    def _append(self, node: int, ids: Sequence[int]) -> None:
        start = self._ends[next(reversed(self._ends))] if self._ends else 0
        end = start + len(ids)
        if end > len(self._ids):
            longer = np.empty(max(end, 2 * len(self._ids)), np.int32)
            longer[:start] = self._ids[:start]
            self._ids = longer
        self._ids[start:end] = ids
        self._ends[node] = end
