"""Parts of pages about runs with updates: curves, small pictures, evaluations, where the time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evolvent.evaluate.learning import (
    PARTS,
    Learning,
    chance_level,
    column,
    evaluated,
    evaluated_success,
    is_success,
    seconds,
    success_interval,
    success_level,
    training,
)
from evolvent.evaluate.live import interval, judged_on, percent
from evolvent.evaluate.pages.page import cards, table, text, tiles
from evolvent.evaluate.pages.report_parts import figure
from evolvent.evaluate.pages.svg import SMALL, curves, step_ticks

PART_WORDS = {
    "act": "choosing actions",
    "step": "the environment",
    "credit": "working out credit",
    "learn": "changing weights",
}
IDLE = "no action"
_MOST_ROWS = 12


def score(
    summary: Mapping[str, Any],
    run: Learning,
    *,
    judged_as: str,
    sampled: str,
    chance: str,
    before: Mapping[str, Any] | None = None,
) -> list[str]:
    """The score in large figures, beside it the return with sampled actions and those of the baselines.

    Args:
        summary: content of ``summary.json``; empty for a run that has not ended.
        run: its lines.
        judged_as: name of the last evaluation of a run that has not ended.
        sampled: name of the return of sampled actions.
        chance: name of the return of random actions.
        before: the same attempts before anything was learned, where they were made.
    """
    score = summary.get("score")
    if not score and run.evaluations:
        last = run.evaluations[-1]
        score = {**last, "name": f"{judged_as}, after {last['step']:,} {run.unit.removeprefix('environment ')}"}
    named = [(score, None), (before, "before learning"), (summary.get("sampled"), sampled), (run.chance, chance)]
    named.append((run.idle, f"return, {IDLE}"))
    rows = [{**row, "name": name or row["name"]} for row, name in named if row and row.get("value") is not None]
    rates = bool(rows) and all(is_success({**(summary.get("greedy") or {}), **row}) for row in rows)
    if rates:  # the return is the success rate
        rows = [{**row, "ci95": success_interval(row) or row.get("ci95")} for row in rows]
    return [figure(row, rates=rates, minor=i > 0) for i, row in enumerate(rows)]


def pictures(run: Learning, *, trained: str, judged_as: str, chance: str) -> str:
    """Return and success while learning: training line, evaluations with intervals, levels of the baselines."""
    if not run.updates:
        return ""
    ticks = step_ticks(run.last_step)
    lines = training(run, "return", trained, 2)
    lines += [*chance_level(run.chance, chance), *chance_level(run.idle, IDLE, 3), evaluated(run, judged_as, 0)]
    picture = curves(lines, ticks=ticks, x_label=run.unit, y_label="return", rates=False)
    shown = [("Return of an attempt", picture)]
    if "success_mean" in run.env_metrics():
        lines = [*training(run, "success_mean", trained, 2), *success_level(run.chance, chance)]
        lines += [*success_level(run.idle, IDLE, 3), evaluated_success(run, judged_as, 0)]
        picture = curves(lines, ticks=ticks, x_label=run.unit, y_label="success")
        shown.append(("Success", picture))
    return cards(shown)


def small(run: Learning, names: Sequence[str], words: Mapping[str, str] = {}, rates: Sequence[str] = ()) -> str:
    """One small picture for each of ``names`` that two updates or more have told.

    Args:
        run: the lines of a run.
        names: columns of the updates.
        words: what to call them; their names by default.
        rates: those of them that are shares: their axis goes from 0 to 100 %.
    """
    parts: list[str] = []
    for name in names:
        x, _ = column(run.updates, name)
        if len(x) > 1:
            said = words.get(name) or name.removesuffix("_mean").replace("_", " ")
            picture = curves(
                training(run, name, "", 0),
                ticks=step_ticks(run.last_step),
                x_label=run.unit,
                y_label=said,
                rates=name in rates,
                size=SMALL,
            )
            parts.append(f"<div><h3>{text(said)}</h3>{picture}</div>")
    return f'<div class="small-cards">{"".join(parts)}</div>' if parts else ""


def evaluations(summary: Mapping[str, Any], run: Learning, *, sampled: str, chance: str) -> str:
    """A table of all judgements: chance, no action, greedy attempts over time, sampled ones at the end."""
    rows: list[list[object]] = []
    for name, row in [(chance, run.chance), (IDLE, run.idle), *(("greedy", row) for row in run.evaluations)]:
        if row is not None:
            rows.append([name, f"{int(row['step']):,}", *_cells(row)])
    if summary.get("sampled"):
        rows.append([sampled, f"{run.last_step:,}", *_cells(summary["sampled"])])
    if len(rows) > _MOST_ROWS:  # the ends, and every k-th between them
        keep = -(-(len(rows) - 3) // (_MOST_ROWS - 3))
        rows = [row for i, row in enumerate(rows) if i in (0, 1) or i >= len(rows) - 2 or i % keep == 0]
    return table(["actions", run.unit, "return [95 %]", "success", "length", "judged on"], rows)


def _cells(row: Mapping[str, Any]) -> list[object]:
    success, ends = row.get("success_mean"), success_interval(dict(row))
    said = None if success is None else interval(success, ends) if ends else percent(success)
    return [interval(row["value"], row.get("ci95"), rate=False), said, row.get("length_mean"), judged_on(row)]


def time_split(run: Learning, facts: Mapping[str, object], words: Mapping[str, str] = PART_WORDS) -> str:
    """Which part of the loop took how much of the time, and ``facts`` about speed.

    Args:
        run: the lines of a run.
        facts: numbers for the tiles below the bar, before the seconds of each part.
        words: what each part does.
    """
    spent = seconds(run)
    whole = sum(spent.values())
    if whole <= 0:
        return ""
    styles = dict(zip(PARTS, (0, 1, 4, 2), strict=True))
    pieces = "".join(
        f'<span class="s{styles[part]}" style="width:{100 * spent[part] / whole:.2f}%"></span>' for part in PARTS
    )
    keys = "".join(f'<span class="key s{styles[p]}">{p} {100 * spent[p] / whole:.0f} %</span>' for p in PARTS)
    shown = {**facts, **{f"{part}: {words[part]}, s": spent[part] for part in PARTS}}
    return f'<div class="legend">{keys}</div><div class="split">{pieces}</div>{tiles(shown)}'
