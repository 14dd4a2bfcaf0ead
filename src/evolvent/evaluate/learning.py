"""What ``metrics.jsonl`` of a run with updates says: updates, evaluations, random baseline, as columns for pictures.

Teams count environment steps, language models attempts; everything else is named alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evolvent.evaluate.pages.svg import Curve
from evolvent.formulas.statistics import wilson

Row = dict[str, Any]
STEPS, ATTEMPTS = "environment steps", "attempts"
PARTS = ("act", "step", "credit", "learn")
_NO_LOSS = {
    "t",
    "step",
    "update",
    "return",
    "attempts",
    "credit",
    "broken",
    "tokens",
    "updates",
    "sampled_tokens",
    "length_mean",
    *(f"{part}_s" for part in PARTS),
    *(f"{what}_per_s" for what in ("steps", "sampled", "trained")),
}


@dataclass(frozen=True)
class Learning:
    """The lines of one run by kind, in the order of its steps.

    Attributes:
        updates: one line an update.
        evaluations: greedy attempts after some updates, nothing learned from them: ``value``, ``ci95``, ``n``.
        chance: the same of random actions, before anything was learned; ``None`` where it is missing.
        idle: the same of no action; only of teams that act in numbers.
        unit: what ``step`` counts, in words.
    """

    updates: tuple[Row, ...]
    evaluations: tuple[Row, ...]
    chance: Row | None
    unit: str = STEPS
    idle: Row | None = None

    def losses(self) -> list[str]:
        """Names of the numbers that the learner told, in its order; none of the bookkeeping."""
        names, others = dict.fromkeys(name for row in self.updates for name in row), {*_NO_LOSS, *self.env_metrics()}
        own = [name for name in names if name not in others]
        return [name for name in own if any(isinstance(row.get(name), int | float) for row in self.updates)]

    def env_metrics(self) -> list[str]:
        """What the environment tells at the end of an attempt, e.g. ``success_mean``.

        It is told of judged attempts and of random play, too; means that updates alone have are the learner's, such as
        ``ratio_mean`` and ``factor_mean``.
        """
        names = dict.fromkeys(name for row in (*self.updates, *self.evaluations) for name in row)
        judged = (*self.evaluations, *(row for row in (self.chance, self.idle) if row is not None))
        known = {name for row in judged or self.updates for name in row}
        return [name for name in names if name.endswith("_mean") and name != "length_mean" and name in known]

    @property
    def last_step(self) -> int:
        """Steps done, in ``unit``."""
        return max((int(row["step"]) for row in (*self.updates, *self.evaluations)), default=0)


def learning(rows: Iterable[Row], kind: str) -> Learning:
    """The lines of a run, sorted; of several lines about the same step and phase the last one counts.

    Args:
        rows: lines of the metrics.
        kind: of the run (``RunFolder.kind``).
    """
    updates: dict[int, Row] = {}
    evaluations: dict[int, Row] = {}
    chance: Row | None = None
    idle: Row | None = None
    for row in rows:
        if row.get("phase") == "random":
            chance = row
        elif row.get("phase") == "idle":
            idle = row
        elif row.get("phase") == "eval":
            evaluations[int(row["step"])] = row
        elif "update" in row:
            updates[int(row["step"])] = row
    return Learning(
        tuple(updates[step] for step in sorted(updates)),
        tuple(evaluations[step] for step in sorted(evaluations)),
        chance,
        ATTEMPTS if kind == "language" else STEPS,
        idle,
    )


def column(rows: Iterable[Row], name: str) -> tuple[list[float], list[float]]:
    """Steps and values of the lines that have a number there."""
    pairs = [(float(row["step"]), float(row[name])) for row in rows if isinstance(row.get(name), int | float)]
    return [x for x, _ in pairs], [y for _, y in pairs]


def window(n: int) -> int:
    """How many of ``n`` updates are averaged for a smooth line: about one in forty, an odd number."""
    return max(1, 2 * (n // 80) + 1)


def smoothed(values: Sequence[float], width: int) -> list[float]:
    """Mean over ``width`` neighbours, as many before as after; at the ends over fewer, so that nothing is shifted."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    n, half = len(values), width // 2
    at = np.arange(n)
    reach = np.minimum(np.minimum(at, n - 1 - at), half)
    return ((sums[at + reach + 1] - sums[at - reach]) / (2 * reach + 1)).tolist()


def thinned(x: Sequence[float], y: Sequence[float], most: int = 300) -> tuple[list[float], list[float], int]:
    """At most about ``most`` points, each the mean of ``k`` neighbours; returns ``(x, y, k)``."""
    k = max(1, -(-len(x) // most))
    starts = range(0, len(x), k)
    return [float(np.mean(x[i : i + k])) for i in starts], [float(np.mean(y[i : i + k])) for i in starts], k


def training(run: Learning, name: str, label: str, style: int, *, points: bool = True) -> list[Curve]:
    """A column of the updates: faint points, and a smoothed line through all of them."""
    x, y = column(run.updates, name)
    width = window(len(x))
    line_x, line_y, _ = thinned(x, smoothed(y, width))
    over = f", mean of {width} updates" if width > 1 else ""
    empty = [None] * len(line_x)
    curve = Curve(label + over if label else "", line_x, line_y, empty, empty, style, "line")
    if not points or width == 1:
        return [curve]
    raw_x, raw_y, k = thinned(x, y)
    name = f"mean of {k}" if k > 1 else "each update"
    empty = [None] * len(raw_x)
    return [Curve(name if label else "", raw_x, raw_y, empty, empty, style, "points"), curve]


def evaluated(run: Learning, label: str, style: int) -> Curve:
    """The evaluations with their intervals over attempts."""
    rows = [row for row in run.evaluations if row.get("value") is not None]
    ends = [row.get("ci95") or [None, None] for row in rows]
    x, y = [float(row["step"]) for row in rows], [float(row["value"]) for row in rows]
    mark = "dots" if len(rows) <= 30 else "line"
    return Curve(label, x, y, [lo for lo, _ in ends], [hi for _, hi in ends], style, mark)


def evaluated_success(run: Learning, label: str, style: int) -> Curve:
    """Success of the evaluations with its Wilson interval over attempts, where it is a count of them."""
    rows = [row for row in run.evaluations if isinstance(row.get("success_mean"), int | float)]
    x, y = column(rows, "success_mean")
    ends = [success_interval(row) or (None, None) for row in rows]
    mark = "dots" if len(x) <= 30 else "line"
    return Curve(label, x, y, [lo for lo, _ in ends], [hi for _, hi in ends], style, mark)


def success_interval(row: Row) -> tuple[float, float] | None:
    """Wilson interval of ``success_mean`` over ``n`` attempts; ``None`` where it is no count of them.

    Where several attempts were at one task, ``tasks`` are what is counted: attempts at a task may well go alike.
    """
    share, n = row.get("success_mean"), row.get("n")
    if share is None or not n or abs(share * n - round(share * n)) > 1e-6:
        return None
    tasks = row.get("tasks") or n
    return wilson(round(share * n) * tasks / n, tasks)


def is_success(row: Mapping[str, Any]) -> bool:
    """Whether the return of these attempts is nothing but their success rate."""
    share = row.get("success_mean")
    return share is not None and row.get("value") is not None and abs(share - row["value"]) < 1e-9


def success_level(row: Row | None, label: str, style: int = 1) -> list[Curve]:
    """The success of a baseline as a dashed line; nothing where it is not known."""
    if row is None or row.get("success_mean") is None:
        return []
    lo, hi = success_interval(row) or (None, None)
    return [Curve(label, [0.0], [float(row["success_mean"])], [lo], [hi], style, "level")]


def chance_level(row: Row | None, label: str = "random actions", style: int = 1) -> list[Curve]:
    """A baseline as a dashed line; nothing where it is not known."""
    if row is None or row.get("value") is None:
        return []
    lo, hi = row.get("ci95") or (None, None)
    return [Curve(label, [0.0], [float(row["value"])], [lo], [hi], style, "level")]


def seconds(run: Learning) -> dict[str, float]:
    """Seconds of each part of the loop over the whole run."""
    return {part: sum(column(run.updates, f"{part}_s")[1]) for part in PARTS}


def credit(
    run: Learning, agents: Sequence[str], bins: int
) -> tuple[dict[str, float], list[float], dict[str, list[float]]]:
    """Each agent's share of the advantage, in all and over time.

    Every update counts the same: the size of advantages changes with the returns, shares do not.

    Returns:
        share by agent; step in the middle of each bin of neighbouring updates; share in each bin by agent.
    """
    told = [
        row for row in run.updates if isinstance(row.get("credit"), list)
    ]  # a system of yours may log no such column
    rows = [row for row in told if len(row["credit"]) == len(agents) and sum(row["credit"]) > 0]
    if not rows:
        return {}, [], {}
    table_UA = np.array([row["credit"] for row in rows], dtype=np.float64)
    steps = np.array([float(row["step"]) for row in rows])
    parts = np.array_split(np.arange(len(rows)), min(bins, len(rows)))
    binned = np.stack([table_UA[part].mean(axis=0) for part in parts])
    total = table_UA.mean(axis=0)
    over = {agent: binned[:, a].tolist() for a, agent in enumerate(agents)}
    return dict(zip(agents, total.tolist(), strict=True)), [float(steps[part].mean()) for part in parts], over
