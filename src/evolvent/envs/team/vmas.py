"""VMAS: particle, robot and football scenarios that torch computes for all copies at once.

Bettini et al., "VMAS: A Vectorized Multi-Agent Simulator for Collective Robot Learning", 2022. Variants are its
scenarios: simple_spread, balance, navigation, transport, dispersion, flocking, discovery, football, …
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, EnvError, closest, missing_extra
from evolvent.core.team import Frame
from evolvent.envs.runners.solo import affine, team_of
from evolvent.envs.team._display import can_draw


def make_team(
    variant: str = "simple_spread",
    *,
    n_envs: int,
    n: int = 0,
    continuous: bool = True,
    limit: int = 100,
    device: str = "cpu",
) -> Vmas:
    """``n_envs`` copies of a scenario with ``n`` agents (0 = its own number), computed on ``device``."""
    try:
        import vmas
    except ImportError as err:
        raise missing_extra("vmas", "vmas", "envs.vmas") from err
    known = sorted({*vmas.scenarios, *vmas.mpe_scenarios, *vmas.debug_scenarios})
    if variant not in known or limit < 1:
        raise BadInput("scenario", got=f"{variant}, limit={limit}", expected=closest(variant, known), where="vmas")
    options: dict[str, Any] = {"n_agents": n} if n else {}
    try:
        env: Any = vmas.make_env(
            variant, n_envs, device, continuous, max_steps=limit, seed=0, terminated_truncated=True, **options
        )
    except (RuntimeError, AssertionError, ValueError, TypeError) as err:
        raise EnvError("the scenario does not start", got=repr(err), where=f"vmas:{variant} on {device}") from err
    if n and len(env.agents) != n:
        raise BadInput(
            "this scenario has its own number of agents", got=f"n={n}", expected=len(env.agents), where="vmas"
        )
    return Vmas(env, limit)


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
