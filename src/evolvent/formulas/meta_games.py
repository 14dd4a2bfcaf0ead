"""Meta-games: what the members of populations earn against each other, and the mixtures that a meta-solver makes of it.

``payoff`` is float64 ``[P, n_0, …, n_{P-1}]``: what each of P players earns where player q plays its member k_q. A
mixture is a tuple of P arrays ``[n_p]`` that sum to 1.

Sources: Lanctot et al. 2017, A unified game-theoretic approach to multiagent RL (arXiv 1711.00832: double oracle,
projected replicator dynamics); Omidshafiei et al. 2019, alpha-rank (arXiv 1903.01373); Balduzzi et al. 2019,
Open-ended learning in symmetric zero-sum games (arXiv 1901.08106: rectified responses).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from evolvent.core.errors import BadInput, optional

Mixture: TypeAlias = tuple[np.ndarray, ...]
PROFILES = 2500
"""The most joint choices that ``alpha_rank`` takes: it solves one dense equation a choice."""


def deviations(payoff: np.ndarray, mixture: Sequence[np.ndarray], player: int) -> np.ndarray:
    """What each member of ``player`` earns against the others' mixture, ``[n_player]``."""
    found = payoff[player]
    for other in range(len(mixture) - 1, -1, -1):
        if other != player:
            found = np.tensordot(found, mixture[other], axes=(other, 0))
    return found


def values(payoff: np.ndarray, mixture: Sequence[np.ndarray]) -> np.ndarray:
    """What each player earns under the mixture, ``[P]``."""
    return np.array([mixture[p] @ deviations(payoff, mixture, p) for p in range(len(mixture))])


def uniform(payoff: np.ndarray) -> Mixture:
    """Every member alike: fictitious self-play."""
    return tuple(np.full(n, 1.0 / n) for n in payoff.shape[1:])


def last(payoff: np.ndarray) -> Mixture:
    """The newest member alone: self-play."""
    return tuple(np.eye(n)[-1] for n in payoff.shape[1:])


def nash(payoff: np.ndarray) -> Mixture:
    """A Nash equilibrium of a zero-sum game of two, by one linear programme a player (HiGHS).

        max v  where  sum_i x_i A_ij >= v for all j,  x on the simplex

    Raises:
        BadInput: another number of players, or payoffs that do not sum to 0.
    """
    if len(payoff) != 2 or np.abs(payoff.sum(axis=0)).max() > 1e-6:
        got = f"{len(payoff)} players" if len(payoff) != 2 else f"sums up to {np.abs(payoff.sum(axis=0)).max():.3g}"
        expected, do = "two players whose payoffs sum to 0", "--solver alpha_rank, replicator or uniform"
        raise BadInput("nash is of zero-sum games of two", got=got, expected=expected, where="--solver", do=do)
    return _maximin(payoff[0]), _maximin(payoff[1].T)


def _maximin(own_NM: np.ndarray) -> np.ndarray:
    """The mixture over rows whose worst column is best."""
    n, m = own_NM.shape
    if m == 1:  # nothing to hide
        return np.eye(n)[own_NM[:, 0].argmax()]
    programme: Any = optional("scipy.optimize", "games", "formulas.meta_games.nash")
    found = programme.linprog(
        np.r_[np.zeros(n), -1.0],
        A_ub=np.c_[-own_NM.T, np.ones(m)],
        b_ub=np.zeros(m),
        A_eq=np.r_[np.ones(n), 0.0][None],
        b_eq=[1.0],
        bounds=[*[(0.0, None)] * n, (None, None)],
        method="highs",
    )
    if found.status != 0:
        raise BadInput("the linear programme of the meta-game has no solution", got=found.message, where="nash")
    return _normalised(found.x[:n])


def _normalised(x_N: np.ndarray) -> np.ndarray:
    x_N = np.where(x_N > 1e-9, x_N, 0.0)
    return x_N / x_N.sum()


def replicator(payoff: np.ndarray, *, floor: float = 0.0, steps: int = 10_000, dt: float = 0.02) -> Mixture:
    """The mean over time of replicator dynamics from the uniform mixture; projected where ``floor`` is above 0.

        x_i <- project[ x_i + dt x_i (u_i - x.u) ]      onto the simplex with x_i >= floor / n

    Payoffs are scaled to a range of 1, so ``dt`` needs no unit.
    """
    width = float(np.ptp(payoff)) or 1.0
    now, total = list(uniform(payoff)), [np.zeros(n) for n in payoff.shape[1:]]
    for _ in range(steps):
        gains = [deviations(payoff, now, p) / width for p in range(len(now))]
        for p, u in enumerate(gains):
            x = now[p] * (1.0 + dt * (u - now[p] @ u))
            now[p] = _projected(x, floor / len(x)) if floor else x / x.sum()
            total[p] += now[p]
    return tuple(x / x.sum() for x in total)


def projected(payoff: np.ndarray) -> Mixture:
    """Projected replicator dynamics; every member keeps at least a hundredth of its uniform share."""
    return replicator(payoff, floor=0.01)


def _projected(x_N: np.ndarray, least: float) -> np.ndarray:
    """The nearest point of the simplex with every entry at least ``least``."""
    room, down_N = 1.0 - least * len(x_N), np.sort(x_N - least)[::-1]
    excess_N = (np.cumsum(down_N) - room) / np.arange(1, len(x_N) + 1)
    return np.maximum(x_N - least - excess_N[np.flatnonzero(down_N > excess_N)[-1]], 0.0) + least


def alpha_rank(payoff: np.ndarray, *, slip: float = 0.01) -> Mixture:
    """Marginals of alpha-rank in the limit of strong selection, for any number of players and any payoffs.

    From each joint choice one player moves to another member with probability ``eta (1 - slip)`` where that pays it
    more, ``eta / 2`` where it pays the same, ``eta slip`` where it pays less; ``eta`` = 1 / (number of such moves).

    Raises:
        BadInput: more than ``PROFILES`` joint choices.
    """
    sizes = payoff.shape[1:]
    number, players = int(np.prod(sizes)), len(sizes)
    if number > PROFILES:
        raise BadInput("too many joint choices for alpha-rank", got=number, expected=f"at most {PROFILES}")
    moves = sum(sizes) - players
    if not moves:
        return uniform(payoff)
    at = np.arange(number).reshape(sizes)
    flow_SS = np.zeros((number, number))
    for p in range(players):
        place = np.moveaxis(at, p, -1).reshape(-1, sizes[p])
        earned = np.moveaxis(payoff[p], p, -1).reshape(-1, sizes[p])
        gain = earned[:, None, :] - earned[:, :, None]  # [the others' choices, from, to]
        rate = np.where(np.isclose(gain, 0.0), 0.5, np.where(gain > 0, 1.0 - slip, slip)) / moves
        flow_SS[place[:, :, None], place[:, None, :]] += rate * ~np.eye(sizes[p], dtype=bool)
    balance_SS = flow_SS.T - np.diag(flow_SS.sum(axis=1))
    balance_SS[0] = 1.0  # the shares sum to 1, in place of an equation that follows from the others
    share = np.asarray(np.linalg.solve(balance_SS, np.eye(number)[0]), np.float64).reshape(sizes)
    return tuple(_normalised(share.sum(axis=tuple(q for q in range(players) if q != p))) for p in range(players))


SOLVERS = {one.__name__: one for one in (nash, uniform, last, replicator, projected, alpha_rank)}


def rectified(payoff: np.ndarray, mixture: Sequence[np.ndarray], player: int) -> list[np.ndarray]:
    """For each member in the mixture of a game of two: the other's members that it beats, by weight and margin.

    w_j  ~  sigma_j max(0, u(k, j) - value)      sigma itself where it beats none
    """
    own, other = mixture[player], mixture[1 - player]
    table = payoff[player] if player == 0 else payoff[player].T
    value = float(own @ table @ other)
    weights = [other * np.maximum(0.0, table[k] - value) for k in np.flatnonzero(own > 0)]
    return [w / w.sum() if w.sum() > 1e-12 else other for w in weights]
