"""Token sequences as one packed row: every shared beginning is computed once.

Sequences are put into a prefix tree whose nodes are runs of tokens; the nodes, laid end to end, are the row. A token
attends to the runs on the way from the root to its own run and to what precedes it there, and its position is its
distance from the root, so every hidden state is the one the sequence would have alone. Equal prompts, one
instruction at the head of all prompts, the turns of a growing conversation and equal answers all share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

MERGE = 160  # adjacent leaves of one parent are attended to together up to this many tokens


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring tokens of the packed row that attend to the same tokens before them.

    ``start, length`` is its place in the row; ``depth`` the position of its first token in its sequence; ``parents``
    are the runs before it on the way from the root. A run holds one node, or several leaves with one parent:
    ``parts`` are their lengths (each attends to the parents and to itself alone).
    """

    start: int
    length: int
    depth: int
    parents: tuple[int, ...]
    parts: tuple[int, ...]


@dataclass(frozen=True)
class Pack:
    """A packed row.

    Attributes:
        token_ids: int64 ``[L]``.
        positions: int64 ``[L]``, of each token in its own sequence.
        runs: in the order of the row; they cover it.
        places: for each sequence the pieces ``(start in the row, length)`` that make it, in order.
    """

    token_ids: np.ndarray
    positions: np.ndarray
    runs: tuple[Run, ...]
    places: tuple[tuple[tuple[int, int], ...], ...]

    def where(self, sequence: int, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Places in the row of tokens ``start`` to ``stop`` of a sequence: int64."""
        pieces = [np.arange(at, at + length) for at, length in self.places[sequence]]
        whole = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
        return whole[start:stop]


def pack(sequences: Sequence[np.ndarray], merge: int = MERGE) -> Pack:
    """The packed row of ``sequences`` (int ``[K]`` each, any of them may be empty or equal)."""
    order, common = _sorted(sequences)
    builder = _Builder(sequences, merge)
    stack: list[tuple[int, int, int, tuple[int, ...], tuple[tuple[int, int], ...]]] = [(0, len(order), 0, (), ())]
    while stack:
        low, high, depth, parents, pieces = stack.pop()
        leaves, inner = [], []
        for first, last in _children(sequences, order, common, low, high, depth, builder, pieces):
            ends_together = len(sequences[order[first]]) == len(sequences[order[last - 1]])
            end = len(sequences[order[first]]) if last == first + 1 else int(common[first + 1 : last].min())
            if ends_together and end == len(sequences[order[first]]):
                leaves.append((first, last, end))
            else:
                inner.append((first, last, end))
        builder.leaves(order, leaves, depth, parents, pieces)
        for first, last, end in inner:
            run, piece = builder.node(order[first], depth, end, parents)
            stack.append((first, last, end, (*parents, run), (*pieces, piece)))
    return builder.finish()


def batches(sequences: Sequence[np.ndarray], max_tokens: int) -> list[list[int]]:
    """Indices of sequences in groups whose packed rows have at most ``max_tokens`` (a longer one stands alone).

    Sequences with a common beginning stay together as far as they fit. Every index is in exactly one group.
    """
    order, common = _sorted(sequences)
    out: list[list[int]] = []
    size = 0
    for rank, index in enumerate(order):
        more = len(sequences[index]) - int(common[rank])
        if not out or size + more > max_tokens:
            out.append([])
            size, more = 0, len(sequences[index])
        out[-1].append(index)
        size += more
    return out


def _sorted(sequences: Sequence[np.ndarray]) -> tuple[list[int], np.ndarray]:
    """Lexicographic order, and how many tokens each shares with the one before it in that order (0 for the first)."""
    keys = [np.asarray(s).astype(">u4").tobytes() for s in sequences]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    common = np.zeros(len(order), np.int64)
    for rank in range(1, len(order)):
        a, b = sequences[order[rank - 1]], sequences[order[rank]]
        n = min(len(a), len(b))
        differ = np.flatnonzero(np.asarray(a[:n]) != np.asarray(b[:n]))
        common[rank] = differ[0] if len(differ) else n
    return order, common


def _children(
    sequences: Sequence[np.ndarray],
    order: list[int],
    common: np.ndarray,
    low: int,
    high: int,
    depth: int,
    builder: _Builder,
    pieces: tuple[tuple[int, int], ...],
) -> Iterator[tuple[int, int]]:
    """Ranges of ``order`` with one token at ``depth``; sequences that end there get their places."""
    while low < high and len(sequences[order[low]]) == depth:
        builder.places[order[low]] = pieces
        low += 1
    while low < high:
        last = low + 1
        while last < high and common[last] > depth:
            last += 1
        yield low, last
        low = last


class _Builder:
    """Collects nodes into runs."""

    def __init__(self, sequences: Sequence[np.ndarray], merge: int) -> None:
        self.sequences, self.merge, self.length = sequences, merge, 0
        self.ids: list[np.ndarray] = []
        self.positions: list[np.ndarray] = []
        self.runs: list[Run] = []
        self.places: list[tuple[tuple[int, int], ...]] = [()] * len(sequences)

    def node(self, index: int, depth: int, end: int, parents: tuple[int, ...]) -> tuple[int, tuple[int, int]]:
        """Tokens ``depth`` to ``end`` of a sequence as a run: its number and its piece of the row."""
        piece = self._put(index, depth, end)
        self.runs.append(Run(piece[0], piece[1], depth, parents, (piece[1],)))
        return len(self.runs) - 1, piece

    def leaves(
        self,
        order: list[int],
        leaves: list[tuple[int, int, int]],
        depth: int,
        parents: tuple[int, ...],
        pieces: tuple[tuple[int, int], ...],
    ) -> None:
        """Leaves of one parent, as few runs; leaves without a parent stay apart (nothing is shared)."""
        start, parts = self.length, list[int]()
        for first, last, end in leaves:
            if parts and (not parents or self.length - start + end - depth > self.merge):
                self.runs.append(Run(start, self.length - start, depth, parents, tuple(parts)))
                start, parts = self.length, []
            piece = self._put(order[first], depth, end)
            parts.append(piece[1])
            for rank in range(first, last):
                self.places[order[rank]] = (*pieces, piece)
        if parts:
            self.runs.append(Run(start, self.length - start, depth, parents, tuple(parts)))

    def _put(self, index: int, depth: int, end: int) -> tuple[int, int]:
        self.ids.append(np.asarray(self.sequences[index][depth:end], np.int64))
        self.positions.append(np.arange(depth, end))
        start, self.length = self.length, self.length + end - depth
        return start, end - depth

    def finish(self) -> Pack:
        empty = np.empty(0, np.int64)
        ids = np.concatenate([empty, *self.ids])
        return Pack(ids, np.concatenate([empty, *self.positions]), tuple(self.runs), tuple(self.places))
