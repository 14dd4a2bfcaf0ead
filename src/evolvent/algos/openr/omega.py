"""OmegaPRM: which step spoiled a wrong attempt, found by bisection with samples behind the steps.

Paper: Luo et al. 2024 (OmegaPRM, arXiv 2406.06592), constants and tree as in OpenR's code (arXiv 2410.09671).

    MC(s)  = share of k samples from s that come right                0: beyond repair; 1: nothing to find below
    choose the wrong sample r behind s of largest  Q(s, r) + U(s)      (``formulas.process_supervision``)
    bisect its steps: MC(middle) = 0 -> the first error is there or before; > 0 -> behind, go on from there

Every estimated state gives a row (state, MC), every end one with what it earned. A question of which all or none of the
first samples come right gives its root alone; OpenR's filter is the same, with 32 samples of its own.

Deviations: a sample that was bisected leaves the pool (OpenR's maintenance puts it back, so that it can be bisected
again); of the others Q + U is what it is at the time of a choice (there what it was when they came in). An end needs no
samples: it is right or wrong. A choice raises N(s), as published; OpenR's code counts estimates alone
(``count_choices=False``). The length of a sample is in words, as in OpenR's second version. ``least`` gives states the
samples of another paper (MedS3, arXiv 2501.12051): fewer where fewer steps are left.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.formulas.process_supervision import attention, samples_at, surprise
from evolvent.search.best_of_n import chains
from evolvent.search.search import Search, State

PAPER = "arXiv 2406.06592"


@dataclass(frozen=True)
class Config:
    """Settings of OmegaPRM."""

    samples: int = 16
    """k: samples of an estimate; with ``least`` those of the question."""
    least: int = 0
    """MedS3's schedule: ``max(samples // (depth + 1), least)`` samples of a state (published: 20, 5); 0 = k of all."""
    searches: int = 20
    """Wrong samples that are bisected, of each question at most."""
    rollouts: int = 200
    """Samples after which no further bisection begins, of each question."""
    count_choices: bool = True
    """Choosing a state counts as a visit of it."""

    def __post_init__(self) -> None:
        if self.samples < 1 or not 0 <= self.least <= self.samples:
            got = f"{self.samples}, at least {self.least}"
            raise BadInput("samples of a state", got=got, expected=">= 1, then 0 to as many", where="--samples")

    def samples_of(self, depth: int) -> int:
        """Samples of a state behind ``depth`` steps."""
        return samples_at(depth, most=self.samples, least=self.least) if self.least else self.samples


@dataclass
class Estimate:
    """Samples from a state: its share of right ones, and the ends of the right and of the wrong ones."""

    mc: float
    right: list[int] = field(default_factory=list[int])
    wrong: list[int] = field(default_factory=list[int])


@dataclass
class Found:
    """What is known of one question.

    Attributes:
        mc: of states by node, estimated or (ends) known.
        errors: of each sample that was bisected, by its end: how many of its steps are fine.
        estimates: made. samples: of all of them.
    """

    mc: dict[int, float] = field(default_factory=dict[int, float])
    errors: dict[int, int] = field(default_factory=dict[int, int])
    estimates: int = 0
    samples: int = 0


Asks = Generator[int, Estimate, Found]


def run(search: Search, config: Config = Config()) -> list[Found]:
    """Explore every task of a search, all side by side; the samples count as its tokens.

    The search is over attempts with a step a node (``search.attempts``, unit "line"); its value is not asked.

    Returns:
        What is known of each task, in order.
    """
    tree = search.tree

    def steps(node: int) -> list[int]:
        return tree.path(node)[1:]

    def words(node: int) -> int:
        return len(" ".join(search.space.state(node).steps).split())

    asking = {task: question(int(root), steps, words, config) for task, root in enumerate(tree.roots)}
    wanted, found = {task: next(asks) for task, asks in asking.items()}, dict[int, Found]()
    while wanted:
        answers = _estimates(search, list(wanted.values()), config)
        for (task, _), answer in zip(list(wanted.items()), answers, strict=True):
            try:
                wanted[task] = asking[task].send(answer)
            except StopIteration as done:
                found[task] = done.value
                del wanted[task]
    return [found[task] for task in sorted(found)]


def question(root: int, steps: Callable[[int], Sequence[int]], words: Callable[[int], int], config: Config) -> Asks:
    """The exploration of one question: asks for estimates of nodes, and returns what it found.

    ``steps`` gives the nodes on the way to a node from the root, the root left out and itself included; ``words`` how
    many were written on that way.
    """
    known, pool = Found(), _Pool(config.count_choices)
    yield from _estimate(root, words(root), known, pool, words)
    known.samples = config.samples_of(0)
    for _ in range(config.searches):
        if known.samples >= config.rollouts or not pool.waiting:
            break
        state, end = pool.pop()
        ahead = steps(end)
        low, high = len(steps(state)), len(ahead) - 1
        while low < high:  # the end is known to be wrong
            middle = (low + high) // 2
            node = ahead[middle]
            if node not in known.mc:
                yield from _estimate(node, words(node), known, pool, words)
                known.samples += config.samples_of(middle + 1)
            if known.mc[node] > 0:
                low = middle + 1
            else:
                high = middle
        known.errors[end] = low
    return known


def _estimate(
    node: int, written: int, known: Found, pool: _Pool, words: Callable[[int], int]
) -> Generator[int, Estimate, None]:
    found = yield node
    known.mc[node] = found.mc
    known.estimates += 1
    known.mc.update(dict.fromkeys(found.right, 1.0) | dict.fromkeys(found.wrong, 0.0))
    pool.add(node, found.mc, [(end, words(end) - written) for end in found.wrong] if 0 < found.mc < 1 else [])


class _Pool:
    """Wrong samples that wait, and how often each state was visited."""

    def __init__(self, count_choices: bool) -> None:
        self.waiting: list[tuple[int, int, int]] = []  # state, end, words
        self.visits: dict[int, int] = {}
        self._mc: dict[int, float] = {}
        self._count = count_choices

    def add(self, state: int, mc: float, wrong: Sequence[tuple[int, int]]) -> None:
        self._mc[state], self.visits[state] = mc, self.visits.get(state, 0) + 1
        self.waiting += [(state, end, words) for end, words in wrong]

    def scores(self) -> np.ndarray:
        """Q + U of what waits, float64 ``[N]``."""
        mc = np.array([self._mc[state] for state, *_ in self.waiting])
        visits = np.array([self.visits[state] for state, *_ in self.waiting])
        return surprise(mc, [w for *_, w in self.waiting]) + attention(sum(self.visits.values()), visits)

    def pop(self) -> tuple[int, int]:
        state, end, _ = self.waiting.pop(int(self.scores().argmax()))
        self.visits[state] += self._count
        return state, end


def _estimates(search: Search, nodes: Sequence[int], config: Config) -> list[Estimate]:
    """Samples from each node; those that got stuck or had no budget left are wrong, without an end."""
    counts = [config.samples_of(int(search.tree.depth[node])) for node in nodes]
    ends = iter(chains(search, np.repeat(nodes, counts).tolist(), judge=False))
    out: list[Estimate] = []
    for count in counts:
        mine = [search.space.state(end) for end in islice(ends, count) if end >= 0]
        right = [state.node for state in mine if _right(state)]
        wrong = [state.node for state in mine if not _right(state)]
        out.append(Estimate(len(right) / count, right, wrong))
    return out


def _right(state: State) -> bool:
    """By the world's word; a reward above 0 says it where there is none only: it may be partial."""
    return state.reward > 0 if state.right is None else state.right
