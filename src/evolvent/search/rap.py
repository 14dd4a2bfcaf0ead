"""RAP's MCTS: each path goes down to an end at once, every new state gets its moves, and the end alone is backed up.

Papers: Hao et al. 2023 (RAP, arXiv 2305.14992) as coded in TS-LLM (arXiv 2309.17179, rap) and in OpenR (arXiv
2410.09671, vanilla MCTS: below the first unvisited state the path is greedy by value, which PUCT is without visits).

Deviations: RAP's reward of a state (its own likelihood and confidence) is whatever value the search has. A tree in
which nothing is left to ask (``simulate.Growing``) is done.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.search.search import Search, Settings
from evolvent.search.simulate import Growing, Puct, Score, simulate

PAPER = "arXiv 2305.14992"
DRAWS = True
WIDER = "--widths"


@dataclass(frozen=True)
class Config(Settings):
    """Settings of RAP's MCTS."""

    paths: int = 4
    """Paths for each task."""
    parallel: int = 1
    """Of them, how many are under way at once."""
    c: float = 3.0
    """Weight of exploration in PUCT; 1.25 in OpenR."""


def run(search: Search, config: Config = Config()) -> None:
    """Find ``paths`` paths for every task."""
    descend(search, Puct(config.c), config.paths, config.parallel, Growing(search))


def descend(search: Search, score: Score, paths: int, parallel: int, growing: Growing) -> None:
    """``paths`` whole paths for every task that still grows, children chosen by ``score``."""
    tree = search.tree
    for done in range(0, paths, parallel):
        todo = [n for n in tree.roots.tolist() if not tree.terminal[n] and (tree.expanded(n) or search.open(n))]
        todo = growing(todo)
        if not todo:
            break
        for path in simulate(search, todo, score, parallel=min(parallel, paths - done), to_end=True):
            end = int(tree.state[path[-1]])
            if tree.terminal[end] and not tree.dead[end]:
                search.reach(path[-1])
