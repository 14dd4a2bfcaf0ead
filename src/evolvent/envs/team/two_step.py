"""Two-step game: the first agent chooses which of two games the pair plays; one pays 7 always, the other up to 8.

Rashid et al., "QMIX: Monotonic Value Function Factorisation", ICML 2018. In game A every pair of moves pays 7, in
game B [[0, 1], [1, 8]]. Where all moves are tried alike, the best sum of two values says 6.5 of B's 8: who learns sums
settles for 7.
"""

from __future__ import annotations

import numpy as np

from evolvent.core.team import ActionSpec, Frame, TeamSpec

PAY = np.array([[[7, 7], [7, 7]], [[0, 1], [1, 8]]], np.float32)


def make_team(*, n_envs: int) -> TwoStep:
    """``n_envs`` copies."""
    return TwoStep(n_envs)


class TwoStep:
    """B copies; both agents see, and the state is, where they are: one-hot of start, game A, game B."""

    name = ""
    team = TeamSpec(("agent0", "agent1"), 3, (ActionSpec(choices=2),) * 2, state_dim=3, limit=2)

    def __init__(self, n_envs: int) -> None:
        self.n_envs, self._at_B = n_envs, np.zeros(n_envs, np.int64)

    def reset(self, seed: int) -> Frame:
        """See ``TeamEnv.reset``."""
        self._at_B[:] = 0
        return self._frame(np.zeros(self.n_envs, np.float32), self._at_B > 0, self._at_B)

    def step(self, action: np.ndarray) -> Frame:
        """See ``TeamEnv.step``."""
        before_B, ended_B = self._at_B, self._at_B > 0
        pay_B = np.where(ended_B, PAY[before_B - 1, action[:, 0], action[:, 1]], 0).astype(np.float32)
        self._at_B = np.where(ended_B, 0, 1 + action[:, 0])
        return self._frame(pay_B, ended_B, before_B)

    def render(self) -> None:
        """There is nothing to see."""

    def close(self) -> None:
        """Nothing is held."""

    def _frame(self, pay_B: np.ndarray, ended_B: np.ndarray, before_B: np.ndarray) -> Frame:
        seen_BD, last_BD = (np.eye(3, dtype=np.float32)[at_B] for at_B in (self._at_B, before_B))
        obs_BAD, last_BAD = (np.repeat(one[:, None], 2, axis=1) for one in (seen_BD, last_BD))
        return Frame(
            obs_BAD=obs_BAD,
            reward_BA=np.repeat(pay_B[:, None], 2, axis=1),
            terminated_B=ended_B,
            truncated_B=np.zeros(self.n_envs, np.bool_),
            state_BS=seen_BD,
            final_obs_BAD=last_BAD,
            final_state_BS=last_BD,
            info={"success": np.where(ended_B, pay_B >= PAY.max(), np.nan).astype(np.float32)},
        )
