"""Memories that say the same twice: equal bodies under different keys, and near-equal bodies under near-equal keys."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise, product
from typing import Any

from evolvent.memory.bank import Bank
from evolvent.memory.items import memory_id
from evolvent.memory.keys import OWN

_MOST_PAIRS = 200_000
_NEAR_BODIES = 0.9
_WORD = re.compile(r"\w+|[^\w\s]")


def find(bank: Bank, *, near: float = 0.95, top: int = 20) -> dict[str, Any]:
    """Duplicates among the active memories of a scope.

    Args:
        bank: the scope.
        near: keys are near when their cosine reaches this.
        top: at most this many groups of each kind are named; all are counted.

    Returns:
        ``same_body``: groups of memories with one body and different keys; ``near``: groups whose keys and bodies
        (by the overlap of their word pairs) are near, each memory to another of its group; both ``{"groups",
        "memories", "largest": [[ids…]…]}``.
        ``complete`` is false when there were more pairs of like bodies than could be looked at.
    """
    same = bank.store.rows(
        f"SELECT body_hash, count(*) FROM memory m WHERE scope_id = ? AND status = 'active' AND {OWN} "
        "GROUP BY body_hash, kind "
        "HAVING count(DISTINCT key_hash) > 1 ORDER BY count(*) DESC, body_hash",
        (bank.scope_id,),
    )
    groups, complete = _near(bank, near)
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


def _near(bank: Bank, near: float) -> tuple[list[list[int]], bool]:
    """Groups of memories, largest first, and whether every pair was looked at."""
    rows = bank.store.rows(
        f"SELECT seq, body_hash FROM memory m WHERE scope_id = ? AND status = 'active' AND {OWN} ORDER BY seq",
        (bank.scope_id,),
    )
    seqs, members = [seq for seq, _ in rows], dict[str, list[int]]()
    for i, (_, digest) in enumerate(rows):
        members.setdefault(digest, []).append(i)
    vec_ND, linked, looked = bank.index.vectors(seqs), _Groups(len(seqs)), 0
    texts = (
        (digest, text)
        for piece in bank.store.chunks("SELECT hash, body FROM text_blob", size=512)
        for digest, text in piece
        if digest in members
    )
    same = ((digest, digest) for digest, found in members.items() if len(found) > 1)
    for a, b in (*same, *near_bodies(texts, _NEAR_BODIES)):
        for i, j in combinations(members[a], 2) if a == b else product(members[a], members[b]):
            looked += 1
            if looked > _MOST_PAIRS:
                return _named(linked.groups(), seqs), False
            if float(vec_ND[i] @ vec_ND[j]) >= near:
                linked.join(i, j)
    return _named(linked.groups(), seqs), True


def _named(groups: Sequence[Sequence[int]], seqs: Sequence[int]) -> list[list[int]]:
    return sorted(([seqs[row] for row in rows] for rows in groups), key=lambda group: (-len(group), group))


def near_bodies(texts: Iterable[tuple[str, str]], near: float) -> Iterator[tuple[str, str]]:
    """Pairs of names of texts ``(name, text)`` whose word pairs overlap (Dice) by at least ``near``, 0..1; exact.

    Two sets with so much in common share one of the rarest members of each: only those that do are compared
    (prefix filtering, Chaudhuri et al. 2006).
    """
    found = {name: _word_pairs(text) for name, text in texts}
    often = Counter(pair for pairs in found.values() for pair in pairs)
    holders: dict[int, list[str]] = defaultdict(list)
    for name, pairs in found.items():
        needed = math.ceil(near / (2.0 - near) * len(pairs) - 1e-9)
        rarest = sorted(pairs, key=lambda pair: (often[pair], pair))[: len(pairs) - max(1, needed) + 1]
        for other in {other for pair in rarest for other in holders[pair]}:
            if 2.0 * len(pairs & found[other]) >= near * (len(pairs) + len(found[other])):
                yield other, name
        for pair in rarest:
            holders[pair].append(name)


def _word_pairs(text: str) -> set[int]:
    words = _WORD.findall(text[:20_000].lower())
    return set(map(hash, pairwise(["", *words, ""])))


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
