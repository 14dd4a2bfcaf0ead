"""What a run is compared with, and how that came out: no memory, random play, before learning, its own first attempts.

A difference on the same tasks has a paired interval (Newcombe's, and an exact McNemar test must agree), any other one
the interval that follows from the two estimates' own (Zou & Donner). Several seeds of one setting are taken together:
the interval is Student's t over the seeds, and never narrower than what single outcomes leave open. Fewer than five
tasks or attempts never give a verdict.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal

from evolvent.evaluate import series
from evolvent.evaluate.learning import is_success, success_interval
from evolvent.evaluate.live import count, number, percent
from evolvent.evaluate.series import Paired, Row
from evolvent.formulas.refinement import GAIN
from evolvent.formulas.statistics import difference_interval, student_interval

State = Literal["better", "worse", "same", "unknown"]
FEW = 5
_LEVEL = 0.05
_LEVELS = {"baseline": "random actions", "idle": "doing nothing", "before": "before learning"}


@dataclass(frozen=True)
class Against:
    """One comparison: with what, how it came out, and the numbers in words; ``subject``: of what, if not of the run."""

    name: str
    state: State
    numbers: str
    subject: str = ""


def own(kind: str, summaries: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> tuple[Against, ...]:
    """A setting against what its own runs recorded to compare it with; empty where that is nothing.

    Args:
        kind: of the runs (``config.json``).
        summaries: content of ``summary.json``, one a seed.
        rows: lines of metrics of all of them; ``run`` tells the seeds apart.
    """
    if kind == "programs":
        return tuple(_on_programs(rows))
    return tuple(_on_tasks(rows) or _arms(summaries[0], rows) or _levels(summaries))


def is_rate(summary: Mapping[str, Any]) -> bool:
    """Whether the score of a finished run is a success rate."""
    return any(name in summary for name in ("phases", "passes", "arms", "kernels")) or all(
        is_success(row) for row in (_judged(summary), *_known(summary).values())
    )


def sentence_of(found: Sequence[Against]) -> str:
    """All comparisons of one subject in one sentence, each outcome once."""
    if not found:
        return "No verdict: nothing was recorded to compare it with."
    words = {
        "better": "better than",
        "worse": "worse than",
        "same": "not shown to differ from",
        "unknown": "too few outcomes to compare it with",
    }
    order = dict.fromkeys(one.state for one in found)
    parts = [f"{words[state]} {listed([one.name for one in found if one.state == state])}" for state in order]
    said = "; ".join(parts)
    subject = found[0].subject
    return f"{subject}: {said}." if subject else f"{said[:1].upper()}{said[1:]}."


def by_interval(
    name: str,
    ends: tuple[float, float, float],
    numbers: str,
    *,
    n: float = math.inf,
    higher: bool = True,
    subject: str = "",
) -> Against:
    """How a difference came out: ``ends`` is ``(difference, lo, hi)``, ``n`` outcomes stand behind it."""
    _, lo, hi = ends if higher else (-ends[0], -ends[2], -ends[1])
    if n < FEW or math.isnan(lo) or math.isnan(hi):
        return Against(name, "unknown", numbers, subject)
    return Against(name, "better" if lo > 0 else "worse" if hi < 0 else "same", numbers, subject)


def by_pairs(name: str, test: Paired, subject: str = "", *, seeds: int = 1, thing: str = "task") -> Against:
    """How two success rates over the same tasks came out.

    Args:
        name: with what it is compared.
        test: the outcomes in pairs.
        subject: of what, if not of the run.
        seeds: how many runs the pairs are of.
        thing: what a pair is.
    """
    over = count(test.n, thing) + (f" of {seeds} seeds" if seeds > 1 else "")
    numbers = f"{_points((test.difference, test.lo, test.hi))} on the same {over}; "
    p = f"p = {test.p:.2g}" if test.p >= 0.001 else "p < 0.001"
    numbers += f"{test.only_a} won, {test.only_b} lost, exact McNemar {p}"
    said = by_interval(name, (test.difference, test.lo, test.hi), numbers, n=test.n, subject=subject)
    certain = said.state in ("same", "unknown") or test.p <= _LEVEL
    return said if certain else replace(said, state="same")


# ------------------------------------------------------------------------------------------- each kind of run
def _on_tasks(rows: Sequence[Row]) -> list[Against]:
    """Runs over tasks: held-out tasks before and after; the last pass and the same tasks without memory."""
    groups = series.phases(row for row in rows if row.get("phase") in series.PHASES)
    stream = series.passes(groups.get("stream", []))
    last = stream[max(stream)] if stream else []
    found = [
        _paired("no memory on held-out tasks", groups.get("after", []), groups.get("before", [])),
        _paired("no memory on the tasks it learned from", last, groups.get("control", [])),
    ]
    return [one for one in found if one is not None]


def _paired(name: str, a: Sequence[Row], b: Sequence[Row], subject: str = "", thing: str = "task") -> Against | None:
    """Two outcomes of the same tasks; ``None`` where no task stands in both, or one twice in either."""
    strip = [[{**row, "pass": 1} for row in rows] for rows in (a, b)]
    if any(len({(row.get("run"), row.get("task")) for row in rows}) < len(rows) for rows in strip):
        return None
    seeds = len({row.get("run") for row in strip[0]})
    test = series.paired(*strip, cluster="run" if seeds > 1 else "task")
    return None if test is None else by_pairs(name, test, subject, seeds=seeds, thing=thing)


def _arms(summary: Mapping[str, Any], rows: Sequence[Row]) -> list[Against]:
    """Runs of several searches: the first against each other one, on the same tasks."""
    names = [arm["name"] for arm in summary.get("arms") or ()]
    groups = series.phases(rows)
    found = [_paired(name, groups.get(names[0], []), groups.get(name, []), names[0]) for name in names[1:]]
    return [one for one in found if one is not None]


def _on_programs(rows: Sequence[Row]) -> list[Against]:
    """Runs over programs: the last attempt at each of them against the first, one attempt each."""
    judged = [row for row in rows if row.get("valid") and "kernel" in row]  # a system of yours may log other columns
    tries = series.by_key(judged, lambda row: (row.get("run"), row["kernel"]))
    found: list[Against] = []
    for what, ratio in (("programs that are right", 0.0), ("programs that are faster", GAIN)):
        ends = [
            [
                {"run": run, "task": task, "success": int(one["gate"] == "" and one["ratio"] >= ratio)}
                for (run, task), mine in tries.items()
                for one in (mine[end],)
            ]
            for end in (-1, 0)
        ]
        test = _paired(f"its first attempts in {what}", ends[0], ends[1], thing="program")
        found += [test] if test else []
    return found


def _levels(summaries: Sequence[Mapping[str, Any]]) -> list[Against]:
    """Runs with updates, or of your own: the score against each level that all of them recorded."""
    summary, scores = summaries[0], [_judged(one) for one in summaries]
    known = [_known(one) for one in summaries]
    levels = {name: [one[name] for one in known] for name in _LEVELS if all(name in one for one in known)}
    if summary.get("agents") is None or "before" in summary:
        levels = dict(sorted(levels.items(), key=lambda pair: pair[0] != "before"))  # a model could do something before
    rate = all(map(is_rate, summaries))
    higher = bool(scores[0].get("higher_is_better", True))
    return [
        _level(rows[0].get("name") or _LEVELS[name], scores, rows, rate=rate, higher=higher)
        for name, rows in levels.items()
    ]


def _known(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {name: row for name in _LEVELS if (row := summary.get(name)) and row.get("value") is not None}


def _judged(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The score with all that its judgement says: attempts, success."""
    score = {name: value for name, value in (summary.get("score") or {}).items() if value is not None}
    return {**(summary.get("greedy") or {}), **score}


def _level(
    name: str, scores: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], *, rate: bool, higher: bool
) -> Against:
    """The scores of one seed or several against a level that each of them recorded."""
    each = [
        difference_interval(a["value"], _ends(a, rate), b["value"], _ends(b, rate))
        for a, b in zip(scores, others, strict=True)
    ]
    ends = _together(each)
    ends = (ends[0], max(-1.0, ends[1]), min(1.0, ends[2])) if rate else ends
    known = not math.isnan(ends[1])
    value, other = (fmean(row["value"] for row in rows) for rows in (scores, others))
    if rate:
        numbers = f"{percent(value)} against {percent(other)}"
        numbers += f", {_points(ends)}" if known else ""
    else:
        width = ends[2] - ends[1] if known else None
        numbers = f"{number(value, width)} against {number(other, width)}"
        numbers += f", {difference(ends)}" if known else ""
    numbers += "" if higher else " (lower is better)"
    numbers += f", means of {len(each)} seeds" if len(each) > 1 else ""
    n = sum(
        min(row.get("tasks") or row.get("n") or math.inf for row in pair) for pair in zip(scores, others, strict=True)
    )
    numbers += "" if known and n >= FEW else f" ({_few(n)})"
    return by_interval(name, ends, numbers, n=n, higher=higher)


def _together(each: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    """The mean difference over seeds: Student's t over them, and no narrower than what their own intervals leave."""
    if len(each) == 1:
        return each[0]
    mean, n = fmean(one[0] for one in each), len(each)
    lo, hi = student_interval([one[0] for one in each])
    low, high = (math.hypot(*(one[end] - one[0] for one in each)) / n for end in (1, 2))
    return mean, min(lo, mean - low), max(hi, mean + high)  # NaN ends of the seeds are passed over


def difference(ends: tuple[float, float, float]) -> str:
    """A difference with its interval in words."""
    tell = [f"{'+' if end > 0 else ''}{number(end, ends[2] - ends[1])}" for end in ends]
    return f"a difference of {tell[0]} [{tell[1]}, {tell[2]}]"


def _points(ends: tuple[float, float, float]) -> str:
    value, lo, hi = (round(100 * end) for end in ends)  # rounded first: no "-0"
    return f"{value:+d} points [{lo:+d}, {hi:+d}]"


def _ends(row: Mapping[str, Any], rate: bool) -> tuple[float, float]:
    lo, hi = (success_interval(dict(row)) if rate else None) or row.get("ci95") or (None, None)
    return (math.nan, math.nan) if lo is None or hi is None else (float(lo), float(hi))


def _few(n: float) -> str:
    return "no interval" if math.isinf(n) or n >= FEW else f"judged on {n:.0f}: too few for an interval"


def listed(names: Sequence[str]) -> str:
    """Names with commas; what all of them begin with is said once: "no memory on A and on B"."""
    common = re.split(r" (?:on|in) ", names[0], maxsplit=1)[0] + " "
    names = [names[0], *(name.removeprefix(common) for name in names[1:])]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
