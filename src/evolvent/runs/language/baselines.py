"""What a text environment gives to those who cannot read: random commands, none at all, answers to other questions.

A learner that is not better than these has learned nothing; an environment that pays them well asks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.protocols import Env, Task, Turn
from evolvent.core.seeding import rng
from evolvent.formulas.statistics import stratified_bootstrap, wilson

Policy = Callable[[Turn, np.random.Generator], str]


def random_command(turn: Turn, draws: np.random.Generator) -> str:
    """One of the admissible commands, each with the same probability; the empty text where any text is allowed."""
    commands = turn.admissible or ("",)
    return commands[int(draws.integers(len(commands)))]


def nothing(turn: Turn, draws: np.random.Generator) -> str:
    """The empty text: no answer where any text is allowed, no command (but a step) elsewhere."""
    return ""


def borrowed(tasks: Sequence[Task]) -> Policy:
    """Answers to other questions: those in ``meta["answer"]`` of ``tasks``, drawn at random.

    Raises:
        BadInput: no task carries its answer.
    """
    answers = [str(task.meta["answer"]) for task in tasks if "answer" in task.meta]
    if not answers:
        raise BadInput("no task carries its answer", expected='meta["answer"]', where="text_baselines.borrowed")
    return lambda _, draws: answers[int(draws.integers(len(answers)))]


def play(env: Env, tasks: Sequence[Task], policy: Policy, *, seed: int = 0) -> list[Episode]:
    """One attempt at each task, which may stand there several times; what is said has draws of its own in each."""
    return [_attempt(env, task, policy, rng(seed, "baseline", number)) for number, task in enumerate(tasks)]


def summary(attempts_by_seed: Sequence[Sequence[Episode]]) -> dict[str, Any]:
    """What came of attempts under several seeds, without those that are not valid.

    Returns:
        ``return`` and ``success`` with ``mean`` and a 95 % interval ``ci95`` (bootstrap over attempts within each seed;
        Wilson), ``steps`` an attempt, ``attempts``, and ``by_seed``, the mean return of each.

    Raises:
        BadInput: a seed without a valid attempt.
    """
    valid = [[e for e in attempts if e.valid] for attempts in attempts_by_seed]
    if not valid or not all(valid):
        raise BadInput("a seed without a valid attempt", got=[len(v) for v in valid], where="text_baselines.summary")
    returns = [np.array([e.total_reward for e in attempts]) for attempts in valid]
    episodes = [e for attempts in valid for e in attempts]
    wins = sum(bool(e.success) for e in episodes)
    mean = float(np.mean(np.concatenate(returns)))
    return {
        "return": {"mean": mean, "ci95": [float(x) for x in stratified_bootstrap(returns)]},
        "success": {"mean": wins / len(episodes), "ci95": [float(x) for x in wilson(wins, len(episodes))]},
        "steps": float(np.mean([e.n_steps for e in episodes])),
        "attempts": len(episodes),
        "by_seed": [float(np.mean(r)) for r in returns],
    }


def _attempt(env: Env, task: Task, policy: Policy, draws: np.random.Generator) -> Episode:
    episode = Episode(task.id, env=env.name, group=task.id, meta={"kind": task.kind, "split": task.split})
    turn = env.reset(task, task.seed)
    while not turn.done:
        episode.observe(turn.observation)
        action = policy(turn, draws)
        episode.act(action)
        turn = env.step(action)
        episode.add_reward(turn.reward)
    episode.end(terminated=turn.terminated, truncated=turn.truncated, success=turn.success, valid=turn.valid)
    return episode
