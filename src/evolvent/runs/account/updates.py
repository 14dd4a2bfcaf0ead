"""What a run with updates says on its page: curves of what it logged, evaluations, levels, where the time went.

Lines of the metrics are of four sorts: an update (``update``), an evaluation (``phase`` "eval": ``value``, ``ci95``,
``n``), and what random actions or none came to before anything was learned ("random", "idle").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evolvent.evaluate.blocks import (
    Block,
    Comparison,
    Curve,
    Headline,
    Line,
    Number,
    Section,
    Split,
    Table,
    Text,
    Tiles,
)
from evolvent.evaluate.live import interval, judged_on, percent
from evolvent.formulas.statistics import wilson

Row = Mapping[str, Any]
PARTS = ("act", "step", "credit", "learn")
PART_LABELS = {
    "act": "choosing actions",
    "step": "the environment",
    "credit": "working out credit",
    "learn": "changing weights",
}
NO_ACTION = "no action"
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
_MOST_ROWS, _MOST_POINTS, _DOTTED = 12, 300, 30


@dataclass(frozen=True)
class Updates:
    """The lines of one run by sort, in the order of its steps.

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
    idle: Row | None
    unit: str = "steps"

    def learned(self) -> list[str]:
        """Names of the numbers that the learner logged, in its order; none of the bookkeeping."""
        names, others = dict.fromkeys(name for row in self.updates for name in row), {*_NO_LOSS, *self.reported()}
        own = [name for name in names if name not in others]
        return [name for name in own if any(_is_number(row.get(name)) for row in self.updates)]

    def reported(self) -> list[str]:
        """What the environment reports at the end of an attempt, e.g. ``success_mean``.

        Judged attempts and random play have it, too; means that updates alone have are the learner's, such as
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


def updates(rows: Iterable[Row], unit: str = "steps") -> Updates:
    """The lines of a run, sorted; of several lines about the same step and sort the last one counts."""
    done: dict[int, Row] = {}
    judged: dict[int, Row] = {}
    levels: dict[str, Row] = {}
    for row in rows:
        if row.get("phase") in ("random", "idle"):
            levels[row["phase"]] = row
        elif row.get("phase") == "eval":
            judged[int(row["step"])] = row
        elif "update" in row:
            done[int(row["step"])] = row
    order = [tuple(found[step] for step in sorted(found)) for found in (done, judged)]
    return Updates(order[0], order[1], levels.get("random"), levels.get("idle"), unit)


# ------------------------------------------------------------------------------------------------ success
def success_interval(row: Row) -> tuple[float, float] | None:
    """Wilson interval of ``success_mean`` over ``n`` attempts; ``None`` where it is no count of them.

    Where several attempts were at one task, ``tasks`` are what is counted: attempts at a task may well go alike.
    """
    share, n = row.get("success_mean"), row.get("n")
    if share is None or not n or abs(share * n - round(share * n)) > 1e-6:
        return None
    tasks = row.get("tasks") or n
    return wilson(round(share * n) * tasks / n, tasks)


def is_success(row: Row) -> bool:
    """Whether the return of these attempts is nothing but their success rate."""
    share = row.get("success_mean")
    return share is not None and row.get("value") is not None and abs(share - row["value"]) < 1e-9


# ------------------------------------------------------------------------------------------------ numbers
def levels(summary: Row, run: Updates, *, random: str = "random actions") -> dict[str, Row]:
    """What the run recorded to compare its score with, by its name; ``random`` is what random actions are called."""
    base, idle = summary.get("baseline") or run.chance, summary.get("idle") or run.idle
    named = {
        "before learning": summary.get("before"),
        str((base or {}).get("name") or random): base,
        str((idle or {}).get("name") or "doing nothing"): idle,
    }
    return {name: row for name, row in named.items() if row and row.get("value") is not None}


def number(name: str, row: Row, *, rate: bool, over: str = "") -> Number:
    """A row of evaluations, or a score, as a number; of a success rate with Wilson's interval."""
    ends = (success_interval(row) if rate else None) or row.get("ci95") or None
    low, high = ends if ends and len(ends) == 2 else (None, None)
    return Number(
        name,
        row.get("value"),
        None if low is None or high is None else (float(low), float(high)),
        rate,
        row.get("tasks") or row.get("n"),
        bool(row.get("higher_is_better", True)),
        over,
    )


@dataclass(frozen=True)
class Judged:
    """The score of a run and what it is compared with."""

    score: Number | None
    headline: Headline
    comparisons: tuple[Comparison, ...]


def judged(
    summary: Row, run: Updates, *, judged_as: str, beside: Sequence[tuple[str, Row | None]], against: Mapping[str, Row]
) -> Judged:
    """The score in large figures with what stands beside it, and its comparisons.

    The summary of a run that has not ended is empty: ``judged_as`` names its last evaluation then. ``beside`` are other
    numbers by name, ``against`` is what the score is compared with.
    """
    score = summary.get("score")
    if not score and run.evaluations:
        last = run.evaluations[-1]
        score = {**last, "name": f"{judged_as}, after {last['step']:,} {run.unit.removeprefix('environment ')}"}
    if not score or score.get("value") is None:
        rows = [(name, row) for name, row in beside if row and row.get("value") is not None]
        return Judged(None, Headline(tuple(number(name, row, rate=False) for name, row in rows)), ())
    whole = {**(summary.get("greedy") or {}), **{name: value for name, value in score.items() if value is not None}}
    shown = [
        (str(score["name"]), whole),
        *((name, row) for name, row in beside if row and row.get("value") is not None),
    ]
    rate = all(is_success(row) for _, row in shown)
    compared = rate and all(is_success(row) for row in against.values())
    numbers = tuple(number(name, row, rate=rate) for name, row in shown)
    own = number(str(score["name"]), whole, rate=compared, over="attempts")
    found = [
        Comparison(name, own=own, other=number(name, row, rate=compared)) for name, row in against.items() if summary
    ]
    return Judged(own, Headline(numbers), tuple(found))


# ------------------------------------------------------------------------------------------------ curves
def pictures(run: Updates, *, trained: str, judged_as: str, chance: str) -> list[Block]:
    """Return and success while learning: training line, evaluations with intervals, levels of the baselines."""
    if not run.updates:
        return []
    lines = training(run, "return", trained, 2)
    lines += [*_level(run.chance, chance, 1), *_level(run.idle, NO_ACTION, 3), evaluated(run, judged_as)]
    found: list[Block] = [Curve("Return of an attempt", _drawn(lines), run.unit, "return")] if _drawn(lines) else []
    if "success_mean" in run.reported():
        lines = [*training(run, "success_mean", trained, 2, role=""), *_level(run.chance, chance, 1, success=True)]
        lines += [*_level(run.idle, NO_ACTION, 3, success=True), _evaluated_success(run, judged_as)]
        found.append(Curve("Success", _drawn(lines), run.unit, "success", rate=True))
    return found


def _drawn(lines: Sequence[Line]) -> tuple[Line, ...]:
    return tuple(line for line in lines if line.x)


def small(run: Updates, names: Sequence[str], labels: Mapping[str, str] = {}, rates: Sequence[str] = ()) -> list[Block]:
    """One small picture for each of ``names`` that two updates or more have logged, called by ``labels``; of those in
    ``rates``, which are shares, the axis goes from 0 to 100 %.
    """
    found: list[Block] = []
    for name in names:
        if len(column(run.updates, name)[0]) > 1:
            said = labels.get(name) or name.removesuffix("_mean").replace("_", " ")
            lines = tuple(training(run, name, "", 0, role=""))
            found.append(Curve(said, lines, run.unit, said, rate=name in rates, small=True))
    return found


def numbers(
    run: Updates, names: Sequence[str], labels: Mapping[str, str] = {}, rates: Sequence[str] = ()
) -> list[Block]:
    """As ``small``; columns that never left zero are named in a line."""
    columns = {name: column(run.updates, name)[1] for name in names}
    idle = [name for name, values in columns.items() if values and not any(values)]
    said = "; ".join(labels.get(name, name.removesuffix("_mean").replace("_", " ")) for name in idle)
    found = small(run, [name for name in names if name not in idle], labels, rates)
    return [*found, Text((f"Always 0: {said}.",), "soft")] if said else found


def training(run: Updates, name: str, label: str, style: int, *, role: str = "learned") -> list[Line]:
    """A column of the updates: faint points, and a smoothed line through all of them."""
    x, y = column(run.updates, name)
    width = window(len(x))
    line_x, line_y, _ = thinned(x, smoothed(y, width))
    over = f", mean of {width} updates" if width > 1 else ""
    line_role = "learned" if role == "learned" else ""
    line = Line(label + over if label else "", tuple(line_x), tuple(line_y), style=style, mark="line", role=line_role)
    if width == 1:
        return [line]
    raw_x, raw_y, k = thinned(x, y)
    name = f"mean of {k}" if k > 1 else "each update"
    return [Line(name if label else "", tuple(raw_x), tuple(raw_y), style=style, mark="points"), line]


def evaluated(run: Updates, label: str) -> Line:
    """The evaluations with their intervals over attempts."""
    rows = [row for row in run.evaluations if row.get("value") is not None]
    ends = [row.get("ci95") or (None, None) for row in rows]
    x, y = column(rows, "value")
    low, high = tuple(lo for lo, _ in ends), tuple(hi for _, hi in ends)
    mark = "dots" if len(rows) <= _DOTTED else "line"
    return Line(label, tuple(x), tuple(y), low, high, 0, mark, role="judged")


def _evaluated_success(run: Updates, label: str) -> Line:
    """Success of the evaluations with its Wilson interval over attempts, where it is a count of them."""
    rows = [row for row in run.evaluations if _is_number(row.get("success_mean"))]
    x, y = column(rows, "success_mean")
    ends = [success_interval(row) or (None, None) for row in rows]
    low, high = tuple(lo for lo, _ in ends), tuple(hi for _, hi in ends)
    return Line(label, tuple(x), tuple(y), low, high, 0, "dots" if len(x) <= _DOTTED else "line")


def _level(row: Row | None, label: str, style: int, *, success: bool = False) -> list[Line]:
    """A baseline as a dashed line; nothing where it is not known."""
    value = None if row is None else row.get("success_mean" if success else "value")
    if row is None or value is None:
        return []
    lo, hi = (success_interval(row) if success else row.get("ci95")) or (None, None)
    return [Line(label, (0.0,), (float(value),), (lo,), (hi,), style, "level")]


def column(rows: Iterable[Row], name: str) -> tuple[list[float], list[float]]:
    """Steps and values of the lines that have a number there."""
    pairs = [(float(row["step"]), float(row[name])) for row in rows if _is_number(row.get(name))]
    return [x for x, _ in pairs], [y for _, y in pairs]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


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


def thinned(x: Sequence[float], y: Sequence[float], most: int = _MOST_POINTS) -> tuple[list[float], list[float], int]:
    """At most about ``most`` points, each the mean of ``k`` neighbours; returns ``(x, y, k)``."""
    k = max(1, -(-len(x) // most))
    starts = range(0, len(x), k)
    return [float(np.mean(x[i : i + k])) for i in starts], [float(np.mean(y[i : i + k])) for i in starts], k


# ------------------------------------------------------------------------------------------------ tables, time
def evaluations(summary: Row, run: Updates, *, sampled: str, chance: str) -> list[Block]:
    """A table of all judgements: chance, no action, greedy attempts over time, sampled ones at the end."""
    rows: list[tuple[Any, ...]] = []
    for name, row in [(chance, run.chance), (NO_ACTION, run.idle), *(("greedy", row) for row in run.evaluations)]:
        if row is not None:
            rows.append((name, f"{int(row['step']):,}", *_cells(row)))
    if summary.get("sampled"):
        rows.append((sampled, f"{run.last_step:,}", *_cells(summary["sampled"])))
    if len(rows) > _MOST_ROWS:  # the ends, and every k-th between them
        every = -(-(len(rows) - 3) // (_MOST_ROWS - 3))
        rows = [row for i, row in enumerate(rows) if i in (0, 1) or i >= len(rows) - 2 or i % every == 0]
    columns = ("actions", run.unit, "return [95 %]", "success", "length", "judged on")
    return [Table(columns, tuple(rows), said=True)] if rows else []


def _cells(row: Row) -> tuple[Any, ...]:
    success, ends = row.get("success_mean"), success_interval(row)
    said = None if success is None else interval(success, ends) if ends else percent(success)
    return interval(row["value"], row.get("ci95"), rate=False), said, row.get("length_mean"), judged_on(row)


def seconds(run: Updates) -> dict[str, float]:
    """Seconds of each part of the loop over the whole run."""
    return {part: sum(column(run.updates, f"{part}_s")[1]) for part in PARTS}


def time_split(run: Updates, facts: Mapping[str, Any], labels: Mapping[str, str] = PART_LABELS) -> list[Block]:
    """Which part of the loop took how much of the time, and ``facts`` about speed before the seconds of each part."""
    spent = seconds(run)
    if sum(spent.values()) <= 0:
        return []
    return [Split(spent), Tiles({**facts, **{f"{part}: {labels[part]}, s": spent[part] for part in PARTS}})]


def facts(manifest: Row, summary: Row, *more: str) -> tuple[str, ...]:
    """Model, seed and ``more``, which stand under a page's title; what is empty is left out."""
    model = str(summary.get("model") or manifest["config"].get("model") or "")
    return tuple(fact for fact in (model, f"seed {manifest['seed']}", *more) if fact)


def title(manifest: Row) -> str:
    """What the page of a run that learned is headed by."""
    return f"What {manifest['algo']} learned" + (f" on {manifest['env']}" if manifest.get("env") else "")


def broken(summary: Row) -> list[Block]:
    """How many attempts a run did not learn from, in its summary."""
    n = summary.get("broken")
    return [Text((f"{n} attempts broke and were not learned from",), said=True)] if n else []


def section(title: str, blocks: Sequence[Block]) -> list[Block]:
    """Blocks under a heading; nothing where there is nothing."""
    return [Section(title, tuple(blocks))] if blocks else []
