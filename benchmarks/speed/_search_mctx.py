"""The toy game of ``bench search`` in mctx (arXiv 2104.06303, github.com/google-deepmind/mctx), where JAX is there.

*Compiled*: game and tree are one XLA program, what mctx is made for. *Called*: the same tree asks Python for the
values, as it would have to ask a language model, a jailed program or an environment of this library. Compiling is not
counted.
"""

import functools
import importlib.util
import time
from typing import Any

import numpy as np

there = importlib.util.find_spec("mctx") is not None and importlib.util.find_spec("jax") is not None


def toy(trees: int, values: np.ndarray, simulations: int, *, called: bool) -> float:
    """Simulations a CPU second, all trees together.

    Args:
        trees: searched side by side, ``B``.
        values: of the game's states, float64 ``[2**16]``.
        simulations: of each tree.
        called: the values come from Python.
    """
    import jax
    import jax.numpy as jnp
    import mctx

    table_V = jnp.asarray(values, jnp.float32)
    shape = jax.ShapeDtypeStruct((trees,), jnp.float32)

    def look(node_B: Any) -> Any:
        return values[np.asarray(node_B)].astype(np.float32)

    def step(params: Any, key: Any, action_B: Any, state: Any) -> Any:
        depth_B, node_B = state[0] + 1, (2 * state[1] + action_B + 1) & (len(values) - 1)
        value_B = jax.pure_callback(look, shape, node_B) if called else table_V[node_B]
        out = mctx.RecurrentFnOutput(
            reward=jnp.zeros(trees),
            discount=jnp.where(depth_B >= 8, 0.0, 1.0),
            prior_logits=jnp.zeros((trees, 2)),
            value=value_B,
        )
        return out, (depth_B, node_B)

    @jax.jit
    def search(key: Any) -> Any:
        zeros = jnp.zeros(trees, jnp.int32)
        root = mctx.RootFnOutput(prior_logits=jnp.zeros((trees, 2)), value=jnp.zeros(trees), embedding=(zeros, zeros))
        rule = functools.partial(mctx.muzero_policy, num_simulations=simulations, dirichlet_fraction=0.0)
        return rule((), key, root, step).action_weights

    search(jax.random.PRNGKey(0)).block_until_ready()
    began = time.process_time()
    search(jax.random.PRNGKey(1)).block_until_ready()
    return simulations * trees / (time.process_time() - began)
