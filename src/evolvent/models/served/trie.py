"""Continuations as a token trie: a shared beginning is evaluated once, and every node knows its branches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class Trie:
    """The inner nodes of a trie over token sequences, parents before children, in arrays.

    Args:
        sequences: all continuations, int ``[K]`` each.
        order: which of them still wait, sorted so that common beginnings are neighbours; each has two tokens or more.
        max_branches: how many sequences may be taken at once.
        max_nodes: how many inner nodes may be made (the first sequence is always taken whole).

    Attributes:
        taken: how many of ``order`` this trie holds, from its front.
        tokens, depths: int32 ``[N]`` of the inner nodes; depth 0 follows the prompt.
        branches, branch_offsets: branch numbers (0 … taken - 1) through node ``i`` are
            ``branches[branch_offsets[i] : branch_offsets[i + 1]]``.
        edges: for node ``i`` the pairs (index into ``sequences``, token) whose log-probability its logits give.
    """

    def __init__(
        self, sequences: Sequence[np.ndarray], order: Sequence[int], max_branches: int, max_nodes: int
    ) -> None:
        children: dict[tuple[int, int], int] = {}
        tokens: list[int] = []
        depths: list[int] = []
        through: list[list[int]] = []
        self.edges: list[list[tuple[int, int]]] = []
        self.taken = 0
        for which in order[:max_branches]:
            sequence = [int(t) for t in sequences[which]]
            if self.taken and len(tokens) + len(sequence) - 1 > max_nodes:
                break
            node = -1
            for depth, token in enumerate(sequence[:-1]):
                child = children.setdefault((node, token), len(tokens))
                if child == len(tokens):
                    tokens.append(token)
                    depths.append(depth)
                    through.append([])
                    self.edges.append([])
                node = child
                through[node].append(self.taken)
                self.edges[node].append((which, sequence[depth + 1]))
            self.taken += 1
        self.tokens = np.array(tokens, np.int32)
        self.depths = np.array(depths, np.int32)
        self.branches = np.array([b for row in through for b in row], np.int32)
        self.branch_offsets = np.concatenate([[0], np.cumsum([len(row) for row in through])]).astype(np.int64)
