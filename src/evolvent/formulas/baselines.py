"""What to subtract from a return: means over a group of attempts at one task, and a running average.

Members are the first axis; further axes (turns) are treated column by column. ``group`` labels which members belong
together (default: all). Whether a baseline keeps the gradient unbiased is a property of the rule that uses it: one
that contains the member's own return scales or bends the gradient, one made of the others does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput


def group_mean(x_N: ArrayLike, group: Sequence[object] | None = None) -> np.ndarray:
    """Mean of each member's group, the member included; float64 of the shape of ``x_N``."""
    x, label, size = _grouped(x_N, group, "group_mean")
    return (_sums(x, label, len(size)) / _column(size, x))[label]


def leave_one_out(x_N: ArrayLike, group: Sequence[object] | None = None, alone: float = 0.0) -> np.ndarray:
    """Mean of the *other* members of the group (RLOO: Kool et al. 2019; Ahmadian et al. 2024).

    A member without others gets ``alone``: any constant is unbiased.
    """
    x, label, size = _grouped(x_N, group, "leave_one_out")
    others = _column(size[label] - 1, x)
    rest = _sums(x, label, len(size))[label] - x
    return np.where(others > 0, rest / np.maximum(others, 1), alone)


def group_std(x_N: ArrayLike, group: Sequence[object] | None = None, ddof: int = 0) -> np.ndarray:
    """Standard deviation of each member's group; 0 where the group is not larger than ``ddof``."""
    x, label, size = _grouped(x_N, group, "group_std")
    centred = x - group_mean(x, group)
    n = _column(size - ddof, x)
    spread = np.where(n > 0, _sums(centred**2, label, len(size)) / np.maximum(n, 1), 0.0)
    return np.sqrt(spread)[label]


def running_ema(x_T: ArrayLike, alpha: float, start: float = 0.0) -> np.ndarray:
    """The EMA *before* each return is seen, ``[T]``: a baseline that does not contain the return it is used for."""
    x = np.asarray(x_T, dtype=np.float64)
    if x.ndim != 1:
        raise BadInput("running_ema needs a vector", got=x.shape, where="formulas.baselines.running_ema")
    out, q = np.empty_like(x), float(start)
    for t, r in enumerate(x):
        out[t] = q
        q += alpha * (float(r) - q)
    return out


def _grouped(x_N: ArrayLike, group: Sequence[object] | None, where: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, group number of each member, size of each group."""
    x = np.asarray(x_N, dtype=np.float64)
    if x.ndim == 0 or (group is not None and len(group) != len(x)):
        raise BadInput(
            "one group label per member",
            got=(x.shape, None if group is None else len(group)),
            expected="values [N, ...] and N labels",
            where=f"formulas.baselines.{where}",
        )
    number: dict[object, int] = {}
    names: Sequence[object] = [None] * len(x) if group is None else group
    label = np.array([number.setdefault(g, len(number)) for g in names], dtype=np.int64)
    return x, label, np.bincount(label, minlength=len(number))


def _sums(x: np.ndarray, label: np.ndarray, groups: int) -> np.ndarray:
    out = np.zeros((groups, *x.shape[1:]))
    np.add.at(out, label, x)
    return out


def _column(n: np.ndarray, x: np.ndarray) -> np.ndarray:
    return n.reshape(n.shape + (1,) * (x.ndim - 1))
