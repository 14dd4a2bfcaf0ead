"""rStar: UCT to the end of each path, untried moves first and at random; what an end is worth goes to all above it.

Paper: Qi et al. 2024 (arXiv 2408.06195), as released. (In OpenR's copy, arXiv 2410.09671, the root has one visit for
ever: nothing is explored there.)

    Q/n + w sqrt(ln n_parent / n)          w constant, or falling to w/10, linearly or exponentially, over the paths

Deviations: the five kinds of rStar's moves (thought, sub-question, direct answer, …) are prompts of its tasks; here a
move is what the space offers, and the value of an end is that of the search instead of the frequency of its answer;
there is no discriminator that completes paths, either.
Confidence among the ends is the sum of their values (``aggregate.last_vote``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evolvent.formulas.selection import annealed, uct
from evolvent.search.rap import descend
from evolvent.search.search import Search, Settings
from evolvent.search.simulate import Draws, Growing
from evolvent.search.tree import Tree

PAPER = "arXiv 2408.06195"
AGGREGATE = "last_vote"
DRAWS = True
WIDER = "--widths"


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
    seed: int | tuple[int, ...] = 0
    """Of the order of untried moves; of several, one a task."""


@dataclass(frozen=True)
class Uct:
    """UCT; moves without visits come first, in random order."""

    weight: float
    draw: Draws

    def __call__(self, tree: Tree, nodes: np.ndarray, children: np.ndarray) -> np.ndarray:
        """The scores."""
        at = tree.state[nodes]
        parent = np.maximum(tree.visits[at] + tree.pending[at] - 1, 0)[:, None]  # without the one that is choosing
        scores = uct(tree.q(children), tree.taken[children], parent, weight=self.weight, fresh=1e9)
        return np.where(tree.taken[children] > 0, scores, 1e9 + self.draw.uniform(tree, nodes, children))


def run(search: Search, config: Config = Config()) -> None:
    """Find ``paths`` paths for every task."""
    draw, growing = Draws(config.seed, "rstar", len(search.tree.roots)), Growing(search)
    for done in range(0, config.paths, config.parallel):
        weight = annealed(config.weight, 0.1 * config.weight, done / config.paths, config.schedule)
        descend(search, Uct(weight, draw), min(config.parallel, config.paths - done), config.parallel, growing)
