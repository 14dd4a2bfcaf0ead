"""BFS-V: breadth first by value; of all candidates of a round the K best go on, fewer with every path that has ended.

Paper: Feng et al. 2023 (TS-LLM, arXiv 2309.17179), after Yao et al. 2023 (Tree of Thoughts, arXiv 2305.10601).

    frontier = {root}, k = K.   Each round: what has ended is a path, and k falls by 1; of the others each offers its k
    best children; the k best of all go on.

Deviations: where the source fails because no path has ended, the best unfinished one is given (``Search.of``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evolvent.search.search import Search, Settings

PAPER = "arXiv 2309.17179"
WIDER = "--widths, --paths"


@dataclass(frozen=True)
class Config(Settings):
    """Settings of BFS-V."""

    paths: int = 1
    """K: paths for each task, and states that go on."""
    depth: int = 64
    """Rounds at most."""


def run(search: Search, config: Config = Config()) -> None:
    """Find ``paths`` paths for every task."""
    tree = search.tree
    frontier = {task: [task] for task in tree.roots.tolist()}
    left = dict.fromkeys(frontier, config.paths)
    for _ in range(config.depth + 1):
        search.expand([n for nodes in frontier.values() for n in nodes], depth=config.depth)
        for task, nodes in frontier.items():
            candidates: list[int] = []
            for node in nodes:
                if tree.terminal[tree.state[node]]:
                    if not tree.dead[tree.state[node]] and left[task] > 0:
                        search.reach(node)
                        left[task] -= 1
                else:
                    candidates += best(search, tree.children(node), left[task])
            frontier[task] = best(search, np.array(candidates, np.int64), left[task])
        frontier = {task: nodes for task, nodes in frontier.items() if nodes}
        if not frontier:
            break


def best(search: Search, nodes: np.ndarray, k: int) -> list[int]:
    """The ``k`` nodes of highest value, the best first; of equal ones the first made."""
    return nodes[np.argsort(-search.tree.value[nodes], kind="stable")[: max(k, 0)]].tolist()
