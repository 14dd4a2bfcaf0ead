"""Who contributed what to a joint result: Shapley and Banzhaf values, interactions, exact or by sampled orders.

A game over n players is a table ``v_M`` of ``M = 2^n`` numbers: row ``mask`` is the worth of the coalition whose
members are the set bits of ``mask`` (bit i = player i). Further axes (e.g. one column per task, for a paired
bootstrap) are carried along, since every value here is linear in the game.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput


def tabulate(
    players: Sequence[str], worth: Mapping[frozenset[str], float] | Callable[[frozenset[str]], float]
) -> np.ndarray:
    """The table ``v_M`` float64 ``[2^n]`` of a game given as a mapping or a function of coalitions.

    Raises:
        BadInput: more than 20 players; repeated names; a coalition without a worth. It never counts as 0: an
            unmeasured coalition would be credited or blamed.
    """
    n = len(players)
    if n > 20 or len(set(players)) != n:
        raise BadInput(
            "players must be at most 20 different names", got=list(players), where="formulas.coalitions.tabulate"
        )
    v = np.empty(1 << n)
    for mask in range(1 << n):
        members = frozenset(p for i, p in enumerate(players) if mask >> i & 1)
        if callable(worth):
            v[mask] = worth(members)
        elif members in worth:
            v[mask] = worth[members]
        else:
            raise BadInput(
                "a coalition was never measured",
                got=sorted(members),
                expected=f"all {1 << n} coalitions of {list(players)}",
                where="formulas.coalitions.tabulate",
                do="run the missing coalition, or use sampled_shapley with a function that runs it",
            )
    return v


def shapley(v_M: ArrayLike) -> np.ndarray:
    """Shapley values ``[n, ...]``: ``sum_S |S|! (n-|S|-1)! / n! (v(S+i) - v(S))``; they sum to ``v(all) - v(none)``."""
    v, n = _game(v_M)
    return _semivalue(v, n, [1.0 / (n * math.comb(n - 1, s)) for s in range(n)])


def banzhaf(v_M: ArrayLike) -> np.ndarray:
    """Banzhaf values ``[n, ...]``: the plain mean of ``v(S+i) - v(S)``; in general they do not sum to the gain."""
    v, n = _game(v_M)
    return _semivalue(v, n, [0.5 ** (n - 1)] * n)


def leave_one_out(v_M: ArrayLike) -> np.ndarray:
    """What is lost without player i, ``v(all) - v(all - i)``, ``[n, ...]``."""
    v, n = _game(v_M)
    everyone = (1 << n) - 1
    return np.stack([v[everyone] - v[everyone ^ (1 << i)] for i in range(n)])


def interactions(v_M: ArrayLike) -> np.ndarray:
    """Shapley interaction of every pair, symmetric ``[n, n, ...]`` with a zero diagonal (Grabisch & Roubens 1999).

    ``I_ij = sum_S |S|! (n-|S|-2)! / (n-1)! [v(S+i+j) - v(S+i) - v(S+j) + v(S)]``: positive = more together.
    """
    v, n = _game(v_M)
    masks = np.arange(1 << n)
    size = _bits(masks)
    out = np.zeros((n, n, *v.shape[1:]))
    for i in range(n):
        for j in range(i + 1, n):
            bi, bj = 1 << i, 1 << j
            rest = masks[(masks & (bi | bj)) == 0]
            weight = np.array([1.0 / ((n - 1) * math.comb(n - 2, s)) for s in range(n - 1)])[size[rest]]
            joint = v[rest | bi | bj] - v[rest | bi] - v[rest | bj] + v[rest]
            out[i, j] = out[j, i] = np.tensordot(weight, joint, axes=1)
    return out


class SampledShapley(NamedTuple):
    """Estimate ``values`` ``[n]``, standard error ``[n]`` (NaN from one draw), orders used, coalitions evaluated."""

    values: np.ndarray
    stderr: np.ndarray
    permutations: int
    evaluations: int


def sampled_shapley(
    worth: Callable[[Collection[int]], float],
    n: int,
    *,
    permutations: int,
    seed: int = 0,
    antithetic: bool = True,
    tolerance: float | None = None,
) -> SampledShapley:
    """Shapley values from random orders of the players: each order credits its increments (Castro et al. 2009).

    With ``antithetic`` every order is followed by its reverse, which is exact for games without synergies of three
    or more (Mitchell et al. 2022). Each coalition is evaluated once. The estimates sum to ``v(all) - v(none)``.

    Args:
        worth: worth of a coalition, given as a frozenset of player numbers; called once per coalition.
        n: number of players.
        permutations: orders at most (a reverse counts as one); rounded up to even with ``antithetic``.
        seed: of the orders.
        antithetic: follow each order by its reverse.
        tolerance: stop when no 95 % half-width (1.96 standard errors, at least 16 draws) exceeds it.
    """
    if n < 1 or permutations < 1:
        raise BadInput("sampled_shapley needs players and orders", got=(n, permutations), where="formulas.coalitions")
    rng = np.random.default_rng(seed)
    known: dict[frozenset[int], float] = {}

    def increments(order: Sequence[int]) -> np.ndarray:
        phi, members = np.zeros(n), frozenset[int]()
        before = _remember(known, worth, members)
        for i in order:
            members = members | {i}
            after = _remember(known, worth, members)
            phi[i], before = after - before, after
        return phi

    total, squares, draws, used = np.zeros(n), np.zeros(n), 0, 0
    stderr = np.full(n, np.nan)
    while used < permutations:
        order = [int(i) for i in rng.permutation(n)]
        phi = increments(order)
        if antithetic:
            phi = (phi + increments(order[::-1])) / 2  # a pair is one draw: its two halves are not independent
        used += 2 if antithetic else 1
        draws += 1
        total, squares = total + phi, squares + phi**2
        if draws > 1:
            spread = np.maximum(squares - total**2 / draws, 0.0) / (draws - 1)
            stderr = np.sqrt(spread / draws)
            if tolerance is not None and draws >= 16 and float(1.96 * stderr.max()) <= tolerance:
                break
    return SampledShapley(total / draws, stderr, used, len(known))


def _remember(
    known: dict[frozenset[int], float], worth: Callable[[Collection[int]], float], members: frozenset[int]
) -> float:
    if members not in known:
        known[members] = float(worth(members))
    return known[members]


def _game(v_M: ArrayLike) -> tuple[np.ndarray, int]:
    v = np.asarray(v_M, dtype=np.float64)
    n = len(v).bit_length() - 1 if v.ndim else 0
    if n < 1 or len(v) != 1 << n or n > 20:
        raise BadInput("a game is a table of 2^n worths, 1 <= n <= 20", got=v.shape, where="formulas.coalitions")
    return v, n


def _bits(masks: np.ndarray) -> np.ndarray:
    return np.array([int(m).bit_count() for m in masks])


def _semivalue(v: np.ndarray, n: int, weight_by_size: Sequence[float]) -> np.ndarray:
    masks = np.arange(1 << n)
    weight = np.array([*weight_by_size, 0.0])[_bits(masks)]
    out = np.empty((n, *v.shape[1:]))
    for i in range(n):
        without = masks[(masks >> i & 1) == 0]
        out[i] = np.tensordot(weight[without], v[without | (1 << i)] - v[without], axes=1)
    return out
