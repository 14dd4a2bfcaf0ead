"""Simulations: from a node down to a leaf, by a rule of selection, and what was found there back up.

All trees go on in lockstep, and in each ``parallel`` simulations at once: what they need is made and judged in one
batch. Those under way count as lost (virtual loss), so that they part. Where all have one way only, nothing is scored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.seeding import rng
from evolvent.formulas.selection import puct, puct_constant
from evolvent.search.search import Search
from evolvent.search.tree import Tree

Score = Callable[[Tree, np.ndarray, np.ndarray], np.ndarray]
"""How a child is chosen, the highest first: tree, nodes ``[M]``, their children ``[M, W]`` to float64 ``[M, W]``.

One with ``draws = False`` is not asked about an only child; one that draws is, or it would draw otherwise later."""


@dataclass(frozen=True)
class Puct:
    """AlphaZero's rule (``formulas.selection.puct``)."""

    init: float = 3.0
    """Weight of exploration before it grows; 3 in TS-LLM's scripts, 1.25 in OpenR."""
    base: float = 19652.0
    """Visits over which it grows."""
    draws: ClassVar[bool] = False

    def __call__(self, tree: Tree, nodes: np.ndarray, children: np.ndarray) -> np.ndarray:
        """The scores; without a visit of the parent the values alone decide."""
        at = tree.state[nodes]
        # the simulation that is choosing now is under way itself
        parent = np.maximum(tree.visits[at] + tree.pending[at] - 1, 0)[:, None]
        c = puct_constant(parent, init=self.init, base=self.base)
        return puct(tree.q(children), tree.prior[children], tree.taken[children], c, parent=parent)


class Draws:
    """A generator for each task, so that nothing depends on which tasks are searched together.

    Args:
        seed: one for all tasks, or a seed for each.
        what: draws of another name are other draws.
        tasks: how many there are.
    """

    def __init__(self, seed: int | Sequence[int], what: str, tasks: int) -> None:
        seeds = [(seed, task) for task in range(tasks)] if isinstance(seed, int) else [(one,) for one in seed]
        if len(seeds) != tasks:
            raise BadInput("a seed for each task", got=f"{len(seeds)} seeds", expected=tasks, where=f"{what}: seed")
        self._of = [rng(*parts, what) for parts in seeds]

    def __getitem__(self, task: int) -> np.random.Generator:
        return self._of[task]

    def uniform(self, tree: Tree, nodes: np.ndarray, children: np.ndarray) -> np.ndarray:
        """A number in 0..1 for each child of each node, float64 ``[M, W]``."""
        out = np.zeros(children.shape)
        for row, task, n in zip(out, tree.task[nodes].tolist(), tree.width[tree.state[nodes]].tolist(), strict=True):
            row[:n] = self._of[task].random(n)
        return out


@dataclass(frozen=True)
class ByPrior:
    """Children drawn by their prior: samples inside one tree. ``draw`` is used up."""

    draw: Draws

    def __call__(self, tree: Tree, nodes: np.ndarray, children: np.ndarray) -> np.ndarray:
        """Gumbel noise on the log-priors: the highest is a draw."""
        with np.errstate(divide="ignore"):
            return np.log(tree.prior[children]) - np.log(-np.log(self.draw.uniform(tree, nodes, children)))


@dataclass
class Growing:
    """Which trees still grow: not one in which ``patience`` rounds have come to no new state and asked for nothing.

    Without a limit of paths a search would go around in it for ever; with one of few paths the budget is left over.
    """

    search: Search
    patience: int = 64

    def __post_init__(self) -> None:
        self._seen = self._progress()
        self._idle = np.zeros(len(self._seen), np.int64)

    def __call__(self, roots: Sequence[int]) -> list[int]:
        """Of these roots, those that go on; called once a round."""
        now = self._progress()
        self._idle = np.where(now > self._seen, 0, self._idle + 1)
        self._seen = now
        return [n for n in roots if self._idle[self.search.tree.task[n]] <= self.patience]

    def _progress(self) -> np.ndarray:
        return self.search.meter.calls + self.search.entered


def simulate(
    search: Search, starts: Sequence[int], score: Score, *, parallel: int = 1, to_end: bool = False
) -> list[list[int]]:
    """``parallel`` simulations from each node of ``starts``.

    Args:
        search: what is searched.
        starts: distinct nodes.
        score: chooses among children.
        parallel: simulations of one tree that are under way at once.
        to_end: give every leaf children and go on to the end of an attempt. Otherwise stop at a leaf that is new: it
            gets children when it is reached for the second time (lazy expansion).

    Returns:
        The paths from start to leaf; those that the budget stopped before they had left the start are missing.
    """
    tree, heads_P, draws = search.tree, np.tile(np.asarray(starts, np.int64), parallel), getattr(score, "draws", True)
    paths: list[list[int]] = [[node] for node in heads_P.tolist()]
    tree.begin(heads_P)
    going, at_start = np.arange(len(paths)), True
    while len(going):
        if not tree.width[tree.state[heads_P[going]]].all():
            search.enter(heads_P[going])
            going = going[~tree.terminal[tree.state[heads_P[going]]]]
            search.expand(heads_P[going[(tree.visits[tree.state[heads_P[going]]] > 0) | at_start | to_end]])
            going = going[tree.width[tree.state[heads_P[going]]] > 0]
        at_start = False
        if len(going) and not draws and (tree.width[tree.state[heads_P[going]]] == 1).all():
            _onward(tree, heads_P, going, paths)
            continue
        for some in _rounds(going, len(starts)):
            nodes = heads_P[some]
            children, there = tree.table(nodes)
            scores = np.where(there, score(tree, nodes, children), -np.inf)
            heads_P[some] = chosen = children[np.arange(len(some)), scores.argmax(1)]
            tree.begin(chosen)
            for i, child in zip(some.tolist(), chosen.tolist(), strict=True):
                paths[i].append(child)
    return _ended(search, paths)


def _onward(tree: Tree, heads_P: np.ndarray, going: np.ndarray, paths: list[list[int]]) -> None:
    """Simulations with one way each go on along it, until one of them stands where it has another number of ways."""
    at, passed = heads_P[going], list[np.ndarray]()
    while not passed or (tree.width[tree.state[at]] == 1).all():
        at = tree.first[tree.state[at]].astype(np.int64)
        passed.append(at)
    heads_P[going] = at
    ways = np.stack(passed, axis=1)
    tree.begin(ways.ravel())
    for i, way in zip(going.tolist(), ways.tolist(), strict=True):
        paths[i].extend(way)


def _rounds(going: np.ndarray, trees: int) -> list[np.ndarray]:
    """Simulations that choose at once: one from each start."""
    if not len(going):
        return []
    turn = going // trees
    return [going] if turn[0] == turn[-1] else np.split(going, np.flatnonzero(np.diff(turn)) + 1)


def _ended(search: Search, paths: list[list[int]]) -> list[list[int]]:
    tree, reached = search.tree, list[list[int]]()
    for path in paths:
        if len(path) > 1 or tree.terminal[path[0]]:
            reached.append(path)
        else:
            tree.abandon(path)
    tree.backup(reached, [search.worth(path[-1]) for path in reached])
    return reached
