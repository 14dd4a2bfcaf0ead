"""What each member adds to what its population secures: the value of the meta-game, with it and without it.

The meta-game is that of Lanctot et al. 2017 (arXiv 1711.00832), zero-sum and of two; the credit is ours. With ``A_ij``
the mean return where member i of the first seat meets member j of the second, and rows S of it alone,

    v(S) = max_x min_y x'A_S y        joined    v(members up to i) - v(members before i)
                                      left_out  v(all) - v(all but i)

(for the second seat the same of -A'). None is below 0. ``joined`` goes by the order of arrival and sums to what all add
to the first member, which is not scored. In ``left_out`` members that can stand in for each other have 0 each.

An episode is a play: a component is a seat, its implementation the member that sat there, the reward the return of the
seat whose name sorts first. Plays of the same two members are averaged; two that never met are an error, never 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.formulas import meta_games

LEVEL = "component"
UNBIASED = None


@dataclass(frozen=True)
class Config:
    """Settings of the credit of members."""

    index: Literal["joined", "left_out"] = "joined"
    """When it joined, beyond those before it; or what is lost without it."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The credit of the member in each seat of a valid episode, in units of return.

    Raises:
        BadInput: other than two seats with one member each, or two members that never met.
    """
    earned: dict[tuple[str, str], list[float]] = defaultdict(list)
    seats = sorted({seat for e in episodes if e.valid for seat in e.components})
    for e in episodes:
        if e.valid:
            who = dict(e.implementations)
            if len(seats) != 2 or sorted(who) != seats or len(e.implementations) != 2:
                expected = "two seats, the same in all, with a member each"
                raise BadInput(
                    "not a play of two members", got=e.implementations, expected=expected, where=f"Episode {e.id}"
                )
            earned[who[seats[0]], who[seats[1]]].append(e.total_reward)
    names = [list(dict.fromkeys(pair[seat] for pair in earned)) for seat in (0, 1)]
    table = np.array([[_met(earned, a, b) for b in names[1]] for a in names[0]])
    credit = {
        (seat, name): float(x)
        for i, seat in enumerate(seats)
        for name, x in zip(names[i], _added(table if i == 0 else -table.T, config.index), strict=True)
    }
    ledger = Ledger.for_episodes(episodes)
    values = [credit[one] if e.valid else float("nan") for e in episodes for one in e.implementations]
    ledger.set("component", values)
    return ledger


def _met(earned: dict[tuple[str, str], list[float]], a: str, b: str) -> float:
    if (a, b) not in earned:
        raise BadInput("two members never met", got=(a, b), expected="plays of all pairs", where="component_member")
    return float(np.mean(earned[a, b]))


def _added(own_NM: np.ndarray, index: str) -> list[float]:
    """By row; NaN for the first of ``joined``, and for an only one."""
    n = len(own_NM)
    if index == "joined":
        secured = [_value(own_NM[: i + 1])[0] for i in range(n)]
        return [float("nan"), *np.maximum(np.diff(secured), 0.0).tolist()]
    if n == 1:
        return [float("nan")]
    value, used_N = _value(own_NM)
    return [max(0.0, value - _value(np.delete(own_NM, i, axis=0))[0]) if used_N[i] else 0.0 for i in range(n)]


def _value(own_NM: np.ndarray) -> tuple[float, np.ndarray]:
    """What the rows secure, and how."""
    x_N, y_M = meta_games.nash(np.stack([own_NM, -own_NM]))
    return float(x_N @ own_NM @ y_M), x_N
