"""``Vmas``: the copies of a VMAS scenario as one ``TeamEnv``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evolvent.core.team import Frame
from evolvent.envs.runners.solo import affine, team_of
from evolvent.envs.team._display import can_draw


class Vmas:
    """All copies as one ``TeamEnv``; on the CPU its arrays are views of torch's."""

    name = ""

    def __init__(self, env: Any, limit: int) -> None:
        self._env, self.n_envs = env, env.num_envs
        names = [agent.name for agent in env.agents]
        widths = [math.prod(space.shape) for space in env.observation_space.spaces]
        actions = dict(zip(names, env.action_space.spaces, strict=True))
        self.team = team_of(names, widths, actions, limit=limit)
        self._affine = affine(self.team, actions)
        self._random = list(env.vmas_random_state)

    def reset(self, seed: int) -> Frame:
        """See ``TeamEnv.reset``."""
        self._enter()
        obs = self._env.reset(seed=seed & 0x7FFFFFFF)
        self._random[:] = self._env.vmas_random_state
        no_B = np.zeros(self.n_envs, np.bool_)
        return Frame(self._stacked(obs), np.zeros((self.n_envs, self.team.n_agents), np.float32), no_B, no_B.copy())

    def step(self, action: np.ndarray) -> Frame:
        """See ``TeamEnv.step``."""
        import torch

        self._enter()
        numbers = torch.from_numpy(np.ascontiguousarray(self._affine(action)))
        obs, reward, over, cut, _ = self._env.step(
            [
                numbers[:, i, : spec.dims] if spec.dims else numbers[:, i, None]
                for i, spec in enumerate(self.team.actions)
            ]
        )
        seen, paid_BA = self._stacked(obs), torch.stack(reward, dim=1).float().cpu().numpy()
        over_B, cut_B = over.cpu().numpy(), (cut & ~over).cpu().numpy()
        last = None
        if over_B.any() or cut_B.any():
            last, seen = seen, self._restarted(over_B | cut_B)
        self._random[:] = self._env.vmas_random_state
        return Frame(seen, paid_BA, over_B, cut_B, final_obs_BAD=last)

    def render(self) -> np.ndarray | None:
        """See ``TeamEnv.render``."""
        return self._env.render(mode="rgb_array") if can_draw() else None

    def close(self) -> None:
        """Nothing is held."""

    def _enter(self) -> None:
        """VMAS has one random state for all its environments in a process; each of ours keeps its own."""
        self._env.vmas_random_state[:] = self._random

    def _restarted(self, ended_B: np.ndarray) -> np.ndarray:
        if ended_B.all():
            return self._stacked(self._env.reset())
        for b in np.flatnonzero(ended_B).tolist():
            self._env.reset_at(b, return_observations=False)
        return self._stacked(self._env.get_from_scenario(True, False, False, False)[0])

    def _stacked(self, obs: list[Any]) -> np.ndarray:
        """One tensor for each agent → ``[B, A, D]``, shorter ones padded."""
        import torch

        width = self.team.obs_dim
        obs = [o if o.shape[1] == width else torch.nn.functional.pad(o, (0, width - o.shape[1])) for o in obs]
        return torch.stack(obs, dim=1).float().cpu().numpy()
