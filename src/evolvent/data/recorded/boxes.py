"""Actions between an environment's own numbers and [-1, 1], for files that keep the former."""

from __future__ import annotations

from typing import Any

import numpy as np

from evolvent import envs
from evolvent.core.team import TeamSpec


class Box:
    """The action space of a task of gymnasium; of any other environment there are no other numbers than ours."""

    def __init__(self, env: str, team: TeamSpec) -> None:
        self.space: Any = None
        self.kind = team.kind
        if env.partition(":")[0] == "gymnasium":
            found = envs.find(env, "data")
            one = found.make(**found.given("data"))
            self.space = one.action_space
            one.close()

    def ours(self, action: np.ndarray) -> np.ndarray:
        """The environment's numbers ``[T, …]`` in [-1, 1], float32; choices counted from 0, int64."""
        if self.kind == "discrete":
            return action.astype(np.int64) - int(getattr(self.space, "start", 0))
        if self.space is None:
            return action.astype(np.float32)
        low, high = self._bounds()
        flat = action.reshape(len(action), -1).astype(np.float64)
        return ((flat - low) / (high - low) * 2.0 - 1.0).astype(np.float32)

    def native(self, action: np.ndarray) -> np.ndarray:
        """The inverse of ``ours``, in the shape and dtype of the space."""
        if self.space is None:
            return action
        if self.kind == "discrete":
            return (action + int(getattr(self.space, "start", 0))).astype(self.space.dtype)
        low, high = self._bounds()
        native = low + (action.astype(np.float64) + 1.0) / 2.0 * (high - low)
        return native.reshape(len(action), *self.space.shape).astype(self.space.dtype)

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        low, high = np.float64(self.space.low).reshape(-1), np.float64(self.space.high).reshape(-1)
        return low, high
