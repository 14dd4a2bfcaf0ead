"""What each member adds to what its population secures: the value of the meta-game, with it and without it.

The meta-game is that of Lanctot et al. 2017 (arXiv 1711.00832), zero-sum and of two; the credit is our own. With
``A_ij`` the mean return where member i of the first seat meets member j of the second, and rows S of it alone,

    v(S) = max_x min_y x'A_S y,  v(nobody) = 0      joined    v(members up to i) - v(members before i)
                                                    left_out  v(all) - v(all but i)

(for the second seat the same of -A'). ``joined`` goes by the order of names and sums to the value: the first member has
what it secures alone, none after it is below 0. In ``left_out`` members that can stand in for each other have 0 each.

An episode is a play: a component is a seat, its implementation the member that sat there, the reward the return of the
seat whose name sorts first. Plays of the same two members are averaged; two that never met are an error, never 0. What
is no play of two seats is not scored. Groups are games of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
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
    """The credit of the member in each seat of a valid play, in units of return.

    Raises:
        BadInput: plays of more than two seats in a group, or two members that never met.
    """
    games: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    seats: dict[str, list[str]] = {}
    for e in episodes:
        if _is_play(e):
            found = sorted(e.components)
            if seats.setdefault(e.group, found) != found:
                got, expected = f"{seats[e.group]} and {found}", "the same two in a group"
                raise BadInput("plays of other seats", got=got, expected=expected, where=f"Episode {e.id}")
            who = dict(e.implementations)
            games[e.group][who[found[0]], who[found[1]]].append(e.total_reward)
    credit: dict[tuple[str, str, str], float] = {}
    for group, earned in games.items():
        names = [sorted({pair[i] for pair in earned}, key=lambda name: (len(name), name)) for i in (0, 1)]
        table = np.array([[_met(earned, a, b) for b in names[1]] for a in names[0]])
        for seat, own, rows in zip(seats[group], names, (table, -table.T), strict=True):
            added = zip(own, _added(rows, config.index), strict=True)
            credit |= {(group, seat, name): x for name, x in added}
    ledger = Ledger.for_episodes(episodes)
    values: list[float] = []
    for e in episodes:
        values += [credit[e.group, *one] for one in e.implementations] if _is_play(e) else [np.nan] * len(e.components)
    ledger.set("component", values)
    return ledger


def _is_play(e: Episode) -> bool:
    return e.valid and len(e.components) == len(e.implementations) == 2


def _met(earned: Mapping[tuple[str, str], list[float]], a: str, b: str) -> float:
    if (a, b) not in earned:
        raise BadInput("two members never met", got=(a, b), expected="plays of all pairs", where="component_member")
    return float(np.mean(earned[a, b]))


def _added(own_NM: np.ndarray, index: str) -> list[float]:
    """By row."""
    n = len(own_NM)
    if index == "joined":
        return np.diff([0.0, *(_value(own_NM[: i + 1])[0] for i in range(n))]).tolist()
    value, used_N = _value(own_NM)
    rest = [_value(np.delete(own_NM, i, axis=0))[0] if n > 1 and used_N[i] else value * (n > 1) for i in range(n)]
    return [value - one for one in rest]


def _value(own_NM: np.ndarray) -> tuple[float, np.ndarray]:
    """What the rows secure, and how."""
    x_N, y_M = meta_games.nash(np.stack([own_NM, -own_NM]))
    return float(x_N @ own_NM @ y_M), x_N
