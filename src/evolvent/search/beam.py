"""Beam search by value: at every depth the best states of a task go on, as many as that depth keeps.

Source: OpenR (arXiv 2410.09671): N samples, the best N/m stay and get m children each. How wide and how many stay may
differ by depth (``Search.widths``, ``keep``): one width everywhere wastes tokens where the next line is determined.

Deviations: widths by depth are ours. All that have ended among the kept are paths, and their places are free again: a
deeper path may be better, where OpenR's beam narrows with each that has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.search.bfs_v import best
from evolvent.search.search import Search, Settings

PAPER = "arXiv 2410.09671"
WIDER = "--widths, --keep"


@dataclass(frozen=True)
class Config(Settings):
    """Settings of beam search."""

    keep: tuple[int, ...] = (2,)
    """States that go on at each depth; the last number holds for all below."""
    depth: int = 64
    """Depth of the tree at most."""


def run(search: Search, config: Config = Config()) -> None:
    """Find paths for every task: whatever has ended among the kept, at every depth."""
    if not config.keep or min(config.keep) < 1:
        raise BadInput("nothing goes on", got=config.keep, expected="numbers of at least 1", where="beam: keep")
    tree = search.tree
    frontier = {task: [task] for task in tree.roots.tolist()}
    for depth in range(config.depth + 1):
        search.expand([n for nodes in frontier.values() for n in nodes], depth=config.depth)
        for task, nodes in frontier.items():
            ended = [n for n in nodes if tree.terminal[tree.state[n]] and not tree.dead[tree.state[n]]]
            for node in ended:
                search.reach(node)
            candidates = [c for n in nodes if not tree.terminal[tree.state[n]] for c in tree.children(n).tolist()]
            room = config.keep[min(depth, len(config.keep) - 1)]
            frontier[task] = best(search, np.array(candidates, np.int64), room)
        frontier = {task: nodes for task, nodes in frontier.items() if nodes}
        if not frontier:
            break
