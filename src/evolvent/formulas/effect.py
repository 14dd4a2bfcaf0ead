"""What a thing adds, from outcomes with and without it where chance decided which, with an interval for every moment.

The estimate is the overlap-weighted difference of means (Li, Morgan and Zaslavsky 2018): an outcome weighs the
probability of the *other* arm, so no weight is above 1, and under one constant probability it is the plain difference
of averages. The interval is Robbins' normal mixture, an asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha,
Kennedy and Ramdas 2024): it may be read after every outcome. Of many things those may be named that e-BH names (Wang
and Ramdas 2022).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from evolvent.core.errors import BadInput

# variance of the mixture, in outcomes: also a floor while all outcomes were equal
ETA = 3.0
# outcomes in each arm before anything is said: the interval is asymptotic
LEAST = 10


class Row(NamedTuple):
    """One outcome where chance decided.

    Attributes:
        with_it: whether the thing was there.
        probability: of that, as it was logged before the draw; rows of 0 or 1 say nothing and are left out.
        outcome: 0..1.
        weight: how much the outcome counts, above 0, at most 1.
        task: what repeats.
    """

    with_it: bool
    probability: float
    outcome: float
    weight: float = 1.0
    task: Hashable = None


@dataclass(frozen=True)
class Estimate:
    """What the rows say; numbers that cannot be said are ``None``.

    Attributes:
        n_with, n_without: rows of either arm.
        tasks: different tasks.
        information: sum of ``w p (1 - p)``, in outcomes.
        newest: mean of the same over the newest 50 rows, by their order.
        mean_with, mean_without: weighted averages; ``lift`` is their difference.
        v_rows, v_tasks: variance of ``lift x information`` by rows and by tasks; the larger one counts.
        half: half the width of the interval, which ``lo`` and ``hi`` cut to [-1, 1].
        e_help, e_harm: e-values against "it does not help" and "it does not harm".
    """

    n_with: int
    n_without: int
    tasks: int
    information: float
    newest: float = 0.0
    mean_with: float | None = None
    mean_without: float | None = None
    lift: float | None = None
    v_rows: float | None = None
    v_tasks: float | None = None
    half: float | None = None
    lo: float | None = None
    hi: float | None = None
    e_help: float = 1.0
    e_harm: float = 1.0

    @property
    def speaks(self) -> bool:
        """Whether both arms hold ``LEAST`` outcomes."""
        return min(self.n_with, self.n_without) >= LEAST

    @property
    def spread(self) -> float | None:
        """Variance of an outcome as it enters: ``V / H``."""
        if self.v_rows is None or self.v_tasks is None:
            return None
        return max(self.v_rows, self.v_tasks) / self.information


def estimate(rows: Iterable[Row], alpha: float = 0.05) -> Estimate:
    """The lift of a thing with its ``1 - alpha`` interval. The order of rows matters to ``newest`` alone.

    Args:
        rows: outcomes, oldest first.
        alpha: probability with which the interval ever leaves out the truth.

    Raises:
        BadInput: a probability or an outcome outside 0..1, a weight of 0 or above 1, or one that is no number.
    """
    rows = list(map(_checked, rows))
    rows = [row for row in rows if 0.0 < row.probability < 1.0]
    arms: tuple[list[tuple[float, Row]], ...] = ([], [])
    for row in rows:
        other = 1.0 - row.probability if row.with_it else row.probability
        arms[bool(row.with_it)].append((row.weight * other, row))
    each = [row.weight * row.probability * (1.0 - row.probability) for row in rows]
    total, newest = math.fsum(each), each[-50:]
    known = Estimate(
        n_with=len(arms[1]),
        n_without=len(arms[0]),
        tasks=len({row.task for row in rows}),
        information=total,
        newest=math.fsum(newest) / len(newest) if newest else 0.0,
    )
    if not (arms[0] and arms[1]):
        return known
    weight = [math.fsum(k for k, _ in arm) for arm in arms]
    mean = [math.fsum(k * row.outcome for k, row in arm) / d for arm, d in zip(arms, weight, strict=True)]
    by_task: dict[Hashable, list[float]] = defaultdict(list)
    v_rows = 0.0
    for side, arm in enumerate(arms):
        scale, n = total / weight[side], len(arm)
        off = [k * (row.outcome - mean[side]) for k, row in arm]
        v_rows += scale**2 * math.fsum(x * x for x in off) * (n / (n - 1) if n > 1 else 2.0)
        for x, (_, row) in zip(off, arm, strict=True):
            by_task[row.task].append(scale * x if side else -scale * x)
    many = len(by_task)
    v_tasks = math.fsum(math.fsum(one) ** 2 for one in by_task.values()) * (many / (many - 1) if many > 1 else 0.0)
    lift, v = mean[1] - mean[0], max(v_rows, v_tasks)
    half = half_width(v, alpha) / total
    return Estimate(
        **{name: getattr(known, name) for name in ("n_with", "n_without", "tasks", "information", "newest")},
        mean_with=mean[1],
        mean_without=mean[0],
        lift=lift,
        v_rows=v_rows,
        v_tasks=v_tasks,
        half=half,
        lo=max(-1.0, lift - half),
        hi=min(1.0, lift + half),
        e_help=e_value(lift * total, v),
        e_harm=e_value(-lift * total, v),
    )


def _checked(row: Row) -> Row:
    if not (0.0 <= row.probability <= 1.0 and 0.0 <= row.outcome <= 1.0 and 0.0 < row.weight <= 1.0):
        raise BadInput(
            "not an outcome where chance decided",
            got=row[:4],
            expected="a probability of 0..1, an outcome of 0..1, and a weight above 0, at most 1",
            where="formulas.effect.estimate",
        )
    return row


def half_width(variance: float, alpha: float = 0.05) -> float:
    """Boundary of Robbins' normal mixture for a sum of this variance: never crossed with probability ``1 - alpha``."""
    u = variance + ETA
    return math.sqrt(u * math.log(u / (ETA * alpha * alpha)))


def e_value(total: float, variance: float) -> float:
    """E-value against "the sum has no upward drift"; held below 1e304, where a float ends."""
    u = variance + ETA
    z = total / math.sqrt(2.0 * u)
    if z > -25.0:
        tail = math.exp(min(z * z, 700.0)) * math.erfc(-z)
    else:  # the same where the factors leave the range of a float
        tail = (1.0 - 0.5 / (z * z)) / (-z * math.sqrt(math.pi))
    return math.sqrt(ETA / u) * tail


def information_needed(spread: float, half: float, alpha: float = 0.05) -> float:
    """The information at which an interval is ``half`` wide on either side, for outcomes of variance ``spread``."""

    def wide(information: float) -> float:
        return half_width(spread * information, alpha) / information

    low, high = 0.0, 1.0
    while wide(high) > half:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if wide(middle) > half else (low, middle)
    return high


def named(e_values: Mapping[str, float], level: float = 0.1) -> list[str]:
    """Those that may be named together, strongest first: of them a share of ``level`` is expected to be wrong (e-BH).

    Args:
        e_values: of all that were ever at stake, also those with 1.
        level: that share.
    """
    order = sorted(e_values, key=lambda name: (-e_values[name], name))
    held = (i for i, name in enumerate(order, 1) if e_values[name] >= len(order) / (level * i))
    return order[: max(held, default=0)]
