"""Search trees as arrays: one number a node, no object; many trees stand in one set of arrays.

A node is what was reached by one move from its parent; the children of a node stand together. Two moves that lead to
one state at the same depth may share what follows (``join``): each keeps its own visits, value and children are those
of the first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput

_EMPTY = {"parent": -1, "first": -1, "task": -1, "state": -1, "prior": 1.0, "reward": np.nan}
"""What a new node has in a column; elsewhere 0."""


class Tree:
    """The arrays, each ``[n]``; they grow by doubling.

    Attributes:
        roots: the first tree of each task; node i is that of task i.
        parent: -1 at a root.
        first, width: its children are ``first … first + width - 1``; ``first`` is -1 before they are made.
        task, depth: which task a node is of, and moves from its root.
        state: the node whose children, visits and value are read; itself unless it was joined to another.
        tokens: of the move that leads here.
        visits, total: simulations through the state that have ended, and the sum of what they were worth.
        pending: simulations through the state that are under way.
        taken: simulations through this move, ended or under way; differs from the two where states were joined.
        prior: probability of the move among its siblings.
        value: what the state was judged to be worth when it was made.
        reward: of a finished attempt, NaN where not known.
        entered: its last move was made. terminal: the attempt ends here. dead: no move from here could be made.
        least: of each task, the least that a state was judged to be worth, at most 0: what is lost is worth as much.
    """

    parent = first = width = task = depth = state = tokens = pending = np.zeros(0, np.int32)
    visits = taken = np.zeros(0, np.int64)
    total = prior = value = reward = np.zeros(0)
    entered = terminal = dead = np.zeros(0, np.bool_)

    def __init__(self, tasks: int, *, virtual_loss: float = 1.0) -> None:
        if tasks < 1:
            raise BadInput("a tree without a root", got=tasks, expected="at least 1", where="search.tree")
        self.n, self._room, self.virtual_loss = 0, 0, virtual_loss
        self.least = np.zeros(tasks)
        self.roots = self._take(tasks)
        self.task[self.roots] = self.roots

    def __len__(self) -> int:
        return self.n

    def add(self, parents: Sequence[int], counts: Sequence[int], prior: ArrayLike, tokens: ArrayLike) -> np.ndarray:
        """The children of some nodes, parent by parent: their numbers int64 ``[sum(counts)]``.

        Args:
            parents: nodes without children.
            counts: children of each.
            prior: ``[sum(counts)]``.
            tokens: of each move, ``[sum(counts)]``.
        """
        above, counts_ = np.asarray(parents, np.int64), np.asarray(counts, np.int64)
        if (self.first[above] >= 0).any() or len(np.unique(above)) < len(above):
            raise BadInput("a node gets children once", got=above.tolist(), where="search.tree.Tree.add")
        new = self._take(int(counts_.sum()))
        self.first[above] = np.cumsum(counts_) - counts_ + (new[0] if len(new) else 0)
        self.width[above] = counts_
        owner = np.repeat(above, counts_)
        self.parent[new], self.task[new], self.depth[new] = owner, self.task[owner], self.depth[owner] + 1
        self.prior[new], self.tokens[new] = prior, tokens
        return new

    def twin(self, nodes: Sequence[int]) -> np.ndarray:
        """New nodes that stand where these do, without visits and children: another tree, or another try from here."""
        like = np.asarray(nodes, np.int64)
        new = self._take(len(like))
        for column in (self.parent, self.task, self.depth, self.tokens, self.prior, self.value):
            column[new] = column[like]
        return new

    def join(self, node: int, other: int) -> None:
        """Say that ``node``, not visited yet, is the state of ``other``, in the same task at the same depth."""
        other = int(self.state[other])
        if self.task[node] != self.task[other] or self.depth[node] != self.depth[other] or self.visits[node]:
            where = "search.tree.Tree.join"
            raise BadInput("only a new node of the same task and depth can be joined", got=(node, other), where=where)
        self.pending[other] += self.pending[node]
        self.pending[node] = 0
        self.state[node] = other

    # ------------------------------------------------------------------------------------------------ reading
    def q(self, nodes: np.ndarray | int) -> np.ndarray:
        """Mean value of each state, what it was judged to be worth before the first visit; under way counts as lost."""
        at = self.state[nodes]
        n = self.visits[at] + self.pending[at]
        loss = np.maximum(self.virtual_loss, -self.least[self.task[at]])
        total = self.total[at] - loss * self.pending[at]
        return np.where(n > 0, total / np.maximum(n, 1), self.value[at])

    def expanded(self, node: int) -> bool:
        """Whether it has been asked for children."""
        return bool(self.first[self.state[node]] >= 0)

    def children(self, node: int) -> np.ndarray:
        """Its children, int64 ``[W]``."""
        at = self.state[node]
        first = int(self.first[at])
        return np.arange(first, first + int(self.width[at])) if first >= 0 else np.arange(0)

    def table(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Children of many nodes, int64 ``[M, W]``, and which of them are there, bool ``[M, W]``."""
        at = self.state[nodes]
        places = np.arange(max(1, int(self.width[at].max(initial=0))))
        there_MW = places < self.width[at][:, None]
        return np.where(there_MW, self.first[at][:, None] + places, 0), there_MW

    def path(self, node: int) -> list[int]:
        """From the root to ``node``, both included."""
        out: list[int] = []
        while node >= 0:
            out.append(int(node))
            node = self.parent[node]
        return out[::-1]

    def inside(self, task: int) -> np.ndarray:
        """The nodes of one task, in the order in which they were made."""
        return np.flatnonzero(self.task[: self.n] == task)

    # ------------------------------------------------------------------------------------------------ writing
    def begin(self, nodes: np.ndarray) -> None:
        """A simulation reaches each of these nodes; ``backup`` or ``abandon`` ends it."""
        np.add.at(self.taken, nodes, 1)
        np.add.at(self.pending, self.state[nodes], 1)

    def backup(self, paths: Sequence[Sequence[int]], values: ArrayLike) -> None:
        """End simulations: one visit and its value for every state on the way.

        Args:
            paths: nodes that were begun, root first.
            values: what each simulation was worth.

        Raises:
            BadInput: a value is not finite.
        """
        worth = np.asarray(values, np.float64)
        if worth.shape != (len(paths),) or not np.isfinite(worth).all():
            expected, where = f"{len(paths)} finite numbers", "search.tree.Tree.backup"
            raise BadInput("values of simulations", got=worth.tolist(), expected=expected, where=where)
        if not len(paths):
            return
        at = self.state[np.concatenate([np.asarray(path, np.int64) for path in paths])]
        np.add.at(self.visits, at, 1)
        np.add.at(self.total, at, np.repeat(worth, [len(path) for path in paths]))
        np.add.at(self.pending, at, -1)

    def abandon(self, path: Sequence[int]) -> None:
        """End a simulation as if it had not been begun."""
        nodes = np.asarray(path, np.int64)
        np.add.at(self.taken, nodes, -1)
        np.add.at(self.pending, self.state[nodes], -1)

    def forget(self, task: int) -> None:
        """Set the visits of one task's nodes, and what they were worth, to nothing; its moves stay."""
        at = self.inside(task)
        self.visits[at], self.taken[at], self.total[at] = 0, 0, 0.0

    # ------------------------------------------------------------------------------------------------ inside
    def _take(self, count: int) -> np.ndarray:
        new = np.arange(self.n, self.n + count)
        if self.n + count > self._room:
            room = max(256, 2 * self._room, self.n + count)
            for name, none in vars(Tree).items():
                if isinstance(none, np.ndarray):
                    column = np.full(room, _EMPTY.get(name, 0), none.dtype)
                    column[: self.n] = getattr(self, name)[: self.n]
                    setattr(self, name, column)
            self._room = room
        self.n += count
        self.state[new] = new
        return new
