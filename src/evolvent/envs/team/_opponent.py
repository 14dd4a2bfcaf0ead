"""An environment as an adversary has it: its action disturbs what a policy sees there, and it earns what that loses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from evolvent.core.team import ActionSpec, Frame, TeamEnv, TeamSpec


def team_of(team: TeamSpec) -> TeamSpec:
    """The adversary alone: a number for each that the policy sees."""
    return TeamSpec(("adversary",), team.obs_dim, (ActionSpec(dims=team.obs_dim),), limit=team.limit)


class Opponent:
    """See the module.

    Args:
        env: copies of an undisturbed environment of one agent.
        radius: of the ball around what it shows.

    Attributes:
        act: the policy: actions for a frame; to be set.
    """

    act: Callable[[Frame], np.ndarray]

    def __init__(self, env: TeamEnv, radius: float) -> None:
        self.name, self.n_envs, self.team = f"against {env.name}", env.n_envs, team_of(env.team)
        self._env, self._radius = env, radius

    def reset(self, seed: int) -> Frame:
        """See ``TeamEnv.reset``."""
        return self._shown(self._env.reset(seed))

    def step(self, action: np.ndarray) -> Frame:
        """See ``TeamEnv.step``."""
        seen = self._frame.obs_BAD + np.float32(self._radius) * action.clip(-1.0, 1.0)
        return self._shown(self._env.step(self.act(dataclasses.replace(self._frame, obs_BAD=seen))))

    def render(self) -> None:
        """There is nobody to watch."""

    def close(self) -> None:
        """See ``TeamEnv.close``."""
        self._env.close()

    def _shown(self, frame: Frame) -> Frame:
        self._frame = dataclasses.replace(frame, obs_BAD=frame.obs_BAD.copy())
        final = frame.final_obs_BAD
        return Frame(frame.obs_BAD, -frame.reward_BA, frame.terminated_B, frame.truncated_B, final_obs_BAD=final)
