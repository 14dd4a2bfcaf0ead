"""The page of a comparison: what it came to in words, curves, bars, the table, the ways to the runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evolvent.core.jsonfile import write_atomic
from evolvent.evaluate import curves as lines_of
from evolvent.evaluate.blocks import Bars, Comparison, Curve, Number
from evolvent.evaluate.compare import Arm, Standing, cells, notes, tables, verdict
from evolvent.evaluate.pages.draw import draw
from evolvent.evaluate.pages.page import page, section, table, text, way
from evolvent.evaluate.pages.report import verdict_block
from evolvent.formulas.statistics import wilson


def write_html(standings: Sequence[Standing], path: Path) -> Path:
    """The same as a self-contained page with curves."""
    arms = [standing.arm for standing in standings]
    rates = all(page.score is not None and page.score.rate for arm in arms for page in arm.pages)
    style = {arm.name: (0, 2, 3, 4, 5, 1)[i % 6] for i, arm in enumerate(arms)}  # the control is grey
    without = _without(arms)
    numbers = (*without, *(Number(s.arm.name, s.iqm, s.ci95, rate=rates) for s in standings))
    styles = (*(1 for _ in without), *(style[arm.name] for arm in arms))
    bars = Bars(f"{arms[0].score.name}, interquartile mean", numbers, styles)
    groups, shown_tables = tables(standings), ""
    for group in groups:
        heading = f"<h3>{text(group[0].arm.env)}</h3>" if len(groups) > 1 else ""
        shown_tables += heading + table(*cells(group))
    rests_on = "".join(f"<p class='small soft'>{text(line)}</p>" for line in notes(standings))
    said = verdict(standings)
    top = verdict_block(said) if said.sentence else ""
    body = [
        f"<header><h1>{text(' · '.join(arm.name for arm in arms))}</h1>{top}</header>",
        draw([*_curves(arms, style), bars], path.parent),
        section("Comparison", shown_tables + rests_on),
        section("The runs", _links(arms, path.parent)),
    ]
    write_atomic(path, page("Comparison of runs", body))
    return path


def _curves(arms: Sequence[Arm], style: dict[str, int]) -> list[Curve]:
    """The lines of the arms; numbers that are no shares mean something else everywhere: one picture an environment."""
    groups: dict[tuple[str, str, str], list[tuple[Arm, Curve]]] = {}
    for arm in arms:
        if (curve := lines_of.main_curve(arm.pages[0])) is not None:
            key = curve.title, curve.x_label, "" if curve.rate else arm.env
            groups.setdefault(key, []).append((arm, curve))
    shown: list[Curve] = []
    for (title, x_label, env), members in groups.items():
        pages, curve = [arm.pages for arm, _ in members], members[0][1]
        role = lines_of.role_of(pages)
        found = [lines_of.together(arm.pages, arm.name, style[arm.name], role) for arm, _ in members]
        lines = [line for line in found if line is not None]
        if any(len(line.x) > 1 for line in lines):
            title += ", on what it learned from" * (role == "learned") + (f", {env}" if env else "")
            ticks = curve.ticks and tuple((x, f"{x:.0f}") for x in sorted({x for line in lines for x in line.x}))
            drawn = (*lines_of.levels(pages), *lines)
            shown.append(Curve(title, drawn, x_label, curve.y_label, curve.rate, ticks=ticks))
    return shown


def _links(arms: Sequence[Arm], at: Path) -> str:
    """The reports of all runs that have one, as seen from the folder ``at``."""
    lines: list[str] = []
    for arm in arms:
        reports = [(seed, place / "report.html") for seed, place in zip(arm.seeds, arm.folders, strict=False)]
        ways = [f'<a href="{text(way(report, at))}">seed {seed}</a>' for seed, report in reports if report.exists()]
        lines += [f'<p class="links small">{text(arm.name)}: {" ".join(ways)}</p>'] if ways else []
    return "".join(lines)


def _without(arms: Sequence[Arm]) -> list[Number]:
    """What the first thing in pairs that all runs are compared with came to, as a bar, on one environment."""
    first = [next((c for c in page.of(Comparison) if c.pairs), None) for arm in arms for page in arm.pages]
    known = [one for one in first if one is not None]
    if len(known) < len(first) or len({one.name for one in known}) > 1 or len({arm.env for arm in arms}) > 1:
        return []
    outcomes = [won for one in known for _, _, won in one.pairs]
    return [Number(known[0].name, sum(outcomes) / len(outcomes), wilson(sum(outcomes), len(outcomes)), rate=True)]
