"""The page of a comparison: what it came to in words, curves, bars, the table, the ways to the runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from evolvent.core.jsonfile import write_atomic
from evolvent.evaluate import compare_team, series
from evolvent.evaluate.compare import Arm, Standing, cells, notes, tables, verdict
from evolvent.evaluate.pages.page import cards, page, section, table, text, way
from evolvent.evaluate.pages.report_parts import verdict_block
from evolvent.evaluate.pages.svg import Bar, Curve, bars, curves
from evolvent.formulas.statistics import clustered_bootstrap, wilson


def write_html(standings: Sequence[Standing], path: Path) -> Path:
    """The same as a self-contained page with curves."""
    arms = [standing.arm for standing in standings]
    rates = all(0.0 <= score <= 1.0 for arm in arms for score in arm.scores) and not any(arm.learned for arm in arms)
    style = {arm.name: (0, 2, 3, 4, 5, 1)[i % 6] for i, arm in enumerate(arms)}  # the control is grey
    lines = [*_control(arms), *(line for arm in arms if (line := _curve(arm, style[arm.name])) is not None)]
    ticks = [(x, f"{x:.0f}") for x in sorted({x for line in lines if line.mark != "level" for x in line.x})]
    rows = [*_without(arms), *(Bar(s.arm.name, s.iqm, *s.ci95, style=style[s.arm.name]) for s in standings)]
    shown = [(f"{arms[0].score_name}, interquartile mean", bars(rows, rates=rates))]
    if len(ticks) > 1:
        picture = curves(lines, ticks=ticks, x_label="pass over the tasks", y_label="success")
        shown.insert(0, ("Success while learning", picture))
    groups, shown_tables = tables(standings), ""
    for i, group in enumerate(groups):
        heading = f"<h3>{text(group[0].arm.env)}</h3>" if len(groups) > 1 else ""
        shown_tables += heading + table(*cells(group))
        if group[0].arm.learned:
            members = [s.arm for s in group]
            picture = compare_team.picture(members, [style[arm.name] for arm in members])
            whose = "Return" if compare_team.few_evaluations(members) else "Return of greedy attempts"
            shown.insert(i, (f"{whose} while learning, {group[0].arm.env}", picture))
    rests_on = "".join(f"<p class='small soft'>{text(line)}</p>" for line in notes(standings))
    said = verdict(standings)
    top = verdict_block(said) if said.sentence else ""
    body = [
        f"<header><h1>{text(' · '.join(arm.name for arm in arms))}</h1>{top}</header>",
        cards(shown),
        section("Comparison", shown_tables + rests_on),
        section("The runs", _links(arms, path.parent)),
    ]
    write_atomic(path, page("Comparison of runs", body))
    return path


def _links(arms: Sequence[Arm], at: Path) -> str:
    """The reports of all runs that have one, as seen from the folder ``at``."""
    lines: list[str] = []
    for arm in arms:
        reports = [(seed, place / "report.html") for seed, place in zip(arm.seeds, arm.folders, strict=False)]
        ways = [f'<a href="{text(way(report, at))}">seed {seed}</a>' for seed, report in reports if report.exists()]
        lines += [f'<p class="links small">{text(arm.name)}: {" ".join(ways)}</p>'] if ways else []
    return "".join(lines)


def _control(arms: Sequence[Arm]) -> list[Curve]:
    """What acting without memory comes to on the tasks of the stream, as a level."""
    rows = [row for arm in arms for row in series.phases(arm.rows).get("control", [])]
    rate = series.rate("without memory", rows)
    return [] if rate is None else [Curve(rate.name, [0.0], [rate.value], [rate.lo], [rate.hi], 1, "level")]


def _without(arms: Sequence[Arm]) -> list[Bar]:
    """What acting without memory comes to on the tasks that the score is about, as a bar."""
    phases = [series.phases(arm.rows) for arm in arms if not arm.learned]
    name = "before" if all("after" in one for one in phases) else "control"
    rate = series.rate("without memory", [row for one in phases for row in one.get(name, [])])
    same = len(phases) == len(arms) and len({arm.env for arm in arms}) == 1
    return [Bar(rate.name, rate.value, rate.lo, rate.hi, style=1)] if rate is not None and same else []


def _curve(arm: Arm, style: int) -> Curve | None:
    passes = series.passes(series.phases(arm.rows).get("stream", []))
    if not passes:
        return None
    y, lo, hi = [], [], []
    for rows in passes.values():
        outcomes = [float(row["success"]) for row in rows]
        y.append(fmean(outcomes))
        if len(arm.seeds) > 1:
            ends = clustered_bootstrap(outcomes, [row["run"] for row in rows])
        else:
            ends = wilson(sum(outcomes), len(outcomes))
        lo.append(ends[0])
        hi.append(ends[1])
    return Curve(arm.name, list(passes), y, lo, hi, style)
