"""Who contributed what to a joint result: Shapley and Banzhaf values, interactions, and what they are compared with.

A game over n players is a table ``v_M`` of ``M = 2^n`` numbers: row ``mask`` is the worth of the coalition whose
members are the set bits of ``mask`` (bit i = player i). Further axes (e.g. one column per task, for a paired
bootstrap) are carried along, since every value here is linear in the game. Where not all coalitions can be measured,
``antithetic_orders`` says which to measure, and ``shapley_of_measured`` takes what was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

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
                do="run the missing coalition",
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


def interactions(v_M: ArrayLike) -> np.ndarray:
    """Shapley interaction indices ``[n, n, ...]``, symmetric, 0 on the diagonal: what two players are worth together
    beyond what each adds alone.

        I_ij = sum_{S without i, j} |S|! (n-|S|-2)! / (n-1)! [v(S+i+j) - v(S+i) - v(S+j) + v(S)]

    Source: Grabisch and Roubens 1999, An axiomatic approach to the concept of interaction among players.
    """
    v, n = _game(v_M)
    masks = np.arange(1 << n)
    size_M = _bits(masks)
    out = np.zeros((n, n, *v.shape[1:]))
    for i in range(n):
        for j in range(i):
            both = 1 << i | 1 << j
            rest = masks[(masks & both) == 0]
            weight = np.array([1 / ((n - 1) * math.comb(n - 2, s)) for s in size_M[rest]])
            gain = v[rest | both] - v[rest | 1 << i] - v[rest | 1 << j] + v[rest]
            out[i, j] = out[j, i] = np.tensordot(weight, gain, axes=1)
    return out


def leave_one_out(v_M: ArrayLike) -> np.ndarray:
    """What is lost without each player, ``v(all) - v(all - i)``: ``[n, ...]``."""
    v, n = _game(v_M)
    return np.stack([v[-1] - v[len(v) - 1 - (1 << i)] for i in range(n)])


def first_in(v_M: ArrayLike) -> np.ndarray:
    """What each player adds alone, ``v({i}) - v(none)``: ``[n, ...]``."""
    v, n = _game(v_M)
    return np.stack([v[1 << i] - v[0] for i in range(n)])


def additive(v_M: ArrayLike) -> np.ndarray:
    """What each coalition would be worth if Shapley values added up, ``v(none) + sum_{i in S} phi_i``: ``[2^n, ...]``.

    For none and for all it is the worth itself.
    """
    v, n = _game(v_M)
    in_MN = np.arange(1 << n)[:, None] >> np.arange(n) & 1
    return v[0] + np.tensordot(in_MN, shapley(v), axes=1)


def antithetic_orders(n: int, pairs: int, rng: np.random.Generator) -> np.ndarray:
    """Orders of n players to measure along, drawn: int ``[2 * pairs, n]``; each second one is the reverse of the first.

    With both, Shapley values are exact where no more than two players interact. Source: Lomeli et al. 2019, Antithetic
    and Monte Carlo kernel estimators for partial rankings.
    """
    drawn = [rng.permutation(n) for _ in range(pairs)]
    return np.array([order for one in drawn for order in (one, one[::-1])], dtype=np.int64).reshape(2 * pairs, n)


def coalitions_along(order: Sequence[int]) -> list[int]:
    """The coalitions (masks) that an order of players goes through, from none to all."""
    return list(accumulate((1 << int(i) for i in order), int.__or__, initial=0))


def shapley_of_measured(n: int, worth: Mapping[int, ArrayLike]) -> tuple[np.ndarray, int]:
    """Shapley values from the coalitions that were measured, and the number of orders that they rest on.

    The mean of ``v(S+i) - v(S)`` over all orders whose coalitions all were measured, each counted once: exact
    where all were, and unbiased where they are those of drawn orders, as no player is preferred. The values sum to
    ``v(all) - v(none)``.

    Args:
        n: number of players, at most 60.
        worth: ``[...]`` by mask.

    Returns:
        ``[n, ...]``, and the number of orders.

    Raises:
        BadInput: no order was measured as a whole.
    """
    if not 1 <= n <= 60:
        raise BadInput("number of players", got=n, expected="1 to 60", where="formulas.coalitions")
    v = {mask: np.asarray(one, dtype=np.float64) for mask, one in worth.items()}
    full, by_size = (1 << n) - 1, sorted(v, key=lambda mask: (mask.bit_count(), mask))
    steps = [(mask, i) for mask in by_size for i in range(n) if not mask >> i & 1 and mask | 1 << i in v]
    # Python's integers: there may be more orders than a float can count
    to, on = dict.fromkeys(v, 0) | {0: 1}, dict.fromkeys(v, 0) | {full: 1}
    for mask, i in steps:
        to[mask | 1 << i] += to[mask]
    for mask, i in reversed(steps):
        on[mask] += on[mask | 1 << i]
    if 0 not in v or full not in v or not to[full]:
        raise BadInput(
            "no order of the players was measured as a whole",
            got=f"{len(v)} of {1 << n} coalitions",
            expected="those of none, of all, and between them one that grows by a player at a time",
            where="formulas.coalitions",
        )
    out = np.zeros((n, *v[full].shape))
    for mask, i in steps:
        out[i] += to[mask] * on[mask | 1 << i] / to[full] * (v[mask | 1 << i] - v[mask])
    return out, to[full]


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
