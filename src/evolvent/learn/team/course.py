"""The course of a team's environments from one restart to the next: returns of attempts, and a way back to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evolvent.core.seeding import seed_tree
from evolvent.core.team import Frame, TeamEnv


class Course:
    """Steps the environments, adds up what attempts earn, and remembers the actions since the last restart.

    An environment cannot be saved, but what it shows follows from its seed and from what was done: ``state`` is both,
    and ``repeat`` comes from there to where it stood. Who never asks need not ``remember``.
    """

    def __init__(self, env: TeamEnv, seed: int, *, remember: bool = True) -> None:
        self.env, self._seed, self._remember = env, seed, remember
        self._since = 0
        self._taken: list[np.ndarray] = []
        self._running = np.zeros(env.n_envs)
        self._finished: list[float] = []
        self._info: dict[str, list[float]] = {}

    def restart(self, update: int) -> Frame:
        """All copies anew, with the seed of an update."""
        self._since, self._taken = update, []
        self._running[:] = 0.0
        return self.env.reset(seed_tree(self._seed, "env", update))

    def step(self, action: np.ndarray) -> Frame:
        """One step in every copy."""
        frame = self.env.step(action)
        team = self.env.team
        if self._remember:
            small = np.min_scalar_type(team.choices) if team.kind == "discrete" else np.float32
            self._taken.append(action.astype(small))
        self._running += frame.worth_B
        done = frame.done_B
        if done.any():
            self._finished += self._running[done].tolist()
            self._running[done] = 0.0
            for name, column in frame.info.items():
                metrics = column[done]
                self._info.setdefault(name, []).extend(metrics[~np.isnan(metrics)].tolist())
        return frame

    def metrics(self) -> dict[str, Any]:
        """Metrics of the episodes that ended since the last call: mean return, number, means of environment metrics."""
        row = {"return": _mean(self._finished), "attempts": len(self._finished)}
        row |= {f"{name}_mean": _mean(metrics) for name, metrics in self._info.items()}
        self._finished, self._info = [], {}
        return row

    def state(self) -> dict[str, Any]:
        """Since which update, and what was done: int ``[N, B, A, ...]``, in the smallest type, or float32."""
        return {"since": self._since, "taken": np.stack(self._taken)} if self._taken else {}

    def repeat(self, state: Mapping[str, Any]) -> Frame:
        """Replay the steps in ``state``, without reporting their metrics again."""
        frame = self.restart(int(state["since"]))
        kind = np.int64 if self.env.team.kind == "discrete" else np.float32
        for action in state["taken"]:
            frame = self.step(action.astype(kind))
        self.metrics()
        return frame


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None
