"""Who contributed what to a joint result: Shapley and Banzhaf values.

A game over n players is a table ``v_M`` of ``M = 2^n`` numbers: row ``mask`` is the worth of the coalition whose
members are the set bits of ``mask`` (bit i = player i). Further axes (e.g. one column per task, for a paired
bootstrap) are carried along, since every value here is linear in the game.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

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
