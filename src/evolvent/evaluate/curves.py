"""The lines of several runs as one: interquartile mean over seeds, or all outcomes together; for comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evolvent.evaluate.blocks import Curve, Line, Mark, Page
from evolvent.formulas.statistics import clustered_bootstrap, iqm, stratified_bootstrap, wilson

_DOTS_MAX, _JUDGED_MIN, _POINTS_MAX = 12, 4, 120


def main_curve(page: Page) -> Curve | None:
    """The picture of a page that a comparison draws: the first with a line that has a role."""
    return next((one for one in page.of(Curve) if any(line.role for line in one.lines)), None)


def role_of(arms: Sequence[Sequence[Page]]) -> str:
    """``"judged"``, or ``"learned"`` where some arm was judged too seldom for a curve and all have the other line."""
    seldom = any(len(_common(_lines(pages, "judged"))) < _JUDGED_MIN for pages in arms)
    return "learned" if seldom and all(_lines(pages, "learned") for pages in arms) else "judged"


def together(pages: Sequence[Page], name: str, style: int, role: str) -> Line | None:
    """The lines of that role of all seeds as one, called ``name``; ``None`` where they have none."""
    lines = _lines(pages, role)
    if not lines:
        return None
    if all(len(line.n) == len(line.x) for line in lines):
        return _outcomes(lines, name, style)
    if len(lines) == 1:
        [line] = lines
        return Line(name, line.x, line.y, line.lo, line.hi, style, _mark(len(line.x)))
    if role == "learned":  # drawn of all updates: runs of other lengths have them at other steps
        x = np.array(min((line.x for line in lines), key=len))
        x = x[(x >= max(line.x[0] for line in lines)) & (x <= min(line.x[-1] for line in lines))]
        columns = np.array([np.interp(x, line.x, line.y) for line in lines]).T.tolist()
        steps = x.tolist()
    else:
        steps = _common(lines)
        values = [dict(zip(line.x, line.y, strict=True)) for line in lines]
        columns = [[found[step] for found in values] for step in steps]
    every = -(-len(steps) // _POINTS_MAX) or 1
    steps, columns = steps[::every], columns[::every]
    ends = [stratified_bootstrap([column], iqm) for column in columns]
    y = tuple(float(iqm(column)) for column in columns)
    low, high = tuple(lo for lo, _ in ends), tuple(hi for _, hi in ends)
    return Line(name, tuple(steps), y, low, high, style, _mark(len(steps)))


def levels(arms: Sequence[Sequence[Page]]) -> list[Line]:
    """The dashed lines of all runs, one a name: outcomes together, others as in the first run that has one."""
    found: dict[str, list[Line]] = {}
    for curve in (main_curve(page) for pages in arms for page in pages):
        for line in curve.lines if curve else ():
            if line.mark == "level" and line.x and _finite(line):
                found.setdefault(line.name, []).append(line)
    return [_outcomes(lines, name, 1) if all(line.n for line in lines) else lines[0] for name, lines in found.items()]


def until(pages: Sequence[Page], step: int) -> str | None:
    """The interquartile mean of each seed's last evaluation until ``step``."""
    lines = _lines(pages, "judged")
    last = [[y for x, y in zip(line.x, line.y, strict=True) if x <= step][-1:] for line in lines]
    known = [one[0] for one in last if one]
    return f"{float(iqm(known)):.4g}" if known and len(known) == len(pages) else None


def _outcomes(lines: Sequence[Line], name: str, style: int) -> Line:
    """Shares of all outcomes at each position: Wilson's interval, of several seeds a bootstrap over these."""
    cells: dict[float, list[tuple[int, int]]] = {}
    for line in lines:
        for x, y, n in zip(line.x, line.y, line.n, strict=True):
            cells.setdefault(x, []).append((round(y * n), n))
    x = tuple(sorted(cells))
    won, of = [sum(w for w, _ in cells[at]) for at in x], [sum(n for _, n in cells[at]) for at in x]
    ends = [_interval(cells[at]) if len(lines) > 1 else wilson(w, n) for at, w, n in zip(x, won, of, strict=True)]
    y = tuple(w / n for w, n in zip(won, of, strict=True))
    low, high = tuple(lo for lo, _ in ends), tuple(hi for _, hi in ends)
    mark: Mark = "level" if lines[0].mark == "level" else "dots"
    return Line(name, x, y, low, high, style, mark, tuple(of))


def _interval(cells: Sequence[tuple[int, int]]) -> tuple[float, float]:
    outcomes = [float(i < won) for won, n in cells for i in range(n)]
    return clustered_bootstrap(outcomes, [run for run, (_, n) in enumerate(cells) for _ in range(n)])


def _lines(pages: Sequence[Page], role: str) -> list[Line]:
    """Of each run its line of that role; empty unless all runs have one."""
    found = [
        next((line for line in curve.lines if line.role == role), None) if (curve := main_curve(page)) else None
        for page in pages
    ]
    known = [line for line in found if line is not None and line.x and _finite(line)]
    return known if len(known) == len(pages) else []


def _finite(line: Line) -> bool:
    return all(map(math.isfinite, (*line.x, *line.y))) and all(0 < n < 2**31 for n in line.n)


def _common(lines: Sequence[Line]) -> list[float]:
    return sorted(set.intersection(*(set(line.x) for line in lines))) if lines else []


def _mark(n: int) -> Mark:
    return "dots" if n <= _DOTS_MAX else "line"
