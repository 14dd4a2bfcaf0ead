"""MCTS-alpha: AlphaZero's search for every move; the most visited one is made, and its sub-tree is kept.

Paper: Feng et al. 2023 (TS-LLM, arXiv 2309.17179); code: get_next_action. Silver et al. 2018 for PUCT and root noise.

    pi(a) = n_a^(1/T) / sum_b n_b^(1/T)          root: p <- (1 - eps) p + eps Dirichlet(alpha), while moves are sampled

Deviations: a tree is never forgotten between paths (in TS-LLM "intra-tree"); ``clear`` sets its visits to 0.
Simulations begin at the state that was reached, so that what lies above keeps its numbers. Of moves with equal visits
that of higher value is made (in the source the first), and an end keeps what the verifier said of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evolvent.formulas.selection import visit_policy
from evolvent.search.search import Search, Settings
from evolvent.search.simulate import Draws, Puct, simulate

PAPER = "arXiv 2309.17179"
WIDER = "--widths, --paths"


@dataclass(frozen=True)
class Config(Settings):
    """Settings of MCTS-alpha."""

    paths: int = 1
    """Paths for each task."""
    simulations: int = 5
    """Simulations before each move."""
    parallel: int = 1
    """Of them, how many are under way at once."""
    c: float = 3.0
    """Weight of exploration in PUCT."""
    sample: bool = False
    """Draw moves by visits instead of making the most visited one."""
    temperature: float = 1.0
    """Of that draw."""
    noise: float = 0.25
    """Share of Dirichlet noise in the root's priors, while moves are drawn."""
    alpha: float = 0.3
    """Of the Dirichlet noise."""
    clear: bool = True
    """Set visits to 0 before another path."""
    seed: int | tuple[int, ...] = 0
    """Of draws and noise; of several, one a task."""


def run(search: Search, config: Config = Config()) -> None:
    """Find ``paths`` paths for every task."""
    draw = Draws(config.seed, "mcts_alpha", len(search.tree.roots))
    for number in range(config.paths):
        heads = search.tree.roots.tolist()
        for task in heads if number and config.clear else ():
            search.tree.forget(task)
        while heads:
            heads = _step(search, heads, config, draw)


def _step(search: Search, heads: list[int], config: Config, draw: Draws) -> list[int]:
    """One move in every tree; the states from which it goes on."""
    tree = search.tree
    search.expand(heads)
    heads = [n for n in heads if len(tree.children(n))]
    priors = [(tree.children(n), tree.prior[tree.children(n)]) for n in heads]
    for node, (children, prior) in zip(heads, priors, strict=True) if config.sample else ():
        noise = draw[int(tree.task[node])].dirichlet(np.full(len(children), config.alpha))
        tree.prior[children] = (1.0 - config.noise) * prior + config.noise * noise
    for done in range(0, config.simulations, config.parallel):
        simulate(search, heads, Puct(config.c), parallel=min(config.parallel, config.simulations - done))
    for children, prior in priors:
        tree.prior[children] = prior
    heads = [_move(search, n, config, draw[int(tree.task[n])]) for n in heads]
    search.enter(heads)
    for node in heads:
        if tree.terminal[tree.state[node]] and not tree.dead[tree.state[node]]:
            search.reach(node)
    return [n for n in heads if not tree.terminal[tree.state[n]] and (tree.expanded(n) or search.open(n))]


def _move(search: Search, node: int, config: Config, draw: np.random.Generator) -> int:
    children = search.tree.children(node)
    visits = search.tree.taken[children]
    if not config.sample:
        return int(children[np.lexsort((-search.tree.q(children), -visits))[0]])
    return int(draw.choice(children, p=visit_policy(visits, config.temperature)))
