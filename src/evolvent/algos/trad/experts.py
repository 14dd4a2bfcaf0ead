"""What an expert did: played in the environment by its commands, or taken from the record of another run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolvent import envs
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Completion, Env, Request, Task, distinct
from evolvent.core.seeding import seed_tree
from evolvent.play.attempt import play
from evolvent.play.experience import Experience, Use
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.play.together import run_players

Expert = tuple[Task, "Episode | None"]
"""A task, and how the expert solved it where that is known already."""


def experts_of(env: Env, spec: str, n: int, seed: int, run: str = "") -> list[Expert]:
    """At most ``n`` training tasks that an expert solves: the environment's, or the successful attempts of a ``run``.

    Raises:
        BadInput: the environment has no expert; no such run, or it solved no training task.
    """
    if run:
        return _recorded(env, run, n)
    if not hasattr(env, "expert"):
        raise BadInput(
            "this environment has no expert",
            got=spec,
            where="--env",
            expected="one with expert(task), such as alfworld, twx or household",
            do="--experts RUN takes what another run solved, or write expert(task) in yours",
        )
    return [(task, None) for task in distinct(env.tasks("train", n, seed))]


def play_expert(env: Any, task: Task, seed: int) -> Episode:
    """The expert's attempt at a task, played through the loop that plays every attempt.

    Raises:
        EnvError: the expert knows no way, says what is not offered, or does not reach the goal.
    """
    commands = env.expert(task)
    alone = Experience(env, task, None, Use(how="none"), seed=seed, learns=False)
    player = play(env, task, AttemptSettings(Text()), seed=seed, group=task.id, world=seed, experience=alone)
    (episode,) = run_players([player], _Reader(commands, task.id))
    if isinstance(episode, EnvError):
        raise episode
    if not episode.success:
        raise EnvError("the expert did not reach the goal", got=f"{episode.n_steps} commands", where=task.id)
    return episode


def steps_of(episode: Episode) -> list[tuple[str, str]]:
    """What whoever acts saw and did, step by step."""
    seen, found = "", list[tuple[str, str]]()
    last = [node.agent for node in episode.nodes if node.kind == "action"][-1]
    for node in episode.nodes:
        if node.agent == last and node.kind == "observation":
            seen = node.text
        elif node.agent == last and node.kind == "action":
            found.append((seen, node.text))
    return found


class _Reader:
    """An engine that says what is written down, command by command."""

    def __init__(self, commands: Sequence[str], where: str) -> None:
        self._left, self._where = list(commands), where

    def __call__(self, requests: Sequence[Request]) -> list[Completion]:
        return [self._said(request) for request in requests]

    def _said(self, request: Request) -> Completion:
        if not self._left:
            raise EnvError("the expert did not reach the goal", got="no command is left", where=self._where)
        command, offered = self._left.pop(0), [str(choice).strip() for choice in request.choices]
        if offered and command not in offered:
            expected = ", ".join(offered[:8])
            raise EnvError("the expert's command is not offered", got=command, expected=expected, where=self._where)
        none = np.zeros(0)
        choice = offered.index(command) if offered else -1
        return Completion(command, none.astype(np.int32), none.astype(np.float32), choice=choice)


def _recorded(env: Env, run: str, n: int) -> list[Expert]:
    """Successful attempts of a run at training tasks, the first at each."""
    folder = RunFolder.open(Path(run).expanduser())
    config = folder.config
    name, own = str(config.get("env", "")).partition(":")[0], env.name
    where = f"--experts {run}"
    if not isinstance(train := config.get("train"), int) or not train:
        raise BadInput("this run has no stream of training tasks", where=where, expected="a run of a memory system")
    with_tasks = envs.load(config["env"]) if name else env
    known = {task.id: task for task in with_tasks.tasks("train", train, int(config["seed"]))}
    with_tasks.close()
    if with_tasks.name != own:
        raise BadInput("a run in another environment", got=with_tasks.name, expected=own, where=where)
    found: dict[str, Expert] = {}
    for row in folder.read_episodes():
        episode = Episode.from_dict(row)
        if episode.success and episode.n_steps and episode.task_id in known:
            found.setdefault(episode.task_id, (known[episode.task_id], episode))
    if not found:
        raise BadInput(
            "no trajectory of an expert",
            got="no training task was solved",
            where=where,
            expected="a run that solved some of its training tasks",
            do="take another run, or leave --experts out",
        )
    return list(found.values())[:n]


def world_seed(seed: int, task: Task) -> int:
    """Of the world that an expert plays in."""
    return seed_tree(seed, "expert", task.id)
