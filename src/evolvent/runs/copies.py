"""The copies of an environment that attempts go on in, side by side, and what broke in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from evolvent import envs
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Correction, Env, Task, Turn
from evolvent.play.together import Player, run_players
from evolvent.runs.broken import check_broken

PlayerOf = Callable[[Env, Task, int, str], Player]
"""``(environment, task, seed, group)`` to the attempt as a coroutine."""


@dataclass
class Played:
    """Attempts that came to an end, the tasks of those that broke with their errors, and the seconds of each part."""

    episodes: list[Episode] = field(default_factory=list[Episode])
    broken: list[tuple[str, EnvError]] = field(default_factory=list[tuple[str, EnvError]])
    act_s: float = 0.0
    step_s: float = 0.0

    def __iadd__(self, more: Played) -> Played:
        return Played(
            self.episodes + more.episodes, self.broken + more.broken, self.act_s + more.act_s, self.step_s + more.step_s
        )

    def check(self, of: str) -> None:
        """Refuse to go on where too many broke, as ``runs.broken.check_broken`` says."""
        check_broken([error for _, error in self.broken], len(self.episodes) + len(self.broken), of)


class Nowhere:
    """The environment of a run that attempts nothing: it has no task."""

    name, instructions, labels, stop = "", "", ("", ""), ()
    max_tokens, reward_range = 1, (0.0, 1.0)

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """None."""
        return []

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Nothing begins here."""
        raise BadInput("no environment", got=task.id, expected="--env", where="runs.copies")

    def step(self, action: str) -> Turn:
        """Nothing goes on here."""
        raise BadInput("no environment", got=action, expected="--env", where="runs.copies")

    def review(self, task: Task, seed: int) -> Correction | None:
        """Nobody."""
        return None

    def advance(self, pass_number: int) -> None:
        """Nothing drifts."""

    def close(self) -> None:
        """Nothing is held."""


class Copies:
    """Copies of an environment: one at first, more as they are needed; ``workers`` threads step them, 0 = in lockstep.

    Of ``spec`` "" it is ``Nowhere``.

    Raises:
        BadInput: no such environment.
    """

    def __init__(self, spec: str, workers: int = 0) -> None:
        self.spec, self.workers = spec, workers
        self._copies: list[Env] = [envs.load(spec) if spec else Nowhere()]

    @property
    def first(self) -> Env:
        """One of them, to ask it for names and limits."""
        return self._copies[0]

    def some(self, n: int) -> list[Env]:
        """``n`` of them."""
        while len(self._copies) < n:
            self._copies.append(envs.load(self.spec))
        return self._copies[:n]

    def play(self, jobs: Sequence[tuple[Task, int, str]], acting: Any, player: PlayerOf) -> Played:
        """One attempt for each (task, seed, group); broken ones are returned apart, their environment is replaced."""
        players = [player(env, *job) for env, job in zip(self.some(len(jobs)), jobs, strict=True)]
        acting.forget()
        before, start = acting.seconds, time.perf_counter()
        overlap = getattr(self.first, "waits", False)
        results = run_players(players, acting, workers=self.workers, overlap=overlap)
        act_s = acting.seconds - before
        played = Played(act_s=act_s, step_s=time.perf_counter() - start - act_s)
        for number, result in enumerate(results):
            if isinstance(result, Episode):
                played.episodes.append(result)
            else:  # what state a broken environment is in, nobody knows
                played.broken.append((jobs[number][0].id, result))
                self._copies[number].close()
                self._copies[number] = envs.load(self.spec)
        return played

    def close(self) -> None:
        """Release all of them."""
        for env in self._copies:
            env.close()
