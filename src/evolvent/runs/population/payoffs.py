"""What members of populations earn against each other: count, mean and variance of every joint choice.

A *cell* names a member of each player. Its number is exact (count 0), or the mean of plays that were drawn.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.formulas import meta_games

Cell = tuple[int, ...]


@dataclass(frozen=True)
class Plays:
    """What was found about a cell: plays (0 = it is exact), and by player their mean and sum of squared deviations."""

    count: int
    mean: tuple[float, ...]
    spread: tuple[float, ...]


class Payoffs:
    """The table of all cells; it grows with the populations.

    Attributes:
        count: int ``[n_0, …]``; 0 = exact, −1 = nothing known.
        mean: float64 ``[P, n_0, …]``.
        spread: sums of squared deviations from the mean, likewise.
    """

    def __init__(self, players: int) -> None:
        self.count = np.zeros((0,) * players, np.int64)
        self.mean = np.zeros((players, *self.count.shape))
        self.spread = self.mean.copy()

    def grow(self, sizes: Sequence[int]) -> None:
        """Room for populations of these sizes; new cells are not known yet."""
        added = [(0, new - old) for old, new in zip(self.count.shape, sizes, strict=True)]
        self.count = np.pad(self.count, added, constant_values=-1)
        self.mean, self.spread = (np.pad(one, [(0, 0), *added]) for one in (self.mean, self.spread))

    def unknown(self) -> list[Cell]:
        """The cells that nothing is known of, in order."""
        return [tuple(cell) for cell in np.argwhere(self.count < 0).tolist()]

    def add(self, cell: Cell, plays: Plays) -> None:
        """Take in what was found about a cell, together with what is known (Chan's update).

        Raises:
            BadInput: a payoff that is not finite; nothing is taken in.
        """
        mean, spread = np.array(plays.mean), np.array(plays.spread)
        if not (np.isfinite(mean).all() and np.isfinite(spread).all()):
            members = " against ".join(f"member {k} of player {p}" for p, k in enumerate(cell))
            expected = "a finite number a player"
            raise BadInput("a payoff is not finite", got=plays.mean, expected=expected, where=f"payoffs, {members}")
        at = (slice(None), *cell)
        known = max(0, int(self.count[cell]))
        total = known + plays.count
        if known and plays.count:
            step = mean - self.mean[at]
            spread = self.spread[at] + spread + step**2 * known * plays.count / total
            mean = self.mean[at] + step * plays.count / total
        self.count[cell], self.mean[at], self.spread[at] = total, mean, spread

    def variance(self) -> np.ndarray:
        """Of each mean, ``[P, n_0, …]``: 0 where it is exact, infinite below two plays."""
        n = self.count
        with np.errstate(divide="ignore", invalid="ignore"):
            of_plays = np.where(n > 1, self.spread / (n * (n - 1.0)), np.inf)
        return np.where(n == 0, 0.0, of_plays)

    def uncertain(self, mixture: Sequence[np.ndarray], plays: int, times: int) -> list[Cell]:
        """The cells that are to be played again, ``plays`` at a time, the most needed first; one may come repeatedly.

        A cell counts with the weight that it has in what any player's members earn against the others' mixture; the
        next plays go where they take most off the weighted variance.
        """
        freed = [[np.ones_like(x) if q == p else x for q, x in enumerate(mixture)] for p in range(len(mixture))]
        weight = np.maximum.reduce([_outer(one) for one in freed])
        n = self.count.astype(np.float64)
        spread = np.where(n > 1, self.spread.sum(axis=0) / np.maximum(n - 1.0, 1.0), np.where(n == 1, np.inf, 0.0))
        found: list[Cell] = []
        for _ in range(times):
            gain = np.where(weight > 0, weight**2 * spread, 0.0) * plays / np.maximum(n * (n + plays), 1.0)
            cell = tuple(int(i) for i in np.unravel_index(int(gain.argmax()), gain.shape))
            if not gain[cell] > 0:
                break
            found.append(cell)
            n[cell] += plays
        return sorted(found)

    def gain(self, mixture: Sequence[np.ndarray]) -> tuple[float, float]:
        """What the newest members, which ``mixture`` does not hold, earn beyond it: summed over players, and its error.

        For each player the best of its new members; the error is a standard error, from above: what players earn in a
        cell may go together in any way. With exact payoffs and best responses the gain is NashConv.
        """
        old = [np.pad(x, (0, n - len(x))) for x, n in zip(mixture, self.count.shape, strict=True)]
        total, error = 0.0, np.zeros(self.count.shape)
        for p, x in enumerate(mixture):
            earned = meta_games.deviations(self.mean, old, p)
            best = np.eye(len(earned))[len(x) + int(earned[len(x) :].argmax())]
            total += float((best - old[p]) @ earned)
            weight = np.abs(_outer([best - old[p] if q == p else one for q, one in enumerate(old)]))
            error += np.where(weight > 0, weight * np.sqrt(np.where(weight > 0, self.variance()[p], 0.0)), 0.0)
        return total, float(np.sqrt((error**2).sum()))

    def as_json(self) -> dict[str, Any]:
        """Count, mean and variance of the plays of each cell, nested by player."""
        with np.errstate(divide="ignore", invalid="ignore"):
            of_plays = np.where(self.count > 1, self.spread / (self.count - 1.0), 0.0)
        return {"count": self.count.tolist(), "mean": self.mean.tolist(), "variance": of_plays.tolist()}


def _outer(one_each: Sequence[np.ndarray]) -> np.ndarray:
    """The product of an array a player, ``[n_0, …]``."""
    return functools.reduce(np.multiply.outer, one_each)
