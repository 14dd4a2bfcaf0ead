"""``report.html``: one self-contained page about a run: curves, tables, what was learned, what earned it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import write_atomic
from evolvent.evaluate import series
from evolvent.evaluate.learning import learning
from evolvent.evaluate.live import interval
from evolvent.evaluate.pages import (
    credit_book,
    report_games,
    report_language,
    report_programs,
    report_search,
    report_team,
)
from evolvent.evaluate.pages.page import cards, fold, page, section, table, text
from evolvent.evaluate.pages.report_parts import (
    configuration,
    figure,
    foot,
    head,
    least_valuable,
    links,
    memory_health,
    most_valuable,
    title,
    verdict_block,
)
from evolvent.evaluate.pages.svg import Bar, Curve, bars, curves
from evolvent.evaluate.series import Rate, Row
from evolvent.evaluate.verdict import of_run

_QUESTION_LIMIT, _ACTION_LIMIT, _TASKS_LIMIT = 1200, 2000, 400
_READING = (
    "Rates carry 95 % Wilson intervals; differences on the same tasks a bootstrap over tasks and an exact McNemar "
    "test. First encounters are tasks of a kind, or in a form, that the run had not met before."
)
_READ = {
    "search": ("phase", "task"),
    "programs": ("kernel", "gate", "ratio", "start"),
    "games": ("lineage", "phase"),
}
"""Columns without which the page of a kind cannot be drawn: a system of yours that logs others has the plain one."""
_STYLE = {"stream": 0, "after": 0, "before": 1, "control": 2}


@dataclass(frozen=True)
class TaskRow:
    """What a recorded episode says for the table of tasks."""

    question: str = ""
    actions: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """All that a report needs of one run folder."""

    manifest: dict[str, Any]
    summary: dict[str, Any]
    rows: list[Row]
    attempts: dict[int, TaskRow] = field(default_factory=dict[int, TaskRow])
    top: str = ""


def write_report(folder: Path) -> Path:
    """Write ``report.html`` into a run folder from its files alone; returns its path."""
    path = Path(folder) / "report.html"
    write_atomic(path, report(folder))
    return path


def report(folder: Path) -> str:
    """The report of a run from the files of its folder alone; works for a run that has not ended, too."""
    opened, path = RunFolder.open(folder), Path(folder) / "report.html"
    manifest, rows = opened.manifest(), opened.read_metrics()
    summary = opened.summary() if opened.finished else {}
    top = verdict_block(of_run(manifest, summary, rows, path.parent)) + links(path.parent, manifest)
    trees = report_search.read_trees(path.with_name("trees.jsonl"))
    kind = opened.kind if all(set(_READ.get(opened.kind, ())) <= set(row) for row in rows) else ""
    if kind == "language":
        samples = report_language.first_and_last(opened.read_episodes())
        return report_language.render(
            manifest, summary, learning(rows, "language"), top, credit=_credit(path), samples=samples, trees=trees
        )
    if kind == "search":
        return report_search.render(manifest, summary, rows, trees, top)
    if kind == "programs":
        return report_programs.render(manifest, summary, rows, top)
    if kind == "games":
        return report_games.render(manifest, summary, rows, report_games.read_pictures(path.parent), top)
    if kind != "memory":
        behaviour = path.with_name("behaviour.png")
        picture = behaviour.read_bytes() if behaviour.exists() else b""
        return report_team.render(manifest, summary, learning(rows, opened.kind), top, picture)
    return render(Run(manifest, summary, series.valid(rows), dict(_attempts(opened.read_episodes())), top))


def render(run: Run) -> str:
    """The page of a run over tasks as text."""
    model = str(run.summary.get("model") or run.manifest["config"].get("model") or "")
    return page(
        title(run.manifest),
        [
            head(
                run.manifest, run.summary, [model, f"seed {run.manifest['seed']}", f"{len(run.rows)} attempts"], run.top
            ),
            _score(run),
            _pictures(run),
            section("Phases", _phase_table(run)),
            section("Passes over the tasks", _pass_table(run)),
            section("The most valuable memories", most_valuable(run.summary)),
            section("The least valuable memories", least_valuable(run.summary)),
            section("Health of the memory", memory_health(run.summary)),
            section("Every task", _tasks(run)),
            section("Configuration", configuration(run.manifest)),
            foot(run.manifest, _READING),
        ],
    )


# ------------------------------------------------------------------------------------------------ parts of the page
def _score(run: Run) -> str:
    score, baseline = run.summary.get("score"), run.summary.get("baseline")
    if not score or score.get("value") is None:
        return ""
    rates = _is_rate(score) and (not baseline or _is_rate(baseline))
    shown = [figure(score, rates=rates)]
    if baseline and baseline.get("value") is not None:
        shown.append(figure(baseline, rates=rates, minor=True))
    return f'<div class="hero">{"".join(shown)}</div>'


def _pictures(run: Run) -> str:
    groups = series.phases(run.rows)
    shown: list[tuple[str, str]] = []
    lines, ticks, label = _curves(groups)
    if lines:
        picture = curves(lines, ticks=ticks, x_label=label, y_label="success")
        shown.append(("Success while learning", picture))
    rows = [
        Bar(_phase_name(name), rate.value, rate.lo, rate.hi, _STYLE.get(name, 3))
        for name, members in groups.items()
        if (rate := series.rate(name, members)) is not None
    ]
    if len(rows) > 1:
        shown.append(("Success by phase", bars(rows)))
    return cards(shown)


def _curves(groups: Mapping[str, list[Row]]) -> tuple[list[Curve], list[tuple[float, str]], str]:
    """Success by pass where there are several passes, by block of tasks where there is one."""
    stream = groups.get("stream", [])
    passes = series.passes(stream)
    if len(passes) >= 2:
        lines = [_curve("all tasks", {p: series.rate("", rows) for p, rows in passes.items()}, 0)]
        control = series.passes(groups.get("control", []))
        if len(control) >= 2:
            lines.append(_curve("without memory", {p: series.rate("", rows) for p, rows in control.items()}, 2))
        firsts = {p: [row for row in rows if row.get("first")] for p, rows in passes.items()}
        lines += [] if len(control) >= 2 else _control(groups)
        if sum(bool(rows) for rows in firsts.values()) >= 2:
            lines.append(_curve("first encounters", {p: series.rate("", r) for p, r in firsts.items()}, 4))
        return lines, [(p, str(p)) for p in passes], "pass over the tasks"
    if len(stream) < 12:
        return [], [], ""
    cut = series.blocks(stream)
    line = _curve("tasks of the stream", {i: series.rate("", rows) for i, (_, rows) in enumerate(cut)}, 0)
    return [*_control(groups), line], [(i, name) for i, (name, _) in enumerate(cut)], "tasks, in the order they came"


def _control(groups: Mapping[str, list[Row]]) -> list[Curve]:
    """What acting without memory comes to, as a level: on the tasks of the stream, or on those held out."""
    name = "control" if "control" in groups else "before"
    rate = series.rate("without memory", groups.get(name, []))
    return [] if rate is None else [Curve(rate.name, [0.0], [rate.value], [rate.lo], [rate.hi], 2, "level")]


def _curve(name: str, points: Mapping[int, Rate | None], style: int) -> Curve:
    kept = {x: rate for x, rate in points.items() if rate is not None}
    rates = list(kept.values())
    return Curve(name, list(kept), [r.value for r in rates], [r.lo for r in rates], [r.hi for r in rates], style)


def _phase_table(run: Run) -> str:
    rows: list[list[object]] = []
    for name, members in series.phases(run.rows).items():
        rate = series.rate(name, members)
        if rate is not None:
            cost = [_mean(members, "tokens") or None, _mean(members, "seconds")]  # a function has no tokens
            rows.append([_phase_name(name), rate.n, rate.successes, interval(rate.value, rate.ci95), *cost])
    return table(["phase", "tasks", "right", "success [95 %]", "tokens a task", "seconds a task"], rows)


def _pass_table(run: Run) -> str:
    passes = series.passes(series.phases(run.rows).get("stream", []))
    rows: list[list[object]] = []
    for number, members in passes.items():
        cells: list[object] = [number, len(members)]
        for part in (members, [r for r in members if r.get("first")], [r for r in members if r.get("repeat")]):
            rate = series.rate("", part)
            cells.append(interval(rate.value, rate.ci95) if rate else None)
        last = members[-1]
        rows.append([*cells, _mean(members, "shown"), last.get("bank"), last.get("coverage")])
    columns = ["pass", "tasks", "success [95 %]", "first encounters", "repeats", "shown a task", "memories", "coverage"]
    return table(columns, rows, left=())


def _tasks(run: Run) -> str:
    out: list[str] = []
    for name, members in series.phases(run.rows).items():
        for number, rows in series.passes(members).items():
            several = len(series.passes(members)) > 1
            right = sum(int(row["success"]) for row in rows)
            heading = f"{_phase_name(name)}{f', pass {number}' if several else ''} – {right} of {len(rows)} right"
            lines = [_task(row, run.attempts.get(int(row["step"]), TaskRow())) for row in rows[:_TASKS_LIMIT]]
            if len(rows) > _TASKS_LIMIT:
                lines.append(f'<p class="soft">and {len(rows) - _TASKS_LIMIT} more in episodes.jsonl</p>')
            out.append(fold(heading, "".join(lines)))
    return "".join(out)


def _task(row: Row, attempt: TaskRow) -> str:
    mark = '<span class="tag good">✓ right</span>' if row["success"] else '<span class="tag bad">✗ wrong</span>'
    question = str(row.get("question") or attempt.question or row.get("task", ""))
    action = str(row.get("action") or "\n".join(attempt.actions))
    parts = [f"<div>{text(question[:_QUESTION_LIMIT])}</div>"]
    if action:
        parts.append(f'<span class="mono">{text(action[:_ACTION_LIMIT])}</span>')
    facts = [str(row["kind"])] if row.get("kind") else []
    if attempt.shown:
        facts.append("shown: " + ", ".join(attempt.shown))
    if attempt.omitted:
        facts.append("left out on purpose: " + ", ".join(attempt.omitted))
    if row.get("note"):
        facts.append(str(row["note"]))
    if row.get("seconds") is not None:
        facts.append(f"{row['seconds']:.1f} s")
    parts.append(f'<div class="shown">{text(" · ".join(facts))}</div>')
    return f'<div class="task"><div>{mark}</div><div>{"".join(parts)}</div></div>'


# ------------------------------------------------------------------------------------------------ small things
def _credit(report: Path) -> credit_book.CreditBook | str | None:
    """What ``credit.json`` beside the report holds, or why it cannot be shown: the rest of the page is worth having."""
    path = report.with_name("credit.json")
    if not path.exists():
        return None
    try:
        return credit_book.read(path)
    except BadInput as error:
        return f"The credit of the attempts is not shown. {error}"


def _attempts(records: Iterator[dict[str, Any]]) -> Iterator[tuple[int, TaskRow]]:
    for record in records:
        nodes: list[dict[str, Any]] = record.get("nodes", [])
        seen = [str(node["text"]) for node in nodes if node["kind"] == "observation"]
        recalls = [node for node in nodes if node["kind"] == "recall"]
        yield (
            int(record["step"]),
            TaskRow(
                seen[0] if seen else "",
                tuple(str(node["text"]) for node in nodes if node["kind"] == "action"),
                _distinct(recalls, "shown"),
                _distinct(recalls, "omitted"),
            ),
        )


def _distinct(recalls: Sequence[Mapping[str, Any]], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(item) for node in recalls for item in node.get(name, ())))


def _phase_name(name: str) -> str:
    return series.PHASES.get(name, name)


def _is_rate(score: Mapping[str, Any]) -> bool:
    return all(v is None or 0.0 <= v <= 1.0 for v in (score["value"], *(score.get("ci95") or ())))


def _mean(rows: Sequence[Row], name: str) -> float | None:
    cells = [row[name] for row in rows if row.get(name) is not None]
    values = [float(len(cell)) if isinstance(cell, list) else float(cell) for cell in cells]
    return round(fmean(values), 1) if values else None
