"""DFS-V: depth first, the child of highest value first; children that are worth little are cut off.

Paper: Feng et al. 2023 (TS-LLM, arXiv 2309.17179), after Yao et al. 2023 (Tree of Thoughts, arXiv 2305.10601).

    child i of n (by falling value) is cut off where   v_i < prune_value   or   i > (1 - prune_ratio) n

Deviations: none; the comparison is that of floats, as in the source (ratio 0.5 keeps 3 of 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evolvent.search.search import Search, Settings

PAPER = "arXiv 2309.17179"
WIDER = "--widths, --paths"


@dataclass(frozen=True)
class Config(Settings):
    """Settings of DFS-V."""

    paths: int = 1
    """Paths for each task."""
    prune_ratio: float = 0.7
    """Share of the children of a state that is cut off."""
    prune_value: float = -1e9
    """A child that is worth less is cut off."""
    depth: int = 64
    """Depth of the tree at most."""


def run(search: Search, config: Config = Config()) -> None:
    """Find ``paths`` paths for every task; one state of each is looked at at a time."""
    tree = search.tree
    stacks = {task: [task] for task in tree.roots.tolist()}
    left = dict.fromkeys(stacks, config.paths)
    while stacks:
        heads = {task: stack.pop() for task, stack in stacks.items()}
        search.expand([*heads.values()], depth=config.depth)
        for task, node in heads.items():
            if tree.terminal[tree.state[node]]:
                if not tree.dead[tree.state[node]]:
                    search.reach(node)
                    left[task] -= 1
            else:
                stacks[task] += retained(search, node, config)[::-1]
        stacks = {task: stack for task, stack in stacks.items() if stack and left[task] > 0}


def retained(search: Search, node: int, config: Config) -> list[int]:
    """The children of a node that are not cut off, the best first."""
    children = search.tree.children(node)
    value = search.tree.value[children]
    order = np.argsort(-value, kind="stable")
    limit = (1.0 - config.prune_ratio) * len(children)
    return [int(children[k]) for i, k in enumerate(order) if i <= limit and value[k] >= config.prune_value]
