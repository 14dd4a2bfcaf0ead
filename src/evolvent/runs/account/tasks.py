"""What a run over tasks says on its page: success by phase and pass, each task, and the same tasks without learning.

A line of the metrics is an attempt: ``task``, ``success``, ``valid`` (0: it broke and does not count), ``phase``
("before", "stream", "after", "control") and, of the stream, ``pass``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from evolvent.evaluate.blocks import (
    Attempts,
    Bars,
    Block,
    Comparison,
    Curve,
    Line,
    Number,
    Outcomes,
    Section,
    Table,
    Text,
)
from evolvent.evaluate.live import count, interval
from evolvent.runs.account import series, updates
from evolvent.runs.account.series import Rate, Row

_QUESTION, _ACTION, _TASKS, _STREAM_MIN = 1200, 2000, 400, 12
_STYLE = {"stream": 0, "after": 0, "before": 1, "control": 2}
PHASES = {
    "before": "before: held-out tasks, nothing learned yet",
    "stream": "stream: tasks it learned from",
    "after": "after: the same held-out tasks",
    "control": "control: tasks of the stream, no memory",
}


@dataclass(frozen=True)
class Seen:
    """What a recorded episode says for the list of tasks.

    Attributes:
        question: its first observation.
        judged: of each action that called functions, the verdict (``formulas.call_match.judgement``).
        asked: all observations; only where there is such a verdict.
        words: what the environment said of the last action.
        cut: the last action was cut off by its length.
    """

    question: str = ""
    actions: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    judged: tuple[Any, ...] = ()
    asked: tuple[str, ...] = ()
    words: str = ""
    cut: bool = False


def seen(records: Iterable[Mapping[str, Any]]) -> dict[int, Seen]:
    """Of each recorded episode, by its step: the question, what was done, and the memories in sight."""
    return {int(record["step"]): seen_in(record) for record in records}


def seen_in(record: Mapping[str, Any]) -> Seen:
    """The same of one episode."""
    nodes: list[Mapping[str, Any]] = record.get("nodes", [])
    meta: Mapping[str, Any] = record.get("meta") or {}
    asked = tuple(str(node["text"]) for node in nodes if node["kind"] == "observation")
    recalls = [node for node in nodes if node["kind"] == "recall"]
    acts = [node for node in nodes if node["kind"] == "action"]
    of = [tuple(dict.fromkeys(str(i) for n in recalls for i in n.get(name, ()))) for name in ("shown", "omitted")]
    judged = tuple(meta["judged"]) if isinstance(meta.get("judged"), list) else ()
    return Seen(
        asked[0] if asked else "",
        tuple(str(node["text"]) for node in acts),
        *of,
        judged=judged,
        asked=asked if judged else (),
        words=str(meta.get("words") or ""),
        cut=bool(acts) and acts[-1].get("finish") == "length",
    )


# ------------------------------------------------------------------------------------------------ outcomes
def final(rows: Sequence[Row]) -> list[Row]:
    """The attempts that the score speaks about: held-out tasks after learning, or the last pass of the stream."""
    groups = series.phases(rows)
    if "after" in groups:
        return groups["after"]
    passes = series.passes(groups.get("stream", []))
    return passes[max(passes)] if passes else []


def outcomes(rows: Sequence[Row], name: str = "", thing: str = "task") -> Outcomes:
    """These attempts as what runs are compared by."""
    named = [row for row in rows if row.get("task") is not None]
    cells = tuple((str(row["task"]), int(row["success"]), str(row.get("kind") or "")) for row in named)
    return Outcomes(cells, name, thing)


def pairs(name: str, a: Sequence[Row], b: Sequence[Row], subject: str = "", thing: str = "task") -> list[Comparison]:
    """Two outcomes of the same tasks; none where no task stands in both, or one twice in either."""
    sides = [{str(row.get("task")): int(row["success"]) for row in series.valid(rows)} for rows in (a, b)]
    if any(len(side) < len(series.valid(rows)) for side, rows in zip(sides, (a, b), strict=True)):
        return []  # one that names no task is one of many that are called None
    both = tuple((task, won, sides[1][task]) for task, won in sides[0].items() if task in sides[1])
    return [Comparison(name, subject, both, thing)] if both else []


def comparisons(rows: Sequence[Row]) -> list[Comparison]:
    """Held-out tasks before and after; the last pass and the same tasks without memory."""
    groups = series.phases(row for row in rows if row.get("phase", "stream") in PHASES)
    stream = series.passes(groups.get("stream", []))
    last = stream[max(stream)] if stream else []
    return [
        *pairs("no memory on held-out tasks", groups.get("after", []), groups.get("before", [])),
        *pairs("no memory on the tasks it learned from", last, groups.get("control", [])),
    ]


def scored(summary: Mapping[str, Any], so_far: Rate | None) -> tuple[Number | None, list[Number]]:
    """The score and its baseline; of a run that goes on, how often it was right so far."""
    score, baseline = summary.get("score"), summary.get("baseline")
    if score and score.get("value") is not None:
        rate = _is_rate(score) and (not baseline or _is_rate(baseline))
        known = [baseline] if baseline and baseline.get("value") is not None else []
        return updates.number(str(score["name"]), score, rate=rate), [
            updates.number(str(b["name"]), b, rate=rate) for b in known
        ]
    if summary or so_far is None:
        return None, []  # it ended without one, or has not begun
    return Number(so_far.name, so_far.value, so_far.ci95, rate=True, n=so_far.n), []


def _is_rate(score: Mapping[str, Any]) -> bool:
    return all(v is None or 0.0 <= v <= 1.0 for v in (score["value"], *(score.get("ci95") or ())))


# ------------------------------------------------------------------------------------------------ pictures
def pictures(rows: Sequence[Row]) -> list[Block]:
    """Success while learning, and by phase."""
    groups = series.phases(rows)
    found: list[Block] = []
    lines, ticks, label = _curves(groups)
    if lines:
        found.append(Curve("Success while learning", tuple(lines), label, "success", rate=True, ticks=tuple(ticks)))
    named = {name: rate for name, members in groups.items() if (rate := series.rate(name, members)) is not None}
    if len(named) > 1:
        bars = tuple(Number(PHASES.get(n, n), r.value, (r.lo, r.hi), rate=True, n=r.n) for n, r in named.items())
        found.append(Bars("Success by phase", bars, tuple(_STYLE.get(name, 3) for name in named)))
    return found


def _curves(groups: Mapping[str, list[Row]]) -> tuple[list[Line], list[tuple[float, str]], str]:
    """Success by pass where there are several passes, by block of tasks where there is one."""
    stream = groups.get("stream", [])
    passes = series.passes(stream)
    if len(passes) >= 2:
        lines = [_line("all tasks", {p: series.rate("", rows) for p, rows in passes.items()}, 0, role="judged")]
        control = series.passes(groups.get("control", []))
        if len(control) >= 2:
            lines.append(_line("without memory", {p: series.rate("", rows) for p, rows in control.items()}, 2))
        firsts = {p: [row for row in rows if row.get("first")] for p, rows in passes.items()}
        lines += [] if len(control) >= 2 else _control(groups)
        if sum(bool(rows) for rows in firsts.values()) >= 2:
            lines.append(_line("first encounters", {p: series.rate("", r) for p, r in firsts.items()}, 4))
        return lines, [(float(p), str(p)) for p in passes], "pass over the tasks"
    if len(stream) < _STREAM_MIN:
        return [], [], ""
    cut = series.blocks(stream)
    line = _line("tasks of the stream", {i: series.rate("", rows) for i, (_, rows) in enumerate(cut)}, 0)
    ticks = [(float(i), name) for i, (name, _) in enumerate(cut)]
    return [*_control(groups), line], ticks, "tasks, in the order they came"


def _control(groups: Mapping[str, list[Row]]) -> list[Line]:
    """What acting without memory comes to, as a level: on the tasks of the stream, or on those held out."""
    rate = series.rate("without memory", groups.get("control" if "control" in groups else "before", []))
    if rate is None:
        return []
    return [Line(rate.name, (0.0,), (rate.value,), (rate.lo,), (rate.hi,), 2, "level", n=(rate.n,))]


def _line(name: str, points: Mapping[int, Rate | None], style: int, *, role: str = "") -> Line:
    known = {float(x): rate for x, rate in points.items() if rate is not None}
    rates = list(known.values())
    y, low, high = (tuple(getattr(rate, what) for rate in rates) for what in ("value", "lo", "hi"))
    n = tuple(rate.n for rate in rates)
    return Line(name, tuple(known), y, low, high, style, n=n, role="judged" if role == "judged" else "")


# ------------------------------------------------------------------------------------------------ tables
def phase_table(rows: Sequence[Row]) -> list[Block]:
    """Success by phase, with what a task cost."""
    lines: list[tuple[Any, ...]] = []
    for name, members in series.phases(rows).items():
        if (rate := series.rate(name, members)) is not None:
            cost = _mean(members, "tokens") or None, _mean(members, "seconds")  # a function has no tokens
            lines.append((PHASES.get(name, name), rate.n, rate.successes, interval(rate.value, rate.ci95), *cost))
    columns = ("phase", "tasks", "right", "success [95 %]", "tokens a task", "seconds a task")
    return [Table(columns, tuple(lines), said=True)] if lines else []


def pass_table(rows: Sequence[Row]) -> list[Block]:
    """Success by pass: all tasks, those met for the first time, and the others."""
    lines: list[tuple[Any, ...]] = []
    for number, members in series.passes(series.phases(rows).get("stream", [])).items():
        cells: list[Any] = [number, len(members)]
        for part in (members, [r for r in members if r.get("first")], [r for r in members if r.get("repeat")]):
            rate = series.rate("", part)
            cells.append(interval(rate.value, rate.ci95) if rate else None)
        last = members[-1]
        lines.append((*cells, _mean(members, "shown"), last.get("bank"), last.get("coverage")))
    columns = ("pass", "tasks", "success [95 %]", "first encounters", "repeats", "shown a task", "memories", "coverage")
    return [Table(columns, tuple(lines), left=(), said=True)] if lines else []


def every_task(rows: Sequence[Row], attempts: Mapping[int, Seen]) -> list[Block]:
    """Each attempt with its question and answer, by phase and pass; opens on a click."""
    found: list[Block] = []
    for name, members in series.phases(rows).items():
        several = len(series.passes(members)) > 1
        for number, of in series.passes(members).items():
            right = sum(int(row["success"]) for row in of)
            heading = f"{PHASES.get(name, name)}{f', pass {number}' if several else ''} – {right} of {len(of)} right"
            inside: list[Block] = [Attempts(tuple(_attempt(row, attempts) for row in of[:_TASKS]))]
            if len(of) > _TASKS:
                inside.append(Text((f"and {len(of) - _TASKS} more in episodes.jsonl",), "soft"))
            found.append(Section(heading, tuple(inside), folded=True))
    return found


def _attempt(row: Row, attempts: Mapping[int, Seen]) -> tuple[bool, str, str, str]:
    attempt = attempts.get(int(row["step"]), Seen())
    facts = [str(row["kind"])] if row.get("kind") else []
    facts += ["shown: " + ", ".join(attempt.shown)] if attempt.shown else []
    facts += ["left out on purpose: " + ", ".join(attempt.omitted)] if attempt.omitted else []
    facts += [str(row["note"])] if row.get("note") else []
    facts += [f"{row['seconds']:.1f} s"] if row.get("seconds") is not None else []
    question = str(row.get("question") or attempt.question or row.get("task", ""))
    action = str(row.get("action") or "\n".join(attempt.actions))
    return bool(row["success"]), question[:_QUESTION], action[:_ACTION], " · ".join(facts)


def broken(rows: Iterable[Row]) -> list[Block]:
    """How many attempts broke, and the error of the first."""
    found = [str(row.get("error", "not valid")) for row in rows if not row.get("valid", 1)]
    return (
        [Text((f"{count(len(found), 'attempt')} broke, not counted: {found[0]}",), "soft", said=True)] if found else []
    )


def _mean(rows: Sequence[Row], name: str) -> float | None:
    cells = [row[name] for row in rows if row.get(name) is not None]
    values = [float(len(cell)) if isinstance(cell, list) else float(cell) for cell in cells]
    return round(fmean(values), 1) if values else None
