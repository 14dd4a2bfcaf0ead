"""Which tasks an update draws, and how many attempts each of them gets, by what was learned from those before.

``--curriculum sec`` draws each task's kind by softmax of what its kind taught (SEC, arXiv 2505.14970), then one of that
kind from a fixed pool. ``--allocation knapsack`` gives the ``prompts`` x ``group`` attempts of an update to the tasks
where they are worth most (Knapsack-RL, arXiv 2509.25849): by the success of earlier attempts at a task or, where there
were none, at its kind. Both learn at the end of an update and are part of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.core.protocols import Task
from evolvent.core.seeding import rng
from evolvent.formulas.curricula import attempts_by_knapsack, learning_gains
from evolvent.formulas.selection import softmax

if TYPE_CHECKING:
    from evolvent.runs.language.config import LanguageConfig

POOL = 1024
"""Tasks that SEC draws from: the same ones however long a run is."""
RATE, TEMPERATURE = 0.1, 1.0
"""SEC's, of a re-implementation: the paper's were not to be had."""
FORGET = 0.9
"""What earlier attempts count when a task, or a kind, is attempted again: the model has changed."""


class Curriculum:
    """See the module; without either setting tasks come in order, with ``group`` attempts each."""

    def __init__(self, config: LanguageConfig, tasks: Sequence[Task]) -> None:
        self._config, self._plan = config, config.plan
        self._kinds: dict[str, list[Task]] = {}
        for task in tasks:
            self._kinds.setdefault(task.kind, []).append(task)
        self._q = dict.fromkeys(sorted(self._kinds), 0.0)
        self._won: dict[str, tuple[float, float]] = {}
        self._drawn: dict[str, Task] = {}

    def tasks(self, update: int, again: int = 0) -> list[Task]:
        """SEC's draws for an update; ``again`` are further ones within it."""
        draws = rng(self._config.seed, "sec", update, again)
        share_A = softmax(list(self._q.values()), TEMPERATURE)
        kinds = draws.choice(list(self._q), self._config.prompts, p=share_A)
        return [self._kinds[kind][int(draws.integers(len(self._kinds[kind])))] for kind in kinds.tolist()]

    def noted(self, tasks: list[Task]) -> list[Task]:
        """The tasks, whose attempts count from now on."""
        self._drawn |= {task.id: task for task in tasks}
        return tasks

    def which(self, tasks: Sequence[Task]) -> list[tuple[int, int]]:
        """Numbers (task, attempt) of an update's attempts."""
        n_N = np.full(len(tasks), self._config.group)
        if self._plan.allocation == "knapsack":
            n_N = attempts_by_knapsack([self._success(task) for task in tasks], int(n_N.sum()))
        return [(i, g) for i, n in enumerate(n_N.tolist()) for g in range(n)]

    def learn(self, ledger: Ledger) -> dict[str, float]:
        """Learn from the attempts of an update and their credit; what to log of it."""
        known = [(i, self._drawn[e.task_id]) for i, e in enumerate(ledger.episodes) if e.task_id in self._drawn]
        self._drawn.clear()
        logged: dict[str, float] = {}
        if self._plan.curriculum == "sec" and known:
            size_E = _mean_size(ledger)
            arms = [task.kind for _, task in known]
            self._q = learning_gains(self._q, size_E[[i for i, _ in known]], arms, rate=RATE)
            shares = softmax(list(self._q.values()), TEMPERATURE).tolist()
            logged |= {f"share_{kind}": share for kind, share in zip(self._q, shares, strict=True)}
        if self._plan.allocation == "knapsack" and known:
            groups: dict[str, list[float]] = {}
            keys: dict[str, list[float]] = {}
            for i, task in known:
                won = float(bool(ledger.episodes[i].success))
                groups.setdefault(ledger.episodes[i].group, []).append(won)
                for key in _keys(task):
                    keys.setdefault(key, []).append(won)
            for key, won in keys.items():
                before, n = self._won.get(key, (0.0, 0.0))
                self._won[key] = FORGET * before + sum(won), FORGET * n + len(won)
            sizes = [len(group) for group in groups.values()]
            logged |= {"attempts_least": float(min(sizes)), "attempts_most": float(max(sizes))}
        return logged

    def _success(self, task: Task) -> float:
        won, n = next((self._won[key] for key in _keys(task) if key in self._won), (0.0, 0.0))
        return (1.0 + won) / (2.0 + n)

    def state_dict(self) -> dict[str, Any]:
        """Values of kinds, successes of tasks."""
        return {"q": self._q, "won": {key: list(counts) for key, counts in self._won.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self._q = self._q | state["q"]
        self._won = {key: (won, n) for key, (won, n) in state["won"].items()}


def check_kinds(config: LanguageConfig, tasks: Sequence[Task]) -> None:
    """Refuse SEC where there is nothing to choose between.

    Raises:
        BadInput: all tasks are of one kind.
    """
    kinds = {task.kind for task in tasks}
    if config.plan.curriculum == "sec" and len(kinds) < 2:
        raise BadInput(
            "SEC chooses among kinds of tasks",
            got=f"{config.env}, all of whose tasks are of the kind {min(kinds)!r}",
            expected="two kinds or more",
            where="--curriculum sec",
            do='take another environment, or name the kinds of your own prompts: {"prompt": …, "kind": …}',
        )


def _keys(task: Task) -> tuple[str, str]:
    return f"task {task.repeats or task.id}", f"kind {task.kind}"


def _mean_size(ledger: Ledger) -> np.ndarray:
    """Mean |credit| of each episode's steps, or of its tokens where steps have none, float64 ``[E]``."""
    level = "step" if np.isfinite(ledger.values("step")).any() else "token"
    owner, n = ledger.episode_index(level), len(ledger.episodes)
    size = np.abs(np.nan_to_num(ledger.values(level)))
    return np.bincount(owner, size, minlength=n) / np.maximum(np.bincount(owner, minlength=n), 1)
