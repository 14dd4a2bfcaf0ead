"""Multi-agent MuJoCo (gymnasium-robotics): one robot whose joints are shared out among agents.

de Witt et al., "Deep Multi-Agent Reinforcement Learning for Decentralized Continuous Cooperative Control", 2020, on the
robots of gymnasium v5. Variants are ROBOT-PARTITION: HalfCheetah-2x3, HalfCheetah-6x1, Ant-4x2, Ant-2x4, Hopper-3x1,
Walker2d-2x3, Humanoid-9|8, …; for another partition give the robot alone and ``factorization``. The limit (1000 steps)
truncates; a fall terminates.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, closest, missing_extra
from evolvent.core.team import ActionSpec, TeamSpec
from evolvent.envs.runners.solo import Seen
from evolvent.envs.team._display import can_draw
from evolvent.envs.team._parallel import ParallelSolo

_PARTITIONS = {
    "Ant": "2x4, 2x4d or 4x2",
    "HalfCheetah": "2x3 or 6x1",
    "Hopper": "3x1",
    "Humanoid": "9|8",
    "HumanoidStandup": "9|8",
    "Pusher": "3p",
    "Reacher": "2x1",
    "Swimmer": "2x1",
    "Walker2d": "2x3",
    "CoupledHalfCheetah": "1p1",
    "ManySegmentSwimmer": "2x6 (agents x segments)",
    "ManySegmentAnt": "2x3 (agents x segments)",
}
"""By robot, the partitions that the package names."""


def make_solo(variant: str = "HalfCheetah-6x1", *, obsk: int = 1, factorization: str = "") -> RobotSolo | ParallelSolo:
    """One copy.

    Args:
        variant: robot and partition.
        obsk: an agent sees joints up to this many steps along the body from its own (0 = its own only).
        factorization: joints of each agent by the number of their actuator, e.g. ``"0+1+2|3+4+5"``.
    """
    drawable = can_draw()
    try:
        # at import it tells everybody on stderr about environments that are not used here
        with contextlib.redirect_stderr(io.StringIO()):
            from gymnasium_robotics import mamujoco_v1
    except ImportError as err:
        raise missing_extra("gymnasium_robotics", "marl", "envs.mamujoco") from err
    robot, _, partition = variant.partition("-")
    where = f"mamujoco:{variant}"
    if robot not in _PARTITIONS:
        raise BadInput("unknown robot", got=robot, expected=closest(robot, _PARTITIONS), where=where)
    if bool(partition) == bool(factorization) or obsk < 0:
        expected = "ROBOT-PARTITION or ROBOT,factorization=0+1|2+3, and obsk of at least 0"
        raise BadInput("partition", got=f"{variant}, {factorization!r}, obsk={obsk}", expected=expected, where=where)
    split = _split(mamujoco_v1, robot, factorization, where) if factorization else None
    size = {} if robot == "CoupledHalfCheetah" else {"width": 240, "height": 240}
    options = {"render_mode": "rgb_array" if drawable else None, "disable_env_checker": True, **size}
    try:
        env = mamujoco_v1.parallel_env(robot, partition or "custom", obsk, split, **options)
    except Exception as err:  # the package raises it bare for a partition it does not know
        do = f"{robot},factorization=0+1|2+3 makes any other"
        known = _PARTITIONS[robot]
        raise BadInput("this partition cannot be made", got=str(err), expected=known, where=where, do=do) from err
    limit = getattr(env.single_agent_env.spec, "max_episode_steps", None) or 1000
    if env.observation_factorization is None:
        return ParallelSolo(env, limit=limit, state=True)
    return RobotSolo(env, limit)


def _split(package: Any, robot: str, factorization: str, where: str) -> dict[str, Any]:
    [joints], edges, others = package.get_parts_and_edges(robot, None)
    by_number = {str(joint.act_ids): joint for joint in joints}
    parts = [part.split("+") for part in factorization.replace(" ", "").split("|")]
    if sorted(joint for part in parts for joint in part) != sorted(by_number):
        expected = f"each of {', '.join(sorted(by_number, key=int))} once, joined by + and |"
        raise BadInput("factorization", got=factorization, expected=expected, where=where)
    return {"partition": [tuple(by_number[n] for n in part) for part in parts], "edges": edges, "globals": others}


class RobotSolo:
    """One robot, its whole observation read once and dealt out to the agents.

    The same numbers as the package's own ``step``, for less: it builds each agent's observation joint by joint. Except
    that Walker2d, Hopper and ManySegmentAnt clip velocities or forces in the robot's observation, and so here.

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

    @property
    def simulation(self) -> Any:
        """The robot below the wrappers of ``gymnasium.make``."""
        return self._robot.unwrapped

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
