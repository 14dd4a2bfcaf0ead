"""CoT-SC-Tree: samples inside one tree, each move drawn by its prior, to be put to the vote.

Paper: Feng et al. 2023 (TS-LLM, arXiv 2309.17179): the tree's moves without its search, the control of every search.

Deviations: all children of a state are paid for, also those that no path took (the source counts what was taken).
"""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.search.rap import descend
from evolvent.search.search import Search, Settings
from evolvent.search.simulate import ByPrior, Draws, Growing

PAPER = "arXiv 2309.17179"
AGGREGATE = "majority"
DRAWS = True
WIDER = "--widths"


@dataclass(frozen=True)
class Config(Settings):
    """Settings of CoT-SC-Tree."""

    paths: int = 8
    """Paths for each task."""
    parallel: int = 8
    """Of them, how many are drawn at once."""
    seed: int | tuple[int, ...] = 0
    """Of the draws; of several, one a task."""


def run(search: Search, config: Config = Config()) -> None:
    """Draw ``paths`` paths for every task."""
    draw = Draws(config.seed, "cot_sc_tree", len(search.tree.roots))
    descend(search, ByPrior(draw), config.paths, config.parallel, Growing(search))
