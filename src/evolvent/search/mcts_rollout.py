"""MCTS-Rollout: simulations from the task itself until enough of them have come to an end; no move is ever made.

Paper: Feng et al. 2023 (TS-LLM, arXiv 2309.17179); code: rollout.

Deviations: the budget (tokens, calls, seconds) is that of the search, beside the number of simulations; a tree in
which nothing is left to ask (``simulate.Growing``) is done.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.search.search import Search, Settings
from evolvent.search.simulate import Growing, Puct, simulate

PAPER = "arXiv 2309.17179"
DRAWS = True
WIDER = "--widths"


@dataclass(frozen=True)
class Config(Settings):
    """Settings of MCTS-Rollout."""

    paths: int = 4
    """Simulations that come to an end, for each task; the same end may be met again."""
    simulations: int = 200
    """At most so many simulations for each task."""
    parallel: int = 1
    """Of them, how many are under way at once."""
    c: float = 3.0
    """Weight of exploration in PUCT."""


def run(search: Search, config: Config = Config()) -> None:
    """Simulate every task until ``paths`` simulations have ended an attempt."""
    tree, missing = search.tree, dict.fromkeys(search.tree.roots.tolist(), config.paths)
    growing = Growing(search)
    for done in range(0, config.simulations, config.parallel):
        todo = [n for n, left in missing.items() if left > 0 and not tree.terminal[n] and search.open(n)]
        todo = growing(todo)
        if not todo:
            break
        most = min(config.parallel, config.simulations - done)
        for path in simulate(search, todo, Puct(config.c), parallel=most):
            end = int(tree.state[path[-1]])
            if tree.terminal[end] and not tree.dead[end] and missing[path[0]]:
                search.reach(path[-1])
                missing[path[0]] -= 1
