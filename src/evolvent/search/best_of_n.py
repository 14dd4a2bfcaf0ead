"""Best of n: independent samples, of which a value chooses the best.

Source: the control of every search; Cobbe et al. 2021 (verifiers, arXiv 2110.14168).

Deviations: none. With a budget, samples are drawn until it is spent; one that it cuts off is lost, its tokens count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evolvent.search.search import Search, Settings

PAPER = "arXiv 2110.14168"
DRAWS = True
PARALLEL = 16


@dataclass(frozen=True)
class Config(Settings):
    """Settings of best of n."""

    paths: int = 8
    """n: samples for each task."""
    parallel: int = 8
    """Of them, how many are drawn at once."""


def run(search: Search, config: Config = Config()) -> None:
    """Draw ``paths`` samples for every task."""
    draw(search, config.paths, config.parallel)


def draw(search: Search, paths: int, parallel: int) -> None:
    """Samples for every task until there are ``paths``, or no budget for another."""
    missing = dict.fromkeys(search.tree.roots.tolist(), paths)
    while missing := {task: left for task, left in missing.items() if left > 0 and search.open(task)}:
        begin = [task for task, left in missing.items() for _ in range(_fits(search, task, min(left, parallel)))]
        for task in begin:
            missing[task] -= 1
        called, ended = search.meter.calls.copy(), set[int]()
        for task, end in zip(begin, chains(search, begin), strict=True):
            if end >= 0:
                search.reach(end)
                ended.add(task)
        idle = search.meter.calls == called  # no move fits the rest of the budget
        for task in set(begin) - ended:
            if idle[search.tree.task[task]]:
                missing[task] = 0


def chains(search: Search, nodes: Sequence[int], *, judge: bool = True) -> list[int]:
    """One new sample from each node to the end of its attempt: the ends, -1 where it got stuck or the budget ended."""
    search.enter(nodes)
    return onward(search, search.again(nodes), judge=judge)


def onward(search: Search, nodes: Sequence[int], *, judge: bool = True) -> list[int]:
    """Each node, without children yet, followed by single moves: the ends as ``chains`` gives them."""
    tree, heads = search.tree, list(nodes)
    going = list(range(len(heads)))
    while going:
        search.enter([heads[i] for i in going])
        heads = [-1 if head >= 0 and tree.dead[head] else head for head in heads]
        going = [i for i in going if heads[i] >= 0 and not tree.terminal[heads[i]]]
        search.expand([heads[i] for i in going], 1, judge=judge)
        for i in going:
            children = tree.children(heads[i])
            heads[i] = int(children[0]) if len(children) else -1
        going = [i for i in going if heads[i] >= 0]
    return heads


def _fits(search: Search, task: int, wanted: int) -> int:
    """Samples that the rest of the budget is likely to finish, with room for one more; at least one."""
    done = sum(path.task == task for path in search.paths)
    tokens, calls = search.meter.room(task)
    if not done:  # nobody knows how long they are: several at once could use up a small budget and none be finished
        return 1 if search.budget.tokens or search.budget.calls else wanted
    spent = max(1, int(search.meter.tokens[task])), max(1, int(search.meter.calls[task]))
    return max(1, min(wanted, tokens * done // spent[0] - 1, calls * done // spent[1] - 1))
