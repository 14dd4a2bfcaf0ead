"""SMAX (JaxMARL): battles like those of StarCraft, computed by jax for all copies at once.

Rutherford et al., "JaxMARL: Multi-Agent RL Environments and Algorithms in JAX", 2023, against its scripted enemy.
Variants are its maps: 3m, 2s3z, 3s5z, 8m, 5m_vs_6m, 27m_vs_30m, smacv2_5_units, … Units die (``active_BA``), and a unit
may only shoot at what is in range (``available_BAN``). A battle won or lost terminates, the limit truncates.
"""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, closest, missing_extra
from evolvent.core.team import ActionSpec, Frame, TeamSpec


def make_team(variant: str = "3m", *, n_envs: int, limit: int = 100) -> Smax:
    """``n_envs`` copies of a map, battles of at most ``limit`` steps."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave room on the GPU for torch
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # at import it reports what it did not find
            from jaxmarl.environments.smax import HeuristicEnemySMAX
            from jaxmarl.environments.smax.smax_env import MAP_NAME_TO_SCENARIO as MAPS
    except ImportError as err:
        raise missing_extra("jaxmarl", "jax", "envs.smax") from err
    if variant not in MAPS or limit < 1:
        raise BadInput("map", got=f"{variant}, limit={limit}", expected=closest(variant, list(MAPS)), where="smax")
    return Smax(HeuristicEnemySMAX(scenario=MAPS[variant], max_steps=limit), n_envs, limit)


class Smax:
    """All copies as one ``TeamEnv``; one compiled call a step, restarts included."""

    name = ""

    def __init__(self, env: Any, n_envs: int, limit: int) -> None:
        import jax

        self.n_envs, n = n_envs, env.num_allies
        spec = ActionSpec(choices=env.num_ally_actions)
        self.team = TeamSpec(tuple(env.agents), env.obs_size, (spec,) * n, state_dim=env.state_size, limit=limit)
        self._start = jax.jit(jax.vmap(lambda key: _start(env, key)))
        self._advance = jax.jit(jax.vmap(lambda key, state, action_A: _advance(env, limit, key, state, action_A)))
        self._keys, self._battle = None, None

    def reset(self, seed: int) -> Frame:
        """See ``TeamEnv.reset``."""
        import jax

        self._keys = jax.random.split(jax.random.PRNGKey(seed & 0x7FFFFFFF), self.n_envs)
        self._battle, seen = self._start(self._keys)
        no_B = np.zeros(self.n_envs, np.bool_)
        zero_BA = np.zeros((self.n_envs, self.team.n_agents), np.float32)
        return Frame(reward_BA=zero_BA, terminated_B=no_B, truncated_B=no_B.copy(), **_to_numpy(seen))

    def step(self, action: np.ndarray) -> Frame:
        """See ``TeamEnv.step``."""
        self._keys, self._battle, seen, last, won_B = self._advance(self._keys, self._battle, action.astype(np.int32))
        seen = _to_numpy(seen)
        done_B = seen["terminated_B"] | seen["truncated_B"]
        if not done_B.any():
            return Frame(**seen)
        success_B = np.where(done_B, np.asarray(won_B, np.float32), np.float32(np.nan))
        return Frame(**seen, **_to_numpy(last), info={"success": success_B})

    def render(self) -> None:
        """Its pictures need matplotlib and a recorded battle."""

    def close(self) -> None:
        """Nothing is held."""


# ------------------------------------------------------------------------------------------------ one battle
# functions that jax maps over all copies and compiles
def _start(env: Any, key: Any) -> tuple[Any, dict[str, Any]]:
    """A new battle and what is seen of it."""
    _, battle = env.reset(key)
    return battle, _look(env, battle)


def _advance(env: Any, limit: int, key: Any, battle: Any, action_A: Any) -> tuple[Any, ...]:
    """One step, and a new battle where it ended: key, battle, what is seen, what was seen last, whether it was won."""
    import jax
    import jax.numpy as jnp

    key, step_key, start_key = jax.random.split(key, 3)
    actions = {agent: action_A[i] for i, agent in enumerate(env.agents)}
    _, moved, reward, _, _ = env.step_env(step_key, battle, actions)
    alive = moved.state.unit_alive
    won, lost = ~alive[env.num_allies :].any(), ~alive[: env.num_allies].any()
    over = won | lost
    cut = (moved.state.step >= limit) & ~over
    _, fresh = env.reset(start_key)
    after = jax.tree.map(lambda new, old: jnp.where(over | cut, new, old), fresh, moved)
    last = {f"final_{name}": column for name, column in _look(env, moved).items()}
    reward_A = jnp.stack([reward[agent] for agent in env.agents])
    seen = _look(env, after) | {"reward_BA": reward_A, "terminated_B": over, "truncated_B": cut}
    return key, after, seen, last, won & ~lost


def _look(env: Any, battle: Any) -> dict[str, Any]:
    import jax.numpy as jnp

    obs, available = env.get_obs(battle), env.get_avail_actions(battle)
    return {
        "obs_BAD": jnp.stack([obs[agent] for agent in env.agents]),
        "available_BAN": jnp.stack([available[agent] for agent in env.agents]).astype(bool),
        "active_BA": battle.state.unit_alive[: env.num_allies],
        "state_BS": env.get_world_state(battle),
    }


def _to_numpy(columns: dict[str, Any]) -> dict[str, Any]:
    """Columns as float32 or bool arrays that may be written to."""
    out = {name: np.array(column) for name, column in columns.items()}  # a copy: views of jax are read-only
    return {name: column if column.dtype == np.bool_ else column.astype(np.float32) for name, column in out.items()}
