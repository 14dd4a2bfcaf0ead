"""``ParallelSolo``: one copy of a PettingZoo parallel environment as a ``Solo``; its agents may die, not appear."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from evolvent.core.errors import EnvError
from evolvent.envs.runners.solo import Seen, native, team_of


class ParallelSolo:
    """One copy.

    Args:
        env: follows PettingZoo's ``ParallelEnv``.
        limit: steps after which it cuts itself off, 0 = unknown.
        dies: whether agents can leave before the end; who left shows zeros and is not active.
        state: show ``env.state()`` too.

    The attempt ends when nobody is left. It counts as cut off, for everybody, if anybody was cut off in its last step.
    Observations may be a dictionary of ``observation`` and ``action_mask``; pictures (uint8) are divided by 255.
    """

    columns = ()

    def __init__(self, env: Any, *, limit: int = 0, dies: bool = False, state: bool = False) -> None:
        self._env, self._state = env, state
        agents = list(env.possible_agents)
        spaces = {agent: env.observation_space(agent) for agent in agents}
        self._masked = all(_has_mask(space) for space in spaces.values())
        if self._masked:
            spaces = {agent: space["observation"] for agent, space in spaces.items()}
        odd = [repr(space) for space in spaces.values() if getattr(space, "shape", None) is None]
        if odd:
            raise EnvError("an observation space that is not supported", got=odd[0], expected="Box, or Box with mask")
        actions = {agent: env.action_space(agent) for agent in agents}
        size = 0
        if state:
            env.reset(seed=0)
            size = np.asarray(env.state()).size
        self.team = team_of(agents, spaces, actions, state_dim=size, limit=limit)
        self.gives = ("available",) * self._masked + ("active",) * dies
        self._native = native(self.team, actions)

    def reset(self, seed: int) -> Seen:
        """See ``Solo.reset``."""
        obs, _ = self._env.reset(seed=seed)
        return self._seen(obs, 0.0, ended=False, cut=False)

    def step(self, action: np.ndarray) -> Seen:
        """See ``Solo.step``."""
        actions = self._native(action)
        alive = self._env.agents
        if len(alive) < len(actions):
            actions = {agent: actions[agent] for agent in alive}
        obs, reward, over, cut, _ = self._env.step(actions)
        _complete("reward", reward, actions)
        _complete("observation", obs, self._env.agents)
        ended = not self._env.agents
        seen = self._seen(obs, reward, ended=ended, cut=ended and any(cut.values()))
        if not seen.truncated:
            return seen
        return replace(seen, alive=[agent for agent, was in cut.items() if was and not over.get(agent)])

    def render(self) -> np.ndarray | None:
        """See ``Solo.render``."""
        picture = self._env.render()
        return picture if isinstance(picture, np.ndarray) and picture.ndim == 3 else None

    def close(self) -> None:
        """See ``Solo.close``."""
        self._env.close()

    def _seen(self, obs: Mapping[str, Any], reward: Mapping[str, float] | float, *, ended: bool, cut: bool) -> Seen:
        masks = (
            {agent: np.asarray(view["action_mask"], np.bool_) for agent, view in obs.items()} if self._masked else {}
        )
        views = {agent: view["observation"] for agent, view in obs.items()} if self._masked else obs
        return Seen(
            obs={
                agent: view / np.float32(255) if view.dtype == np.uint8 else view
                for agent, view in ((agent, np.asarray(view)) for agent, view in views.items())
            },
            reward=reward,
            terminated=ended and not cut,
            truncated=cut,
            alive=self._env.agents,
            available=masks or None,
            state=self._env.state() if self._state else None,
        )


def _complete(what: str, by_agent: Mapping[str, Any], agents: Collection[str]) -> None:
    missing = [agent for agent in agents if agent not in by_agent]
    if missing:
        raise EnvError(f"no {what} for an agent", got=list(by_agent), expected=missing)


def _has_mask(space: Any) -> bool:
    parts = getattr(space, "spaces", None)
    return isinstance(parts, Mapping) and {"observation", "action_mask"} <= set(parts)
