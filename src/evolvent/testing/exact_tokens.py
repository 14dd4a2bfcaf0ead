"""Exact gradients of rules for tokens and for agents that act one after another, by enumeration.

Two tasks: the three turns of ``testing.exact``, and a team. In each of its two turns a *solver* chooses between two
actions of two tokens and one of one token; then a *checker*, who saw it, ends the attempt with one token or goes on
with an action of three, two of which are forced. That is 21 trajectories of 2 to 10 tokens in which actions, turns and
agents all have different lengths. Every decision has a random reward. Nothing is discounted: the true gradient is that
of the expected return, which does not know how many tokens an action has. A rule is shown a critic of prefixes that is
either exact or arbitrary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.testing.exact import (
    FORCED,
    Critic,
    GradientReport,
    Path,
    SmallTask,
    Step,
    configured,
    exact_gradient,
    pools,
    small_task,
)

Prefix = tuple[int, ...]
_AGENTS = ("solver", "checker")


@lru_cache(maxsize=32)
def team_task(seed: int) -> SmallTask:
    """The team with random rewards and a random policy: 21 trajectories, 20 choice points."""
    rng = np.random.default_rng([seed, 77])
    paths: list[Path] = []
    logits: list[float] = []

    def choice_point() -> int:
        logits.append(float(rng.normal(scale=0.7)))
        return len(logits) - 1

    def extended(path: Path, step: Step) -> Path:
        state = "/".join("".join(str(option) for _, option in tokens) for tokens in path.steps)
        return path.then(step, float(rng.normal()), f"after {state}", _AGENTS[len(path.steps) % 2])

    def turn(path: Path) -> None:
        first, second = choice_point(), choice_point()
        for said in (((first, 0), (second, 0)), ((first, 0), (second, 1)), ((first, 1),)):
            solved, check = extended(path, said), choice_point()
            paths.append(extended(solved, ((check, 1),)))
            more = extended(solved, ((check, 0), (FORCED, 0), (FORCED, 0)))
            if len(more.steps) == 4:
                paths.append(more)
            else:
                turn(more)

    turn(Path())
    return SmallTask(seed, tuple(paths), np.array(logits))


@lru_cache(maxsize=64)
def prefix_values(task: SmallTask) -> dict[Prefix, float]:
    """Expected rewards still to come at each prefix of token ids, those of the decision under way included."""
    total: dict[Prefix, float] = {}
    weight: dict[Prefix, float] = {}
    for n, (path, p) in enumerate(zip(task.paths, task.probability_N.tolist(), strict=True)):
        ids = tuple(task.episode(n, group="g", id="e").token_ids.tolist())
        step_K = [t for t, step in enumerate(path.steps) for _ in step]
        for k, t in enumerate(step_K):
            total[ids[:k]] = total.get(ids[:k], 0.0) + p * sum(path.rewards[t:])
            weight[ids[:k]] = weight.get(ids[:k], 0.0) + p
    return {prefix: total[prefix] / weight[prefix] for prefix in total}


def critic_of(task: SmallTask, kind: Critic, level: str) -> Callable[[Episode], np.ndarray]:
    """Values before each token ``[K]`` (level "token") or before each decision ``[T]``."""

    def values(episode: Episode) -> np.ndarray:
        if kind == "wrong":
            value_K = episode.notes["value"].astype(np.float64)
        else:
            table, ids = prefix_values(task), tuple(episode.token_ids.tolist())
            value_K = np.array([table[ids[:k]] for k in range(len(ids))])
        first_T = np.cumsum(episode.tokens_per_step_T) - episode.tokens_per_step_T
        return value_K if level == "token" else value_K[first_T]

    return values


def measure_tokens(
    rule: Any, config: Any = None, *, seeds: Iterable[int] = range(5), critic: Critic = "wrong"
) -> list[GradientReport]:
    """Reports of a credit file for tokens or agents on both tasks, groups of two; see ``testing.exact.measure``.

    The credit of an agent is measured decision by decision (level "step" of its ledger). A rule that looks at the
    agents only (``LEVEL = "agent"``) is shown the team only.
    """
    level = "token" if rule.LEVEL == "token" else "step"
    out: list[GradientReport] = []
    for seed in seeds:
        tasks = [team_task(seed)] if rule.LEVEL == "agent" else [team_task(seed), small_task(seed)]
        for task in tasks:
            call = configured(rule, config, critic_of(task, critic, level))
            out.append(exact_gradient(call, level, seed=seed, group_size=2, task=task, **pools(rule)))
    return out
