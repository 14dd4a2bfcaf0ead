"""Entropy-regularised values over a set of choices: reward minus ``beta`` times the KL divergence from a prior policy.

The equations of ETPO (Wen et al. 2024, arXiv 2402.06700) for one position, choices on the last axis (``V`` words of a
vocabulary). ``beta > 0`` is in units of reward per nat. A choice of prior 0 is not available. The best policy against
Q, ``pi* ∝ rho exp(Q / beta)``, attains ``max_pi sum pi Q - beta KL(pi, rho) = beta log sum rho exp(Q / beta)``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput


def kl(policy: ArrayLike, prior: ArrayLike) -> np.ndarray:
    """``sum_w pi(w) log(pi(w) / rho(w))`` in nats, ``[...]`` from probabilities ``[..., V]``.

    Raises:
        BadInput: the policy has a choice that the prior has not: the divergence is infinite.
    """
    p, rho = np.asarray(policy, dtype=np.float64), np.asarray(prior, dtype=np.float64)
    if ((p > 0.0) & (rho <= 0.0)).any():
        raise BadInput("the policy has a choice of prior 0", expected="KL below infinity", where="formulas.soft.kl")
    ratio = np.where(p > 0.0, p, 1.0) / np.where(p > 0.0, rho, 1.0)
    return np.asarray((p * np.log(ratio)).sum(axis=-1))


def soft_value(policy: ArrayLike, q: ArrayLike, prior: ArrayLike, beta: float) -> np.ndarray:
    """``sum_w pi(w) Q(w) - beta KL(pi, rho)``, ``[...]`` from ``[..., V]``."""
    expected = (np.asarray(policy, dtype=np.float64) * np.asarray(q, dtype=np.float64)).sum(axis=-1)
    return np.asarray(expected - beta * kl(policy, prior))


def soft_best_value(q: ArrayLike, prior: ArrayLike, beta: float) -> np.ndarray:
    """``beta log sum_w rho(w) exp(Q(w) / beta)``: the value of the best policy, ``[...]`` from ``[..., V]``."""
    top, weight = _tilted(q, prior, beta)
    return np.asarray(top[..., 0] + beta * np.log(weight.sum(axis=-1)))


def soft_best_policy(q: ArrayLike, prior: ArrayLike, beta: float) -> np.ndarray:
    """``rho(w) exp(Q(w) / beta)``, normalised: ``[..., V]``."""
    _, weight = _tilted(q, prior, beta)
    return weight / weight.sum(axis=-1, keepdims=True)


def soft_targets(reward_K: ArrayLike, soft_next_K: ArrayLike, last_K: ArrayLike, gamma: float) -> np.ndarray:
    """Targets of Q for tokens that were taken: ``softV(next)`` inside an action, ``r + gamma softV(next)`` at its end.

    ``[K]`` each: the reward of an action on its last token, the soft value of the prefix after each token (0 after the
    end), and whether a token ends its action. ``gamma`` discounts from action to action.
    """
    ahead = np.asarray(soft_next_K, dtype=np.float64)
    return np.where(np.asarray(last_K), np.asarray(reward_K, dtype=np.float64) + gamma * ahead, ahead)


def _tilted(q: ArrayLike, prior: ArrayLike, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """The largest Q of an available choice ``[..., 1]``, and ``rho exp((Q - largest) / beta)`` ``[..., V]``."""
    value, rho = np.broadcast_arrays(np.asarray(q, dtype=np.float64), np.asarray(prior, dtype=np.float64))
    if not beta > 0.0 or not (rho > 0.0).any(axis=-1).all():
        raise BadInput("no best policy", got=f"beta={beta}", expected="beta > 0, a choice of prior > 0", where="soft")
    top = np.where(rho > 0.0, value, -np.inf).max(axis=-1, keepdims=True)
    return top, rho * np.exp(np.minimum(value - top, 0.0) / beta)
