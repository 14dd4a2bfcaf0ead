"""rStar: UCT to the end of each path, untried moves first and at random; what an end is worth goes to all above it.

Paper: Qi et al. 2024 (arXiv 2408.06195) as coded in OpenR (arXiv 2410.09671).

    Q/n + w sqrt(ln n_parent / n)          w constant, or falling to w/10, linearly or exponentially, over the paths

Deviations: the five kinds of rStar's moves (thought, sub-question, direct answer, …) are prompts of its tasks; here a
move is what the space offers, and the value of an end is that of the search instead of the frequency of its answer.
Confidence among the ends is the sum of their values (``aggregate.last_vote``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evolvent.core.seeding import rng
from evolvent.formulas.selection import annealed, uct
from evolvent.search.rap import descend
from evolvent.search.search import Search, Settings
from evolvent.search.simulate import Growing
from evolvent.search.tree import Tree

PAPER = "arXiv 2408.06195"


@dataclass(frozen=True)
class Config(Settings):
    """Settings of rStar."""

    paths: int = 16
    """Paths for each task."""
    parallel: int = 1
    """Of them, how many are under way at once."""
    weight: float = 2.0
    """w: of exploration in UCT."""
    schedule: Literal["constant", "linear", "exponential"] = "constant"
    """How w falls."""
    seed: int = 0
    """Of the order of untried moves."""


@dataclass(frozen=True)
class Uct:
    """UCT; moves without visits come first, in random order."""

    weight: float
    rng: np.random.Generator

    def __call__(self, tree: Tree, nodes: np.ndarray, children: np.ndarray) -> np.ndarray:
        """The scores."""
        at = tree.state[nodes]
        parent = (tree.visits[at] + tree.pending[at])[:, None]
        scores = uct(tree.q(children), tree.taken[children], parent, weight=self.weight, fresh=1e9)
        return np.where(tree.taken[children] > 0, scores, 1e9 + self.rng.random(children.shape))


def run(search: Search, config: Config = Config()) -> None:
    """Find ``paths`` paths for every task."""
    draw, growing = rng(config.seed, "rstar"), Growing(search)
    for done in range(0, config.paths, config.parallel):
        progress = done / max(1, config.paths - 1)
        weight = annealed(config.weight, 0.1 * config.weight, progress, config.schedule)
        descend(search, Uct(weight, draw), min(config.parallel, config.paths - done), config.parallel, growing)
