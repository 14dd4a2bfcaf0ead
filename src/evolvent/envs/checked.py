"""``CheckedEnv``: an environment of yours, held to its promises while it runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

from evolvent.core.errors import EnvError, EvolventError
from evolvent.core.outside import line_of
from evolvent.core.protocols import Correction, Env, Task, Turn
from evolvent.envs import promises

T = TypeVar("T")
STUCK, LONGEST = 200, 2_000
"""Steps after which an attempt is cut off: in a row with the same action and the same observation, and at all."""


class CheckedEnv:
    """An environment of tasks whose errors name the file, the line and the task.

    An exception in it, or a value that breaks a promise, is an error of its code and ends the run. ``EnvError`` says
    that the world failed and not the agent: it is passed on, and the attempt does not count. An attempt without an end
    is cut off, with one warning: after ``STUCK`` times the same action and observation, or ``LONGEST`` steps.

    Args:
        env: what ``make`` returned.
        home: its file or module.
    """

    def __init__(self, env: Env, home: str) -> None:
        self._env, self.home = env, home
        self._promise = promises.promise_of(cast("Env", self))
        self._task, self._total, self._steps, self._last, self._same, self._over = "", 0.0, 0, ("", ""), 0, False
        self._warned = False
        promises.check_members(env, self._promise)

    def __getattr__(self, name: str) -> Any:
        if name == "_env":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self._env, name)

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """See ``Env.tasks``."""
        call = f"tasks({split!r}, {n}, {seed})"
        found = self._called(call, lambda: self._env.tasks(split, n, seed))
        promises.check_tasks(found, split, n, call, self._promise)
        return found

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """See ``Env.reset``."""
        self._task, self._total, self._steps, self._last, self._same, self._over = task.id, 0.0, 0, ("", ""), 0, False
        call = f"reset of task {task.id}"
        turn = self._called(call, lambda: self._env.reset(task, seed))
        promises.check_turn(turn, call, self._promise)
        promises.check_begin(turn, call, self._promise)
        return turn

    def step(self, action: str) -> Turn:
        """See ``Env.step``."""
        self._steps += 1
        said = action if len(action) <= 60 else action[:59] + "…"
        call = f"step({said!r}), step {self._steps} of task {self._task}"
        turn = self._called(call, lambda: self._env.step(action))
        if self._over:  # nobody takes it, but `check_env`, which says so
            return turn
        promises.check_turn(turn, call, self._promise)
        turn = self._cut_off(action, turn)
        self._total, self._over = self._total + turn.reward, turn.done
        if turn.done:
            promises.check_end(turn, self._total, self._env.reward_range, call, self._promise)
        return turn

    def review(self, task: Task, seed: int) -> Correction | None:
        """See ``Env.review``."""
        call = f"review of task {task.id}"
        answer = self._called(call, lambda: self._env.review(task, seed))
        promises.check_correction(answer, call, self._promise)
        return answer

    def advance(self, pass_number: int) -> None:
        """See ``Env.advance``."""
        self._called(f"advance({pass_number})", lambda: self._env.advance(pass_number))

    def close(self) -> None:
        """See ``Env.close``."""
        self._called("close()", self._env.close)

    def _cut_off(self, action: str, turn: Turn) -> Turn:
        """The turn, truncated where an attempt has no end of its own; said once."""
        self._same = self._same + 1 if self._last == (action, turn.observation) else 0
        self._last = (action, turn.observation)
        if turn.done or (self._same < STUCK and self._steps < LONGEST):
            return turn
        if not self._warned:
            self._warned = True
            seen = f"the same turn {STUCK} times" if self._same >= STUCK else f"{LONGEST:,} steps"
            message = (
                f"an attempt has no end: {seen} in task {self._task}, cut off there; set terminated=True with the last "
                "turn, or truncated=True at a limit of steps"
            )
            warnings.warn_explicit(message, UserWarning, self.home, 1)
        return replace(turn, truncated=True)

    def _called(self, call: str, function: Callable[[], T]) -> T:
        try:
            return function()
        except EnvError as error:
            if error.where:
                raise
            where = f"{call}, {line_of(error, self.home)}"
            raise EnvError(error.what, got=error.got, expected=error.expected, where=where, do=error.do) from error
        except EvolventError:
            raise
        except (Exception, SystemExit) as error:
            do = "mend it; where the world failed and not the agent, raise EnvError: runs that learn go on"
            raise self._promise.failure(call, error, "no exception", do) from error
