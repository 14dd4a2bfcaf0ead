"""Memories that say the same twice: equal bodies under different keys, and near-equal bodies under near-equal keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from evolvent.memory.bank import Bank
from evolvent.memory.items import memory_id
from evolvent.memory.keys import OWN
from evolvent.memory.store.engine import marks

_BLOCK = 2048
_HEAD = 64  # dimensions of the first look at a pair
_MOST_PAIRS = 200_000
_WORD = re.compile(r"\w+|[^\w\s]")


def find(bank: Bank, *, near: float = 0.95, body: float = 0.9, top: int = 20) -> dict[str, Any]:
    """Duplicates among the active memories of a scope.

    Args:
        bank: the scope.
        near: keys are near when their cosine reaches this.
        body: bodies are near when the overlap (Dice) of their word pairs reaches this.
        top: at most this many groups of each kind are named; all are counted.

    Returns:
        ``same_body``: groups of memories with one body and different keys; ``near``: groups whose keys and bodies are
        near (each memory is linked to another of its group), both ``{"groups", "memories", "largest": [[ids…]…]}``.
        ``complete`` is false when there were more near pairs of keys than could be looked at.
    """
    same = bank.store.rows(
        f"SELECT body_hash, count(*) FROM memory m WHERE scope_id = ? AND status = 'active' AND {OWN} "
        "GROUP BY body_hash, kind "
        "HAVING count(DISTINCT key_hash) > 1 ORDER BY count(*) DESC, body_hash",
        (bank.scope_id,),
    )
    groups, complete = _near(bank, near, body)
    return {
        "same_body": {
            "groups": len(same),
            "memories": sum(count for _, count in same),
            "largest": [_with_body(bank, digest) for digest, _ in same[:top]],
        },
        "near": {
            "groups": len(groups),
            "memories": sum(map(len, groups)),
            "largest": [[memory_id(seq) for seq in group[:20]] for group in groups[:top]],
        },
        "complete": complete,
    }


def _with_body(bank: Bank, digest: str) -> list[str]:
    rows = bank.store.rows(
        f"SELECT seq FROM memory m WHERE scope_id = ? AND status = 'active' AND body_hash = ? AND {OWN} "
        "ORDER BY seq LIMIT 20",
        (bank.scope_id, digest),
    )
    return [memory_id(seq) for (seq,) in rows]


def _near(bank: Bank, near: float, body: float) -> tuple[list[list[int]], bool]:
    """Groups of memories, largest first, and whether every pair was looked at."""
    seqs, bodies, keys = _active(bank)
    if len(seqs) < 2:
        return [], True
    # memories with the very same key first: they share one vector, so pairs of vectors alone would miss them
    unique, place = np.unique(keys, return_inverse=True)
    members: list[list[int]] = [[] for _ in unique]
    for row, at in enumerate(place.tolist()):
        members[at].append(row)
    first = [rows[0] for rows in members]
    linked, looked = _Groups(len(seqs)), 0
    texts = _Bodies(bank)
    pairs = near_pairs(bank.index.vectors([seqs[row] for row in first]), near)
    same_key = ((at, at) for at, rows in enumerate(members) if len(rows) > 1)
    for a, b in (*same_key, *_limited(pairs)):
        rows = combinations(members[a], 2) if a == b else ((i, j) for i in members[a] for j in members[b])
        for i, j in rows:
            looked += 1
            if looked > _MOST_PAIRS:
                return _named(linked.groups(), seqs), False
            if bodies[i] == bodies[j] or texts.overlap(bodies[i], bodies[j]) >= body:
                linked.join(i, j)
    return _named(linked.groups(), seqs), True


def _named(groups: Sequence[Sequence[int]], seqs: Sequence[int]) -> list[list[int]]:
    return sorted(([seqs[row] for row in rows] for rows in groups), key=lambda group: (-len(group), group))


def _limited(pairs: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for count, pair in enumerate(pairs):
        yield pair
        if count > _MOST_PAIRS:
            return


def _active(bank: Bank) -> tuple[list[int], list[str], list[str]]:
    rows = bank.store.rows(
        "SELECT seq, body_hash, key_hash FROM memory m WHERE scope_id = ? AND status = 'active' "
        f"AND {OWN} ORDER BY seq",
        (bank.scope_id,),
    )
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def near_pairs(vec_ND: np.ndarray, near: float) -> Iterator[tuple[int, int]]:
    """Pairs ``(i, j)``, ``i < j``, of unit vectors float32 ``[N, D]`` whose cosine reaches ``near``; exact.

    Blocks of rows against blocks of rows. Most pairs are ruled out by fewer numbers: in a basis whose first axes hold
    most of the length, ``a·b`` is at most the product of the first axes plus the product of what is left of each.
    """
    head_NH = _head(vec_ND)
    n, slack = len(vec_ND), 1e-4
    for a in range(0, n, _BLOCK):
        for b in range(a, n, _BLOCK):
            bound = head_NH[a : a + _BLOCK] @ head_NH[b : b + _BLOCK].T
            rows, columns = np.nonzero(bound >= np.float32(near - slack))
            i, j = rows + a, columns + b
            keep = i < j
            i, j = i[keep], j[keep]
            for start in range(0, len(i), 65536):
                left, right = i[start : start + 65536], j[start : start + 65536]
                exact = np.einsum("nd,nd->n", vec_ND[left], vec_ND[right]) >= near
                yield from zip(left[exact].tolist(), right[exact].tolist(), strict=True)


def _head(vec_ND: np.ndarray) -> np.ndarray:
    """The longest axes, and the length of the rest as one more: float32 ``[N, <=65]``."""
    if vec_ND.shape[1] <= _HEAD + 1:
        return vec_ND
    step = max(1, len(vec_ND) // 20_000)
    sample = vec_ND[::step].astype(np.float64)
    _, axes = np.linalg.eigh(sample.T @ sample)
    head = vec_ND @ axes[:, -_HEAD:].astype(np.float32)
    rest = np.sqrt(np.maximum(0.0, np.einsum("nd,nd->n", vec_ND, vec_ND) - np.einsum("nd,nd->n", head, head)))
    return np.concatenate([head, rest[:, None].astype(np.float32)], axis=1)


class _Bodies:
    """Word pairs of bodies, read when needed."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank
        self._pairs: dict[str, set[tuple[str, str]]] = {}

    def overlap(self, a: str, b: str) -> float:
        """Dice overlap of the word pairs of two bodies, 0..1."""
        x, y = self._of(a), self._of(b)
        return 2.0 * len(x & y) / (len(x) + len(y)) if x or y else 1.0

    def _of(self, digest: str) -> set[tuple[str, str]]:
        if digest not in self._pairs:
            row = self._bank.store.row(f"SELECT body FROM text_blob WHERE hash = {marks(1)}", (digest,))
            words = [] if row is None else _WORD.findall(row[0][:20_000].lower())
            self._pairs[digest] = set(zip(["", *words], [*words, ""], strict=True))
        return self._pairs[digest]


class _Groups:
    """Union of pairs."""

    def __init__(self, n: int) -> None:
        self._parent = list(range(n))

    def root(self, i: int) -> int:
        """The representative of a member."""
        while self._parent[i] != i:
            self._parent[i] = i = self._parent[self._parent[i]]
        return i

    def join(self, i: int, j: int) -> None:
        """Put two members into one group."""
        self._parent[self.root(j)] = self.root(i)

    def groups(self) -> list[list[int]]:
        """Groups of two and more."""
        found: dict[int, list[int]] = {}
        for i in range(len(self._parent)):
            found.setdefault(self.root(i), []).append(i)
        return [rows for rows in found.values() if len(rows) > 1]
