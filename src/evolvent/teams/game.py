"""The runs of a study as a game: the value of each part, what it takes, which configuration to use.

Every value is linear in the game, so it is computed for each task and averaged: intervals are over tasks, paired.
Where the number of tasks was fixed beforehand they are Student's t of the values by task (a percentile bootstrap of the
same numbers covers less with few tasks). Where the outcomes said when to stop they are the confidence sequence of
``formulas.effect``, which may be looked at after every task.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evolvent.evaluate.blocks import Number
from evolvent.evaluate.live import interval, percent
from evolvent.formulas import coalitions, effect
from evolvent.formulas.statistics import student_interval, wilson
from evolvent.teams.parts import Part

KEEP = "keep it"
HARM = "it does harm: leave it out"
COSTS = ("tokens", "calls", "seconds")
SMALL = 0.1
"""A share of the range of scores: a part that earns less than that at best is not worth its cost."""


class Row(NamedTuple):
    """One run. ``held``: at a task held apart. ``calls`` and ``tokens`` are ``None`` where they were not counted."""

    held: bool
    task: int
    mask: int
    seed: int
    score: float
    seconds: float
    calls: int | None
    tokens: float | None
    error: str
    read: frozenset[str]


@dataclass(frozen=True)
class PartWorth:
    """A part: what it adds to the mean score and to the mean cost of a run, strong in place of weak.

    Attributes:
        shapley: its share of the gain; those of all parts sum to the gain.
        banzhaf: the mean over all configurations of the others; ``None`` where not all were run.
        leave_one_out: what is lost when it alone is weak.
        first_in: what it adds where all others are weak.
        takes: Shapley values of tokens, calls and seconds of a run; ``None`` where they were not counted.
        shares: the same as shares of what a run with everything strong takes.
        verdict: in words.
    """

    name: str
    weak: str
    strong: str
    shapley: Number
    banzhaf: Number | None
    leave_one_out: Number
    first_in: Number
    takes: Mapping[str, Number | None]
    shares: Mapping[str, float | None]
    verdict: str

    def __str__(self) -> str:
        cost = _cost(self.shares)
        return f"{self.name}: earns {in_words(self.shapley)}{', ' + cost if cost else ''}: {self.verdict}"


@dataclass(frozen=True)
class Configuration:
    """Which parts are strong, the mean score at the tasks that values come from, and means of what a run took.

    ``beyond``: what the score is above that of everything weak and the Shapley values of the strong parts added up;
    ``None`` for everything weak and everything strong, where it is nothing, and where not all configurations were run.
    """

    strong: tuple[str, ...]
    score: Number
    takes: Mapping[str, float | None]
    beyond: Number | None

    @property
    def added(self) -> float | None:
        """The score that the parts add up to."""
        return None if self.beyond is None else (self.score.value or 0.0) - (self.beyond.value or 0.0)


class Game:
    """The runs at one set of tasks as a game: by configuration the mean score of each task ``[T]``.

    Parts that no run asked for are taken out of the game: what differs between their two sides is chance.
    """

    def __init__(self, parts: Sequence[Part], rows: Sequence[Row], looked: bool) -> None:
        self._parts, self.looked, self.n = parts, looked, len(parts)
        self.rows = rows
        read = frozenset[str]().union(*(row.read for row in rows))
        broken = all(row.error for row in rows)  # before they could ask
        self.unread = set[str]() if broken else {part.name for part in parts} - read
        self.scores = self._means([row.score for row in rows])
        self.tasks = len({row.task for row in rows})
        values = [row.score for row in rows]
        self.usual = min(values) >= 0 and max(values) <= 1
        self.span = 1.0 if self.usual else max(values) - min(values) or 1.0
        whole = len(self.scores) == 1 << self.n
        self.table = np.array([self.scores[m] for m in range(1 << self.n)]) if whole else None
        self._beyond = None if self.table is None else self.table - coalitions.additive(self.table)
        self.costs = {name: self._cost_of(name) for name in COSTS}

    def strong(self, mask: int) -> tuple[str, ...]:
        """Names of the parts that are strong."""
        return tuple(part.name for i, part in enumerate(self._parts) if mask >> i & 1)

    def _means(self, values: Sequence[Any]) -> dict[int, np.ndarray]:
        off = sum(1 << i for i, part in enumerate(self._parts) if part.name in self.unread)
        cells: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row, value in zip(self.rows, values, strict=True):
            cells[row.mask & ~off][row.task].append(value)
        means = {mask: np.array([math.fsum(v) / len(v) for v in by_task.values()]) for mask, by_task in cells.items()}
        return {mask: means[mask & ~off] for mask in sorted({row.mask for row in self.rows})}

    def _cost_of(self, name: str) -> dict[int, np.ndarray] | None:
        values = [getattr(row, name) for row in self.rows]
        if name != "seconds" and all(row.calls == 0 for row in self.rows):
            return None  # nothing was counted: no run is known to have taken nothing
        if name == "tokens":
            values = [0.0 if row.calls == 0 else row.tokens for row in self.rows]
        return None if None in values else self._means(values)

    def number(self, name: str, x_T: np.ndarray, *, least: float = -1.0) -> Number:
        """The mean over tasks of values that are scores (``least=0``) or differences of them, with its interval."""
        n, mean = len(x_T), float(x_T.mean())
        off = float(((x_T - mean) ** 2).sum())
        if not self.looked and n > 1 and off <= 1e-18 * self.span**2:  # all say the same: how many others would not?
            half = self.span * wilson(0, n)[1]
            lo, hi = mean - half, mean + half
        else:
            lo, hi = self._interval(x_T, self.span)
        if self.usual:
            lo, hi = max(lo, least), min(hi, 1.0)
        return Number(name, mean, None if math.isnan(lo) else (lo, hi), n=n)

    def cost(self, name: str, x_T: np.ndarray) -> Number:
        """The mean over tasks of a cost with its interval; none where all tasks say the same."""
        lo, hi = self._interval(x_T, float(np.abs(x_T).max()) or 1.0)
        return Number(name, float(x_T.mean()), (lo, hi) if lo < hi else None, n=len(x_T))

    def _interval(self, x_T: np.ndarray, span: float) -> tuple[float, float]:
        n, mean = len(x_T), float(x_T.mean())
        if not self.looked:
            return student_interval(x_T)
        if n < effect.LEAST:
            return math.nan, math.nan
        half = span * effect.half_width(float(((x_T - mean) ** 2).sum()) / span**2 * n / (n - 1)) / n
        return mean - half, mean + half

    def shapley(self, game: Mapping[int, np.ndarray]) -> np.ndarray:
        """``[n, T]``."""
        return coalitions.shapley_of_measured(self.n, game)[0]

    def parts(self) -> list[PartWorth]:
        """Each part."""
        full = (1 << self.n) - 1
        phi = self.shapley(self.scores)
        takes = {name: None if game is None else self.shapley(game) for name, game in self.costs.items()}
        banzhaf = None if self.table is None else coalitions.banzhaf(self.table)
        found: list[PartWorth] = []
        for i, part in enumerate(self._parts):
            name, bit = part.name, 1 << i
            cost = {key: None if x is None else self.cost(key, x[i]) for key, x in takes.items()}
            whole = {key: None if game is None else float(game[full].mean()) for key, game in self.costs.items()}
            shares = {
                key: one.value / w if one and one.value is not None and (w := whole[key]) else None
                for key, one in cost.items()
            }
            nothing = Number(name, 0.0, (0.0, 0.0), n=self.tasks) if name in self.unread else None
            worth = nothing or self.number(name, phi[i])
            found.append(
                PartWorth(
                    name,
                    *part.labels,
                    worth,
                    None if banzhaf is None else nothing or self.number(name, banzhaf[i]),
                    nothing or self.number(name, self.scores[full] - self.scores[full - bit]),
                    nothing or self.number(name, self.scores[bit] - self.scores[0]),
                    cost,
                    shares,
                    "no run asks for it: worth exactly 0" if nothing else self._verdict(worth, shares),
                )
            )
        return found

    def _verdict(self, worth: Number, shares: Mapping[str, float | None]) -> str:
        lo, hi = worth.ci95 or (None, None)
        if lo is None or hi is None:
            return "too few tasks to say"
        if lo > 0:
            return KEEP
        if hi < 0:
            return HARM
        if (shares["tokens"] or 0.0) < 0 and lo > -SMALL * self.span:
            return "it saves, and no harm is seen: keep it"
        return "leave it out" if hi <= SMALL * self.span else "too few tasks to say"

    def configuration(self, mask: int) -> Configuration:
        """One that was run."""
        takes = {key: None if game is None else float(game[mask].mean()) for key, game in self.costs.items()}
        beyond = None
        if self._beyond is not None and 0 < mask < (1 << self.n) - 1:
            beyond = self.number("beyond the sum", self._beyond[mask])
        return Configuration(self.strong(mask), self.number("score", self.scores[mask], least=0.0), takes, beyond)

    def widest(self) -> float:
        """Half the width of the widest interval of a part; infinite where there is none yet."""
        ends = [self.number("", x_T).ci95 or (-math.inf, math.inf) for x_T in self.shapley(self.scores)]
        return max((hi - lo) / 2 for lo, hi in ends if lo is not None and hi is not None)

    def best(self) -> int:
        """The configuration to use: the best of those without a part that is to be left out; a tie: the cheaper.

        Where such parts do no harm, runs with and without them are taken together. A configuration that was not run is
        taken for what its parts add.
        """
        out = harm = 0
        for i, one in enumerate(found := self.parts()):
            out |= (one.verdict.endswith(("leave it out", "exactly 0"))) << i
            harm |= (one.verdict == HARM) << i
        pooled: dict[int, list[float]] = defaultdict(list)
        for mask, x_T in self.scores.items():
            if not mask & harm:
                pooled[mask & ~out].append(float(x_T.mean()))
        means = {mask: math.fsum(x) / len(x) for mask, x in pooled.items()}
        rest = (1 << self.n) - 1 - out
        adds = math.fsum(one.shapley.value or 0.0 for one in found if one.name in self.strong(rest))
        means.setdefault(rest, float(self.scores[0].mean()) + adds)
        tokens = self.costs["tokens"] or {}  # not seconds: another run would choose otherwise

        def order(mask: int) -> tuple[float, float, int]:
            cost = float(tokens[mask].mean()) if mask in tokens else math.inf
            return round(means[mask], 9), -cost, -mask.bit_count()

        return max(means, key=order)


def in_words(one: Number | None, *, signed: bool = False) -> str:
    """A number with its interval; ``signed``: of a difference."""
    if one is None:
        return "–"
    said = interval(one.value, one.ci95, rate=False)
    return f"+{said}" if signed and (one.value or 0) > 0 else said


def _cost(shares: Mapping[str, float | None]) -> str:
    """What a part costs in words: of the tokens where they are known, otherwise of the time."""
    for name, things in (("tokens", "the tokens"), ("seconds", "the time")):
        if (share := shares[name]) is not None:
            return f"{'costs' if share >= 0 else 'saves'} {percent(abs(share))} of {things}"
    return ""
