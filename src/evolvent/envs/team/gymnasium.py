"""Any task of gymnasium for one agent, as a team of one: ``gymnasium:Hopper-v5``, ``gymnasium:CartPole-v1``.

The variant is the id that ``gymnasium.make`` takes, ``package.module:Id-v0`` for one that a package registers; every
option goes to it: ``gymnasium:FrozenLake-v1,is_slippery=false``, ``gymnasium:Pendulum-v1,max_episode_steps=100``.
Observations become a row of numbers (one of several: one-hot); numbers of an action go from [-1, 1] to the bounds of
its box. A time limit truncates, an end by the task's own rules terminates.
"""

from __future__ import annotations

import importlib
import os
import re
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, MissingExtra, closest, missing_extra
from evolvent.envs.runners.solo import Seen, native, team_of
from evolvent.envs.runners.spaces import row_of
from evolvent.envs.team._display import can_draw

AGENT = "agent0"


def make_solo(variant: str, **options: int | float | bool | str) -> GymnasiumSolo:
    """One copy of the task with that id; the options are those of ``gymnasium.make``."""
    drawable = can_draw()
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws without a window
    try:
        import gymnasium
        from gymnasium import error
        from gymnasium.envs import registration
    except ImportError as err:
        raise missing_extra("gymnasium", "marl", "envs.gymnasium") from err
    where = f"gymnasium:{variant}"
    module, _, name = variant.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        entry = gymnasium.spec(name).entry_point
        creator = registration.load_env_creator(entry) if isinstance(entry, str) else entry
        draws = drawable and "rgb_array" in getattr(creator, "metadata", {}).get("render_modes", ())
        given = {"render_mode": "rgb_array" if draws else None, **options}
        env = gymnasium.make(name, disable_env_checker=True, **given)
    except (error.Error, ImportError, TypeError) as err:
        raise _refused(name, err, list(gymnasium.registry), where) from err
    return GymnasiumSolo(env, where)


def _refused(name: str, err: Exception, known: list[str], where: str) -> Exception:
    """What ``gymnasium.make`` said, as an error that names what to do."""
    if isinstance(err, ImportError) or type(err).__name__ == "DependencyNotInstalled":
        found = re.search(r"pip install [^`]*[^`.\s]", str(err))
        do = found[0].replace("\\", "") if found else "install what brings it, or take a newer version of the task"
        return MissingExtra("a package behind this task is not installed", got=str(err), where=where, do=do)
    if isinstance(err, TypeError):
        return BadInput("the task refuses its options", got=str(err), where=where)
    if "Found" in type(err).__name__:  # its name, version or namespace is not
        return BadInput("no such task of gymnasium", got=name, expected=closest(name, known), where=where)
    return BadInput("this task cannot be made", got=str(err), where=where)


class GymnasiumSolo:
    """One copy.

    Args:
        env: with the wrappers of ``gymnasium.make``, of which the time limit sets ``truncated``.
        where: named in errors.

    Attributes:
        action_space: of the task, whose bounds actions in [-1, 1] are brought to.
    """

    gives = columns = ()

    def __init__(self, env: Any, where: str) -> None:
        self._env, self.action_space, spaces = env, env.action_space, {AGENT: env.action_space}
        self._row = row_of(env.observation_space, where)
        self.team = team_of((AGENT,), (self._row.width,), spaces, limit=env.spec.max_episode_steps or 0)
        self._native = native(self.team, spaces)

    @property
    def simulation(self) -> Any:
        """The task below the wrappers of ``gymnasium.make``."""
        return self._env.unwrapped

    def look(self) -> np.ndarray:
        """What its agent sees now, ``[1, D]``: after a change from outside, in tasks that look for themselves."""
        return self._row.flat(self._env.unwrapped._get_obs())[None]

    def reset(self, seed: int) -> Seen:
        """See ``Solo.reset``."""
        return Seen(self._row.flat(self._env.reset(seed=seed)[0])[None])

    def step(self, action: np.ndarray) -> Seen:
        """See ``Solo.step``."""
        obs, reward, over, cut, _ = self._env.step(self._native(action)[AGENT])
        return Seen(self._row.flat(obs)[None], float(reward), terminated=bool(over), truncated=bool(cut))

    def render(self) -> np.ndarray | None:
        """See ``Solo.render``."""
        return self._env.render() if self._env.render_mode else None

    def close(self) -> None:
        """See ``Solo.close``."""
        self._env.close()
