"""DFSDT: depth first without a ranking; after an end the search climbs two levels before it tries something else.

Paper: Qin et al. 2023 (ToolLLM, arXiv 2307.16789), "woFilter".

Deviations: the moves of a state are sampled together and must differ, where ToolLLM asks for one at a time and shows
the model what it had tried before; the limit of calls is that of the search's budget.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.search.search import Search, Settings

PAPER = "arXiv 2307.16789"
WIDER = "--widths, --paths"


@dataclass(frozen=True)
class Config(Settings):
    """Settings of DFSDT."""

    paths: int = 1
    """Paths for each task."""
    depth: int = 12
    """Moves of a path at most."""
    climb: int = 2
    """Levels that the search climbs after an end."""


def run(search: Search, config: Config = Config()) -> None:
    """Find ``paths`` paths for every task; one state of each is looked at at a time."""
    tree = search.tree
    stacks = {task: [(task, 0)] for task in tree.roots.tolist()}  # nodes, and which child is next
    left = dict.fromkeys(stacks, config.paths)
    while stacks:
        search.expand([stack[-1][0] for stack in stacks.values()], depth=config.depth)
        for task, stack in stacks.items():
            node, number = stack.pop()
            children, at = tree.children(node), tree.state[node]
            if tree.terminal[at] and not tree.dead[at]:
                search.reach(node)
                left[task] -= 1
                del stack[max(0, len(stack) - config.climb + 1) :]
            elif number < len(children):
                stack += [(node, number + 1), (int(children[number]), 0)]
        stacks = {task: stack for task, stack in stacks.items() if stack and left[task] > 0}
