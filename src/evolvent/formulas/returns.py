"""Returns and advantages over time: discounted, n-step, lambda, GAE, V-trace.

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
    """Reward to go ``G_t = r_t + gamma_t G_{t+1}``, float64 ``[T, ...]``.

    Args:
        reward_T: ``[T, ...]``.
        gamma: discount from step t to t+1.
        terminated_T: bool ``[T, ...]``; nothing is added after such a step.
        truncated_T: bool ``[T, ...]``; the next value is added, the sum is cut.
        next_value_T: value of the observation after each step; read where truncated and after the last step.
            ``None`` is 0 everywhere.
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
    out = np.empty_like(r)
    ahead = v_next[-1] if len(r) else 0.0
    for t in range(len(r) - 1, -1, -1):
        keep = lam[t] * whole[t]
        out[t] = r[t] + g[t] * live[t] * ((1.0 - keep) * v_next[t] + keep * ahead)
        ahead = out[t]
    return out


def n_step(
    reward_T: ArrayLike,
    next_value_T: ArrayLike,
    n: int,
    *,
    gamma: ArrayLike,
    terminated_T: ArrayLike | None = None,
    truncated_T: ArrayLike | None = None,
) -> np.ndarray:
    """``n`` rewards, then the value: ``r_t + … + gamma^(n-1) r_{t+n-1} + gamma^n V(s_{t+n})``, ``[T, ...]``.

    Fewer rewards where the attempt or the array ends first.
    """
    if n < 1:
        raise BadInput("n_step needs n >= 1", got=n, where="formulas.returns.n_step")
    r, v_next, g, _, live, whole = _align(reward_T, next_value_T, gamma, 1.0, terminated_T, truncated_T)
    out = r + g * live * v_next  # one step
    for _ in range(min(n, len(r)) - 1):
        # one reward more in front of the return that starts a step later, wherever the attempt goes on
        longer = r[:-1] + g[:-1] * live[:-1] * (whole[:-1] * out[1:] + (1.0 - whole[:-1]) * v_next[:-1])
        out = np.concatenate([longer, out[-1:]])
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

    Args:
        reward_T: ``[T, ...]``.
        value_T: value of the observation before each step.
        next_value_T: value of the observation after each step. Without truncations inside the array this is
            ``value_T`` shifted by one, with the bootstrap value last.
        gamma: discount, scalar or per step.
        gae_lambda: lambda, scalar or per step (the trace from t to t+1).
        terminated_T: bool; see the module.
        truncated_T: bool; see the module.
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


def vtrace(
    reward_T: ArrayLike,
    value_T: ArrayLike,
    next_value_T: ArrayLike,
    log_ratio_T: ArrayLike,
    *,
    gamma: ArrayLike,
    gae_lambda: ArrayLike = 1.0,
    clip_rho: float = 1.0,
    clip_c: float = 1.0,
    clip_advantage: float | None = None,
    terminated_T: ArrayLike | None = None,
    truncated_T: ArrayLike | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """V-trace targets and policy-gradient advantages (Espeholt et al. 2018, arXiv 1802.01561, eq. 1).

    ``v_t = V_t + delta_t + gamma_t c_t (v_{t+1} - V_{t+1})`` with ``delta_t = rho_t (r_t + gamma_t V_{t+1} - V_t)``,
    ``rho = min(clip_rho, pi/mu)``, ``c = trace min(clip_c, pi/mu)``; the advantage is
    ``rho^A_t (r_t + gamma_t v_{t+1} - V_t)``. On policy with both clips >= 1, v is the lambda-return.

    Args:
        reward_T: ``[T, ...]``.
        value_T: value before each step.
        next_value_T: value after each step.
        log_ratio_T: ``log pi(a|s) - log mu(a|s)``, target minus behaviour, nats.
        gamma: discount, scalar or per step.
        gae_lambda: lambda, scalar or per step.
        clip_rho: bound of the ratio in delta; decides what v converges to.
        clip_c: bound of the ratio in the trace; decides variance only.
        clip_advantage: bound of the ratio in the advantage; default ``clip_rho``.
        terminated_T: bool; see the module.
        truncated_T: bool; see the module.

    Returns:
        ``(v_T, advantage_T)``, float64 ``[T, ...]``.
    """
    r, v_next, g, lam, live, whole = _align(reward_T, next_value_T, gamma, gae_lambda, terminated_T, truncated_T)
    v = _like(value_T, r.shape, "value_T")
    ratio = np.exp(_like(log_ratio_T, r.shape, "log_ratio_T"))
    delta = np.minimum(clip_rho, ratio) * (r + g * live * v_next - v)
    carry = g * live * whole * lam * np.minimum(clip_c, ratio)
    target, target_next = np.empty_like(r), v_next.copy()
    ahead: np.ndarray | float = 0.0
    for t in range(len(r) - 1, -1, -1):
        ahead = delta[t] + carry[t] * ahead
        target[t] = v[t] + ahead
    if len(r) > 1:
        # where the attempt goes on, the corrected target of the next step; where it was cut, the plain value
        target_next[:-1] = np.where(whole[:-1] > 0, target[1:], v_next[:-1])
    rho_a = np.minimum(clip_rho if clip_advantage is None else clip_advantage, ratio)
    return target, rho_a * (r + g * live * target_next - v)


def _align(
    reward_T: ArrayLike,
    next_value_T: ArrayLike,
    gamma: ArrayLike,
    gae_lambda: ArrayLike,
    terminated_T: ArrayLike | None,
    truncated_T: ArrayLike | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Everything as float64 of the reward's shape; ``live`` = not terminated, ``whole`` = the trace is not cut."""
    r = np.asarray(reward_T, dtype=np.float64)
    if r.ndim == 0:
        raise BadInput("rewards need a time axis", got=float(r), expected="[T, ...]", where="formulas.returns")
    over = _like(0.0 if terminated_T is None else terminated_T, r.shape, "terminated_T")
    cut = _like(0.0 if truncated_T is None else truncated_T, r.shape, "truncated_T")
    live = 1.0 - over
    return (
        r,
        _like(next_value_T, r.shape, "next_value_T"),
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
