"""Cue: what is shown in the first step of an attempt must be said in the last; a policy without memory can only guess.

Each agent sees a cue of its own, one of ``choices``, then nothing for ``wait`` steps, then that it is to answer. All
are paid the share of agents whose answer is their cue; without memory 1 / ``choices`` at best, on average.
"""

from __future__ import annotations

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.seeding import rng
from evolvent.core.team import ActionSpec, Frame, TeamSpec


def make_team(*, n_envs: int, n: int = 2, choices: int = 2, wait: int = 3) -> Cue:
    """``n_envs`` copies with ``n`` agents."""
    if n < 1 or choices < 2 or wait < 0:
        got, expected = (
            f"n={n}, choices={choices}, wait={wait}",
            "n of at least 1, choices of at least 2, wait of at least 0",
        )
        raise BadInput("cue", got=got, expected=expected)
    return Cue(n_envs, n, choices, wait)


class Cue:
    """B copies; an observation is the cue as one-hot in the first step, and whether it is time to answer."""

    name = ""

    def __init__(self, n_envs: int, n: int, choices: int, wait: int) -> None:
        self.n_envs, self._last = n_envs, wait + 1
        names = tuple(f"agent{i}" for i in range(n))
        self.team = TeamSpec(names, choices + 1, (ActionSpec(choices=choices),) * n, limit=wait + 2)
        self._age, self._rng = 0, rng(0, "cue")
        self._cue_BA = self._draw()

    def reset(self, seed: int) -> Frame:
        """See ``TeamEnv.reset``."""
        self._age, self._rng = 0, rng(seed, "cue")
        self._cue_BA = self._draw()
        return self._frame(np.zeros(self.n_envs, np.float32), None)

    def step(self, action: np.ndarray) -> Frame:
        """See ``TeamEnv.step``."""
        pay_B, last_BAD = np.zeros(self.n_envs, np.float32), None
        if self._age == self._last:
            pay_B, last_BAD = (action == self._cue_BA).mean(axis=1).astype(np.float32), self._seen()
            self._cue_BA = self._draw()
        self._age = 0 if last_BAD is not None else self._age + 1
        return self._frame(pay_B, last_BAD)

    def render(self) -> None:
        """There is nothing to see."""

    def close(self) -> None:
        """Nothing is held."""

    def _draw(self) -> np.ndarray:
        return self._rng.integers(self.team.choices, size=(self.n_envs, self.team.n_agents))

    def _seen(self) -> np.ndarray:
        seen_BAD = np.zeros((*self._cue_BA.shape, self.team.obs_dim), np.float32)
        if self._age == 0:
            np.put_along_axis(seen_BAD, self._cue_BA[..., None], 1.0, axis=2)
        seen_BAD[..., -1] = self._age == self._last
        return seen_BAD

    def _frame(self, pay_B: np.ndarray, last_BAD: np.ndarray | None) -> Frame:
        ended_B = np.full(self.n_envs, last_BAD is not None)
        return Frame(
            obs_BAD=self._seen(),
            reward_BA=np.repeat(pay_B[:, None], self.team.n_agents, axis=1),
            terminated_B=ended_B,
            truncated_B=np.zeros(self.n_envs, np.bool_),
            final_obs_BAD=last_BAD,
            info={"success": (pay_B == 1.0).astype(np.float32)} if last_BAD is not None else {},
        )
