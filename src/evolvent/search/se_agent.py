"""SE-Agent: a pool of attempts at each task; the model reads some of them and writes a plan for the next.

Paper: Lin et al. 2025, SE-Agent: Self-Evolution Trajectory Optimization (arXiv 2508.02085).

    revision        of one attempt:  a plan that goes about it in another way
    recombination   of two:          a plan that joins what was good in either
    refinement      of the pool:     a plan that knows what went wrong so far

``population`` attempts come first. Then, round after round: each that was kept is revised, as many pairs are
recombined, and the pool is refined once; after each of the three the best ``population`` stay, by what the search says
that they are worth. A plan is the first decision of its attempt and stands above all that follows: one record has both.

Deviations: written after the abstract, the authors' figures and notes on the released code, without its faults: a task
has its own pool, the *best* two are joined, and nothing is dropped for a word in it. Attempts stand in the plans'
prompts as they were (their last characters), not as the model's summary of them. Crossover, transfer and restructuring
are one kind of plan. A plan is one line (published: up to 200 words). Attempts that are word for word like one in the
pool are not kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple, cast

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.protocols import Env, Task, Turn
from evolvent.search.attempts import Attempts
from evolvent.search.best_of_n import draw, onward
from evolvent.search.search import Path, Search, Settings

PAPER = "arXiv 2508.02085"
DRAWS = True
QUESTION, ATTEMPT = 400, 800  # characters of a plan's prompt, at most
PLAN = 64  # tokens of a plan
REVISE = "{question}\nAn attempt that may have failed:\n{attempts}\nPlan another one that goes about it differently."
RECOMBINE = "{question}\nTwo attempts:\n{attempts}\nPlan another one that joins what is good in either."
REFINE = "{question}\nAttempts so far, the best first:\n{attempts}\nSay what they overlook, and plan another one."


@dataclass(frozen=True)
class Config(Settings):
    """Settings of SE-Agent."""

    paths: int = 16
    """Attempts at each task, at most: 5 first ones, 5 revised, 5 recombined and one of the whole pool are one round."""
    population: int = 5
    """Attempts that come first, and that are kept."""
    parallel: int = 4
    """Attempts at one task that are under way at once."""


@dataclass
class _Pool:
    """The best attempts at one task, each with what it is worth, the best first; of equals those that came first.

    ``number`` has the number of each attempt by its root, in the order in which they were begun.
    """

    size: int
    attempts: list[tuple[float, _Attempt]] = field(default_factory=list)
    made: int = 0
    number: dict[int, int] = field(default_factory=dict[int, int])

    def add(self, worth: float, said: str, root: int) -> None:
        self.made += 1
        if said not in [one.said for _, one in self.attempts]:
            one = _Attempt(self.number[root], said)
            self.attempts = sorted([*self.attempts, (worth, one)], key=lambda one: -one[0])[: self.size]

    def begin(self, root: int, what: str) -> str:
        """Number the attempt at ``root``; says what it is."""
        self.number[root] = len(self.number) + 1
        return f"{self.number[root]}. {what}"

    def best(self) -> list[_Attempt]:
        return [one for _, one in self.attempts]


class _Attempt(NamedTuple):
    """An attempt of a pool: its number, and what was said in it."""

    number: int
    said: str


class _Plan(NamedTuple):
    """A plan that is asked for: the question, and what the attempt behind it is."""

    ask: str
    what: str


def run(search: Search, config: Config = Config()) -> None:
    """Evolve a pool of attempts at every task until there are ``paths``, or no budget for another.

    Raises:
        BadInput: a space without attempts.
    """
    space, tasks = search.space, search.tree.roots.tolist()
    if not isinstance(space, Attempts):
        raise BadInput("SE-Agent plans attempts", got=type(space).__name__, expected="Attempts", where="se_agent")
    pools = {task: _Pool(config.population) for task in tasks}
    draw(search, min(config.population, config.paths), config.parallel)
    for path in search.paths:
        root = search.tree.path(path.leaf)[0]
        space.labels[root] = pools[path.task].begin(root, "fresh attempt")
    _add(space, pools, search.paths, planned=False)
    made = dict.fromkeys(tasks, 0)
    while going := [t for t in tasks if made[t] < pools[t].made < config.paths and search.open(t)]:
        made = {task: pools[task].made for task in tasks}  # a round without a new attempt is the last one
        for plans in (_revisions, _recombinations, _refinements):
            asked = {t: plans(pools[t].best())[: config.paths - pools[t].made] for t in going}
            before = len(search.paths)
            _attempt(search, space, asked, pools, config.parallel)
            _add(space, pools, search.paths[before:], planned=True)


def _revisions(pool: Sequence[_Attempt]) -> list[_Plan]:
    return [_Plan(REVISE.replace("{attempts}", one.said[-ATTEMPT:]), f"revision of {one.number}") for one in pool]


def _recombinations(pool: Sequence[_Attempt]) -> list[_Plan]:
    """As many pairs as there are attempts, the best two first."""
    pairs = sorted(combinations(range(len(pool)), 2), key=lambda pair: (sum(pair), pair))[: len(pool)]
    joined = [(pool[i], pool[j]) for i, j in pairs]
    labels = [f"recombination of {one.number} and {other.number}" for one, other in joined]
    return [_Plan(RECOMBINE.replace("{attempts}", _list(two)), what) for two, what in zip(joined, labels, strict=True)]


def _refinements(pool: Sequence[_Attempt]) -> list[_Plan]:
    numbers = ", ".join(str(one.number) for one in pool)
    return [_Plan(REFINE.replace("{attempts}", _list(pool)), f"refinement of {numbers}")]


def _list(attempts: Sequence[_Attempt]) -> str:
    return "\n".join(f"{i + 1}. {one.said[-ATTEMPT:]}" for i, one in enumerate(attempts))


def _attempt(
    search: Search, space: Attempts, asked: Mapping[int, Sequence[_Plan]], pools: Mapping[int, _Pool], parallel: int
) -> None:
    """One attempt at its task behind each plan that is asked for, some side by side."""
    for start in range(0, max(map(len, asked.values())), parallel):
        some = [(t, plan) for t, plans in asked.items() if search.open(t) for plan in plans[start : start + parallel]]
        nodes = search.again([task for task, _ in some])
        for node, (task, plan) in zip(nodes, some, strict=True):
            space.labels[node] = pools[task].begin(node, plan.what)
            space.ask(node, plan.ask.replace("{question}", space.questions[task][:QUESTION]))
        for end in onward(search, nodes):
            if end >= 0:
                search.reach(end)


def _add(space: Attempts, pools: Mapping[int, _Pool], paths: Sequence[Path], *, planned: bool) -> None:
    for path in paths:
        episode = space.episode(path.leaf)
        if episode is not None and episode.valid:
            root = int(space.tree.path(path.leaf)[0])
            pools[path.task].add(path.value, _said(episode, 3 if planned else 1), root)


def _said(episode: Episode, skip: int) -> str:
    """What was said and shown in an attempt behind its question, and behind the plan for it."""
    nodes = [node for node in episode.nodes if node.kind in ("observation", "action")]
    return "\n".join(node.text for node in nodes[skip:])


def planned(env: Env, ask: str, kinds: Sequence[str] = ()) -> Env:
    """A world in which an attempt begins with a plan, which then stands behind the instructions.

    Args:
        env: the world.
        ask: what the plan answers.
        kinds: of reward that the world pays after each of its turns; the plan earns none.
    """
    return cast("Env", _Planned(env, ask, kinds))


class _Planned:
    def __init__(self, env: Env, ask: str, kinds: Sequence[str] = ()) -> None:
        self._env, self._ask, self._kinds = env, ask, kinds
        self.instructions, self.labels, self.stop, self.max_tokens = env.instructions, ("Ask", "Plan"), ("\n",), PLAN

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Ask for the plan."""
        self._task, self._seed, self._planned = task, seed, False
        return Turn(self._ask)

    def step(self, action: str) -> Turn:
        """Take the plan and show the task, or act in it."""
        if self._planned:
            return self._env.step(action)
        env, self._planned = self._env, True
        self.labels, self.stop, self.max_tokens = env.labels, env.stop, env.max_tokens
        self.instructions = f"{env.instructions}Plan: {action}\n\n"
        turn = env.reset(self._task, self._seed)
        return replace(turn, info={**turn.info, "rewards": dict.fromkeys(self._kinds, 0.0)})
