"""Returns and advantages over time: discounted, lambda, GAE.

Arrays are time first, ``[T, ...]``, with any trailing axes (batch, agents). Two flags end an attempt and differ:

- ``terminated``: the task is over, nothing follows, the next value counts 0;
- ``truncated``: the attempt was cut off (time limit). The next value still counts, and must be the value of the
  observation the attempt *stopped at*, not of the observation after an automatic reset.

Both cut the trace, so that one attempt never borrows from the next one in the same column. ``gamma`` and ``trace``
are scalars or arrays that broadcast against ``[T, ...]`` (per-step discounts, e.g. for actions of different length).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput


def discounted(
    reward_T: ArrayLike,
    *,
    gamma: ArrayLike = 1.0,
    terminated_T: ArrayLike | None = None,
    truncated_T: ArrayLike | None = None,
    next_value_T: ArrayLike | None = None,
) -> np.ndarray:
    """Reward to go ``G_t = r_t + gamma_t G_{t+1}``, float64 ``[T, ...]``; ``gamma`` is the discount from t to t+1.

    Nothing is added after a terminated step; after a truncated one, and behind the last, the value of the next
    observation (``next_value_T``, ``None`` = 0) is.
    """
    zeros = np.zeros(np.shape(reward_T))
    return lambda_returns(
        reward_T,
        zeros if next_value_T is None else next_value_T,
        gamma=gamma,
        gae_lambda=1.0,
        terminated_T=terminated_T,
        truncated_T=truncated_T,
    )


def lambda_returns(
    reward_T: ArrayLike,
    next_value_T: ArrayLike,
    *,
    gamma: ArrayLike,
    gae_lambda: ArrayLike,
    terminated_T: ArrayLike | None = None,
    truncated_T: ArrayLike | None = None,
) -> np.ndarray:
    """``G_t = r_t + gamma_t [(1 - trace_t) V(s_{t+1}) + trace_t G_{t+1}]`` (Sutton & Barto, ch. 12), ``[T, ...]``.

    ``gae_lambda = 1`` is the discounted return, ``0`` the one-step target. Beyond the last row the value stands in for
    the return, as after a truncation.
    """
    r, v_next, g, lam, live, whole = _align(reward_T, next_value_T, gamma, gae_lambda, terminated_T, truncated_T)
    out, decay = np.empty_like(r), lam * whole
    ahead = v_next[-1] if len(r) else 0.0
    v_next = np.where(decay == 1.0, 0.0, v_next)  # not read there, and so may be unknown (NaN)
    for t in range(len(r) - 1, -1, -1):
        out[t] = r[t] + g[t] * live[t] * ((1.0 - decay[t]) * v_next[t] + decay[t] * ahead)
        ahead = out[t]
    return out


def gae(
    reward_T: ArrayLike,
    value_T: ArrayLike,
    next_value_T: ArrayLike,
    *,
    gamma: ArrayLike,
    gae_lambda: ArrayLike,
    terminated_T: ArrayLike | None = None,
    truncated_T: ArrayLike | None = None,
) -> np.ndarray:
    """Generalised advantage estimate (Schulman et al. 2016, arXiv 1506.02438), float64 ``[T, ...]``.

    ``delta_t = r_t + gamma_t V(s_{t+1}) - V(s_t)``; ``A_t = delta_t + gamma_t trace_t A_{t+1}``. ``V(s_{t+1})`` is 0
    after termination; the sum is cut after termination and after truncation. ``A + value_T`` is the critic's target.
    Without truncations inside the array ``next_value_T`` is ``value_T`` shifted by one, with the bootstrap value last.
    """
    r, v_next, g, lam, live, whole = _align(reward_T, next_value_T, gamma, gae_lambda, terminated_T, truncated_T)
    delta = r + g * live * v_next - _like(value_T, r.shape, "value_T")
    carry = g * lam * live * whole
    if r.ndim == 1:
        # the same in plain floats: several times faster than numpy's, which matters for thousands of tokens
        back, so_far = list[float](), 0.0
        for d, c in zip(delta[::-1].tolist(), carry[::-1].tolist(), strict=True):
            so_far = d + c * so_far
            back.append(so_far)
        return np.array(back[::-1], dtype=np.float64)
    out = np.empty_like(r)
    ahead: np.ndarray | float = 0.0
    for t in range(len(r) - 1, -1, -1):
        out[t] = delta[t] + carry[t] * ahead
        ahead = out[t]
    return out


def _align(
    reward_T: ArrayLike,
    next_value_T: ArrayLike,
    gamma: ArrayLike,
    gae_lambda: ArrayLike,
    terminated_T: ArrayLike | None,
    truncated_T: ArrayLike | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Everything as float64 of the reward's shape; ``live`` = not terminated, ``whole`` = the trace is not cut.

    After termination the next value is 0, also where it is NaN: nobody has a value of what is not there.
    """
    r = np.asarray(reward_T, dtype=np.float64)
    if r.ndim == 0:
        raise BadInput("rewards need a time axis", got=float(r), expected="[T, ...]", where="formulas.returns")
    over = _like(0.0 if terminated_T is None else terminated_T, r.shape, "terminated_T")
    cut = _like(0.0 if truncated_T is None else truncated_T, r.shape, "truncated_T")
    live = 1.0 - over
    return (
        r,
        np.where(live, _like(next_value_T, r.shape, "next_value_T"), 0.0),
        _like(gamma, r.shape, "gamma"),
        _like(gae_lambda, r.shape, "gae_lambda"),
        live,
        live * (1.0 - cut),
    )


def _like(x: ArrayLike, shape: tuple[int, ...], name: str) -> np.ndarray:
    """``x`` broadcast to ``shape``; a vector ``[T]`` spreads over the trailing axes."""
    a = np.asarray(x, dtype=np.float64)
    if a.shape == shape:
        return a
    if a.ndim == 0:  # much cheaper than broadcasting, for the many short sequences of an update
        return np.full(shape, a)
    if a.ndim < len(shape) and a.shape == shape[: a.ndim]:
        a = a.reshape(a.shape + (1,) * (len(shape) - a.ndim))
    if a.ndim != len(shape) or any(n not in (1, m) for n, m in zip(a.shape, shape, strict=True)):
        raise BadInput(f"{name} does not fit the rewards", got=a.shape, expected=shape, where="formulas.returns")
    return np.broadcast_to(a, shape)
