"""``OneStepGame``: B copies of a game of one simultaneous move, computed at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evolvent.core.seeding import rng
from evolvent.core.team import ActionSpec, Frame, TeamSpec


class OneStepGame:
    """Everybody sees the same, moves once, and all get the same pay; the attempt ends.

    Args:
        n_envs: B.
        n: agents A.
        choices: moves of each agent.
        pay: moves int64 ``[B, A]`` → pay ``[B]``.
        best: the largest pay; an attempt that reaches it counts as success.
        noise: numbers drawn anew for each attempt and shown to every agent alike; 0 = a constant 1.
        ids: show each agent its own number too, as one-hot.
    """

    name = ""

    def __init__(
        self,
        n_envs: int,
        n: int,
        choices: int,
        pay: Callable[[np.ndarray], np.ndarray],
        *,
        best: float,
        noise: int,
        ids: bool,
    ) -> None:
        self.n_envs, self._pay, self._best, self._noise = n_envs, pay, best, noise
        names = tuple(f"agent{i}" for i in range(n))
        self._id_AA = np.eye(n, dtype=np.float32) if ids else np.zeros((n, 0), np.float32)
        width = max(noise, 1) + self._id_AA.shape[1]
        self.team = TeamSpec(names, width, (ActionSpec(choices=choices),) * n, limit=1)
        self._rng = rng(0, "game")
        self._obs_BAD = self._draw()

    def reset(self, seed: int) -> Frame:
        """See ``TeamEnv.reset``."""
        self._rng = rng(seed, "game")
        self._obs_BAD = self._draw()
        return self._frame(np.zeros(self.n_envs, np.float32), ended=False)

    def step(self, action: np.ndarray) -> Frame:
        """See ``TeamEnv.step``."""
        last_BAD, self._obs_BAD = self._obs_BAD, self._draw()
        return self._frame(self._pay(action).astype(np.float32), ended=True, last_BAD=last_BAD)

    def render(self) -> None:
        """There is nothing to see."""

    def close(self) -> None:
        """Nothing is held."""

    def _draw(self) -> np.ndarray:
        shape = (self.n_envs, 1, max(self._noise, 1))
        seen_B1D = self._rng.standard_normal(shape, np.float32) if self._noise else np.ones(shape, np.float32)
        agents = len(self._id_AA)
        id_BAA = np.broadcast_to(self._id_AA, (self.n_envs, *self._id_AA.shape))
        return np.concatenate([np.repeat(seen_B1D, agents, axis=1), id_BAA], axis=2)

    def _frame(self, pay_B: np.ndarray, *, ended: bool, last_BAD: np.ndarray | None = None) -> Frame:
        no_B = np.zeros(self.n_envs, np.bool_)
        return Frame(
            obs_BAD=self._obs_BAD,
            reward_BA=np.repeat(pay_B[:, None], self.team.n_agents, axis=1),
            terminated_B=~no_B if ended else no_B,
            truncated_B=no_B.copy(),
            final_obs_BAD=last_BAD,
            info={"success": (pay_B >= self._best).astype(np.float32)} if ended else {},
        )
