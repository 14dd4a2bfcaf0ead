"""``GymSolo``: one copy of a gymnasium environment with a tuple of spaces, one for each agent, as a ``Solo``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, closest
from evolvent.envs.runners.solo import Seen, native, team_of


def make_gym(variant: str, ids: Sequence[str], **options: Any) -> Any:
    """The environment of that id, without gymnasium's checks around every step; unknown ids are refused."""
    import gymnasium

    if variant not in ids:
        raise BadInput("unknown variant", got=variant, expected=closest(variant, ids), where="gymnasium")
    return gymnasium.make(variant, disable_env_checker=True, **options).unwrapped


class GymSolo:
    """One copy.

    Args:
        env: ``reset`` and ``step`` give tuples of observations and rewards.
        limit: steps after which it cuts itself off.
        won: whether the attempt that has just ended did so by its own rules; else it was cut off.
        forget: called before each reset, for what the environment would carry over from the last attempt.
    """

    gives = columns = ()

    def __init__(
        self, env: Any, limit: int, won: Callable[[], bool], forget: Callable[[], None] = lambda: None
    ) -> None:
        self._env, self._won, self._forget = env, won, forget
        agents = tuple(f"agent{i}" for i in range(len(env.action_space.spaces)))
        actions = dict(zip(agents, env.action_space.spaces, strict=True))
        widths = [math.prod(space.shape) for space in env.observation_space.spaces]
        self.team = team_of(agents, widths, actions, limit=limit)
        self._native = native(self.team, actions)

    def reset(self, seed: int) -> Seen:
        """See ``Solo.reset``."""
        self._forget()
        obs, _ = self._env.reset(seed=seed)
        return Seen(dict(zip(self.team.agents, obs, strict=True)))

    def step(self, action: np.ndarray) -> Seen:
        """See ``Solo.step``."""
        obs, reward, done, cut, _ = self._env.step(list(self._native(action).values()))
        ended, agents = bool(done or cut), self.team.agents
        won = ended and not cut and self._won()
        seen, paid = dict(zip(agents, obs, strict=True)), dict(zip(agents, reward, strict=True))
        return Seen(seen, paid, terminated=won, truncated=ended and not won)

    def render(self) -> None:
        """Both environments that use this need a display to draw."""

    def close(self) -> None:
        """See ``Solo.close``."""
        self._env.close()
