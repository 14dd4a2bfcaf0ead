"""``RobotSolo``: one robot of multi-agent MuJoCo, its whole observation read once and dealt out to the agents."""

from __future__ import annotations

from typing import Any

import numpy as np

from evolvent.core.team import ActionSpec, TeamSpec
from evolvent.envs.runners.solo import Seen


class RobotSolo:
    """The same numbers as the package's own ``step``, for less: it builds each agent's observation joint by joint.

    Except that Walker2d, Hopper and ManySegmentAnt clip velocities or forces in the robot's observation, and so here.

    Args:
        env: the package's parallel environment; only the robot below it is stepped.
        limit: steps after which the robot's time limit cuts off.
    """

    gives = columns = ()

    def __init__(self, env: Any, limit: int) -> None:
        self._robot = env.single_agent_env
        parts = [[joint.act_ids for joint in part] for part in env.agent_action_partitions]
        reads = [np.asarray(env.observation_factorization[agent]) for agent in env.possible_agents]
        size = int(self._robot.observation_space.shape[0])
        width = max(len(read) for read in reads)
        # state[size] is kept 0: what pads the shorter observations
        self._read_AD = np.stack([np.pad(read, (0, width - len(read)), constant_values=size) for read in reads])
        self._joints = np.concatenate(parts)
        space = self._robot.action_space
        self._middle, self._half = (space.low + space.high) / 2.0, (space.high - space.low) / 2.0
        actions = tuple(ActionSpec(dims=len(part)) for part in parts)
        self.team = TeamSpec(tuple(env.possible_agents), width, actions, state_dim=size, limit=limit)
        self._own = self.team.dim_mask()
        self._state, self._command = np.zeros(size + 1), np.zeros(len(self._joints))

    def reset(self, seed: int) -> Seen:
        """See ``Solo.reset``."""
        return self._seen(self._robot.reset(seed=seed)[0], 0.0, fell=False, cut=False)

    def step(self, action: np.ndarray) -> Seen:
        """See ``Solo.step``."""
        self._command[self._joints] = action[self._own]
        state, reward, fell, cut, _ = self._robot.step(self._middle + self._half * self._command)
        return self._seen(state, float(reward), fell=fell, cut=cut)

    def render(self) -> np.ndarray | None:
        """See ``Solo.render``."""
        return self._robot.render() if self._robot.render_mode else None

    def close(self) -> None:
        """See ``Solo.close``."""
        self._robot.close()

    def _seen(self, state: np.ndarray, reward: float, *, fell: bool, cut: bool) -> Seen:
        self._state[:-1] = state
        return Seen(self._state[self._read_AD], reward, terminated=fell, truncated=cut, state=state)
