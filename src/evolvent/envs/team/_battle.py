"""One battle of SMAX as functions that jax maps over all copies and compiles."""

from __future__ import annotations

from typing import Any

import numpy as np


def start(env: Any, key: Any) -> tuple[Any, dict[str, Any]]:
    """A new battle and what is seen of it."""
    _, battle = env.reset(key)
    return battle, _look(env, battle)


def advance(env: Any, limit: int, key: Any, battle: Any, action_A: Any) -> tuple[Any, ...]:
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


def to_numpy(columns: dict[str, Any]) -> dict[str, Any]:
    """Columns as float32 or bool arrays that may be written to."""
    out = {name: np.array(column) for name, column in columns.items()}  # a copy: views of jax are read-only
    return {name: column if column.dtype == np.bool_ else column.astype(np.float32) for name, column in out.items()}
