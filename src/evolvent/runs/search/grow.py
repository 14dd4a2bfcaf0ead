"""Trees over attempts at some tasks, grown by one search; and what a value learns from the paths that were found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.protocols import Engine, Env, Task
from evolvent.core.seeding import seed_tree
from evolvent.formulas.returns import lambda_returns
from evolvent.play.attempt import play
from evolvent.play.settings import AttemptSettings
from evolvent.play.together import Player
from evolvent.runs.broken import FEWEST, check_broken
from evolvent.search.attempts import Attempts, Decode, Start, Unit
from evolvent.search.budget import Budget
from evolvent.search.se_agent import planned
from evolvent.search.search import Path, Search, Value, flat
from evolvent.search.tree import Tree


@dataclass(frozen=True)
class Grower:
    """How trees are grown over attempts.

    Attributes:
        worlds: copies of the environment, one a task.
        settings: how attempts go.
        engine: answers.
        widths, longest, unit: moves at each depth; tokens of one; what one is (``search.attempts``).
        budget: of each task.
        decode: text of tokens, for actions on a list where prompts are tokens.
        keeping: in which the engine keeps what it has read (``LanguageModel.keeping``).
        join: equal prompts are equal states (``Attempts``: comparable).
    """

    worlds: Sequence[Env]
    settings: AttemptSettings
    engine: Engine
    widths: tuple[int, ...] = (8,)
    longest: int = 64
    unit: Unit = "line"
    budget: Budget = field(default_factory=Budget)
    decode: Decode | None = None
    keeping: Callable[[], AbstractContextManager[None]] = nullcontext
    join: bool = False

    def grow(
        self,
        tasks: Sequence[Task],
        by: Callable[[Search], None],
        value: Value = flat,
        *,
        seed: int,
        verifier: Value | None = None,
    ) -> tuple[Search, Attempts]:
        """The trees of some tasks, as many as there are worlds at most, after one search.

        ``seed`` is that of the draws; attempts at one task have the same in all its trees. ``verifier``: what attempts
        that have ended are worth (``Search.verifier``).

        Raises:
            EnvError: more than half of the attempts broke.
        """
        starts = [self._start(world, task, seed) for world, task in zip(self.worlds, tasks, strict=False)]
        tree = Tree(len(tasks))
        space = Attempts(
            tree,
            starts,
            self.engine,
            [task.text for task in tasks],
            unit=self.unit,
            longest=self.longest,
            decode=self.decode,
            comparable=self.join,
        )
        search = Search(tree, space, value, self.widths, self.budget, verifier)
        with self.keeping():
            by(search)
        if len(space.broken) >= FEWEST:
            ends = int(np.count_nonzero(tree.terminal & ~tree.dead))
            check_broken([error for _, error in space.broken], len(space.broken) + ends, "in a search")
        return search, space

    def _start(self, env: Env, task: Task, seed: int) -> Start:
        own, kinds = seed_tree(seed, "search", task.id), dict[str, None]()

        def start(limit: int, ask: str = "") -> Player:
            limits = replace(self.settings.budget, turns=limit or self.settings.budget.turns)
            world = planned(env, ask, tuple(kinds)) if ask else env
            episode = yield from play(world, task, replace(self.settings, budget=limits), seed=own, group=task.id)
            kinds.update(dict.fromkeys(k for k, paid in episode.rewards_by_kind.items() if isinstance(paid, list)))
            return episode

        return start


def ended(search: Search, space: Attempts, task: int) -> list[tuple[Path, Episode]]:
    """The paths of a task that came to an end, each end once, with their attempts."""
    paths = {int(search.tree.state[path.leaf]): path for path in search.of(task) if path.ended}
    found = [(path, space.episode(path.leaf)) for path in paths.values()]
    return [(path, episode) for path, episode in found if episode is not None and episode.valid]


def outcome(episode: Episode) -> float:
    """TS-LLM's reward of an attempt: 1 right, -1 wrong; the return, where nobody says what is right."""
    return episode.total_reward if episode.success is None else 1.0 if episode.success else -1.0


def value_rows(
    search: Search, space: Attempts, paths: Sequence[tuple[Path, Episode]], *, gae_lambda: float = 1.0
) -> list[tuple[np.ndarray, float]]:
    """What a value learns from paths: (tokens read, target) at the question and behind each step.

    The reward stands at the end. At the states before it the target is the return (``gae_lambda = 1``) or TD(λ)'s,
    over what the search thought of the states that follow; at the end it is the reward itself.
    """
    rows: list[tuple[np.ndarray, float]] = []
    for path, episode in paths:
        nodes, z = search.tree.path(path.leaf), outcome(episode)
        reward, done = np.zeros(len(nodes) - 1), np.zeros(len(nodes) - 1, bool)
        reward[-1:], done[-1:] = z, True
        ahead = search.tree.value[nodes[1:]]
        targets = [*lambda_returns(reward, ahead, gamma=1.0, gae_lambda=gae_lambda, terminated_T=done).tolist(), z]
        for node, target in zip(nodes, targets, strict=True):
            context = space.state(node).context
            if context is not None and not isinstance(context, str):
                rows.append((context, target))
    return rows
