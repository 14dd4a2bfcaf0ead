"""Pictures as inline SVG: curves with intervals, intervals side by side, maps of shares. The page colours them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from evolvent.evaluate.blocks import Line, Number
from evolvent.evaluate.pages.page import text

WIDTH, HEIGHT = 460, 260
SMALL = (300, 170)
Scale = Callable[[float], float]
Edges = tuple[float, float]
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 14, 12, 42
CROWD = 60
"""More single points than these are drawn small and faint, so that where they are dense is seen."""
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def curves(
    lines: Sequence[Line],
    *,
    ticks: Sequence[tuple[float, str]],
    x_label: str,
    y_label: str,
    rates: bool = True,
    zero: bool = False,
    size: tuple[int, int] = (WIDTH, HEIGHT),
) -> str:
    """Curves with whiskers and a band, as an ``<svg>`` with a legend before it; empty lines are left out.

    The y axis goes from 0 to 100 % for ``rates``, and begins at 0 where values are compared by their size (``zero``).
    ``ticks`` are positions and labels of the x axis.
    """
    lines = [line for line in lines if len(line.x)]
    xs = [x for line in lines if line.mark != "level" for x in line.x] + [x for x, _ in ticks]
    lo, hi, marks = _scale([v for line in lines for v in (*line.y, *line.lo, *line.hi)], rates, zero=zero)
    left, right = min(xs, default=0.0), max(xs, default=1.0)
    dotted = [line for line in lines if line.mark == "dots"]
    pad = (0.06 if dotted else 0.01) * (right - left) or 0.5
    width, height = size
    labels = _texts(marks, rates)
    edges = max(_LEFT, 12.0 + 8 * max(len(word) for word in labels)), width - _RIGHT

    def px(x: float) -> float:
        share = (x - left + pad) / (right - left + 2 * pad)
        return edges[0] + share * (edges[1] - edges[0])

    def py(y: float) -> float:
        return _TOP + (hi - y) / (hi - lo) * (height - _TOP - _BOTTOM)

    parts = [_axis_y(marks, labels, py, edges), _axis_x(ticks, px, x_label, edges, height)]
    shift = {id(line): 3.0 * (i - (len(dotted) - 1) / 2) for i, line in enumerate(dotted)}
    ordered = sorted(lines, key=lambda line: {"level": 0, "points": 1}.get(line.mark, 2))  # later ones lie on top
    parts += [_band(line, px, py, shift.get(id(line), 0.0), edges) for line in ordered]
    parts += [_line(line, px, py, shift.get(id(line), 0.0), edges) for line in ordered]
    legend = "".join(
        f'<span class="key {line.mark} s{line.style}">{text(line.name)}</span>' for line in lines if line.name
    )
    title = text(f"{y_label} by {x_label}")
    picture = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{title}">{"".join(parts)}</svg>'
    return f'<div class="legend">{legend}</div>{picture}' if legend else picture


def step_ticks(last: float) -> list[tuple[float, str]]:
    """Round positions from 0 to ``last`` with their labels, e.g. ``200k``."""
    _, _, marks = _round_scale(0.0, max(last, 1.0))
    return [(mark, count(mark)) for mark in marks if mark <= last * 1.0001]


def count(n: float) -> str:
    """A number of steps in a few characters: ``200k``, ``1.5M``."""
    unit, letter = next(((u, letter) for u, letter in _UNITS if n >= u), (1.0, ""))
    return f"{n / unit:.3g}{letter}"


def bars(rows: Sequence[Number], styles: Sequence[int] = (), *, rates: bool = True, zero: bool = False) -> str:
    """Values with their intervals, one row each, on a common axis; those that are not known are left out.

    ``zero``: the axis holds 0.
    """
    known = [
        (row.name, row.value, *(row.ci95 or (None, None)), style)
        for row, style in zip(rows, [*styles, *[0] * len(rows)], strict=False)
        if row.value is not None and math.isfinite(row.value)
    ]
    step, head = 44, 6
    height = head + step * len(known) + 26
    values = [v for _, *row, _ in known for v in row]
    lo, hi, marks = _scale([*values, *[0.0] * zero], rates)

    def px(v: float) -> float:
        return 10 + (v - lo) / (hi - lo) * (WIDTH - 20)

    parts: list[str] = []
    for v in marks:
        anchor = "start" if v == marks[0] else "end" if v == marks[-1] else "middle"
        parts.append(_segment("grid", px(v), px(v), head, height - 22))
        where = f'x="{px(v):.1f}" y="{height - 6}" text-anchor="{anchor}"'
        parts.append(f'<text class="tick" {where}>{_label(v, rates)}</text>')
    for i, (name, value, low, high, style) in enumerate(known):
        y = head + step * i + 31
        says = _label(value, rates)
        if low is not None and high is not None and math.isfinite(low) and math.isfinite(high):
            says += f"  [{_label(low, rates, short=True)}, {_label(high, rates, short=True)}]"
            parts.append(_segment(f"whisker s{style}", px(low), px(high), y, y))
        parts.append(f'<circle class="dot s{style}" cx="{px(value):.1f}" cy="{y}" r="5.5"/>')
        room = 53 - len(says)  # characters beside the numbers
        name = name if len(name) <= room else name[: room - 1] + "…"
        parts.append(f'<text class="name" x="10" y="{y - 13}">{text(name)}</text>')
        parts.append(f'<text class="says" x="{WIDTH - 10}" y="{y - 13}" text-anchor="end">{says}</text>')
    label = text("; ".join(f"{name}: {_label(value, rates)}" for name, value, *_ in known))
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def shares(rows: Sequence[tuple[str, Sequence[float]]], *, ticks: Sequence[tuple[float, str]], x_label: str) -> str:
    """A map of shares: one row a name, one cell a position, the darker the larger; for too many names for curves.

    ``ticks``: positions, 0 to 1 across the map, and their labels.
    """
    left, step = 110, 18
    width, height = WIDTH, step * len(rows) + _TOP + _BOTTOM
    most = max([2 / max(len(rows), 1), *(share for _, row in rows for share in row)])  # equal shares are half dark
    parts: list[str] = []
    for r, (name, row) in enumerate(rows):
        y, cell = _TOP + step * r, (width - _RIGHT - left) / max(len(row), 1)
        short = name if len(name) <= 12 else "…" + name[-11:]  # names of agents differ at their ends
        parts.append(f'<text class="tick" x="{left - 7}" y="{y + 13}" text-anchor="end">{text(short)}</text>')
        parts += [
            f'<rect class="cell s0" x="{left + i * cell:.1f}" y="{y}" width="{cell + 0.3:.1f}" height="{step - 2}" '
            f'opacity="{share / most:.2f}"/>'
            for i, share in enumerate(row)
        ]
    edges = float(left), float(width - _RIGHT)
    parts.append(_axis_x(ticks, lambda x: left + x * (edges[1] - left), x_label, edges, height))
    label = text(f"shares by {x_label}")
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def spans(
    rows: Sequence[tuple[str, Sequence[tuple[float, float, int, str]]]],
    *,
    ticks: Sequence[tuple[float, str]],
    last: float,
    x_label: str,
) -> str:
    """Spans in rows over one axis from 0 to ``last`` (a Gantt chart): start, end, colour, label where there is room."""
    left, step = 42, 18
    width, height = WIDTH, step * len(rows) + _TOP + _BOTTOM
    edges = float(left), float(width - _RIGHT)

    def px(x: float) -> float:
        return left + x / (last or 1.0) * (edges[1] - left)

    parts: list[str] = []
    for r, (name, row) in enumerate(rows):
        y = _TOP + step * r
        parts.append(f'<text class="tick" x="{left - 7}" y="{y + 13}" text-anchor="end">{text(name)}</text>')
        for start, end, style, said in row:
            x, wide = px(start), px(end) - px(start)
            box = f'x="{x:.1f}" y="{y}" width="{max(wide - 0.8, 0.4):.1f}" height="{step - 2}"'
            parts.append(
                f'<rect class="cell s{style}" {box}><title>{text(f"{said}: {start:g}–{end:g}")}</title></rect>'
            )
            if wide > 4 + 7 * len(said):
                at = f'x="{x + wide / 2:.1f}" y="{y + 12}" text-anchor="middle"'
                parts.append(f'<text class="inside" {at}>{text(said)}</text>')
    parts.append(_axis_x(ticks, px, x_label, edges, height))
    label = text(f"{len(rows)} rows by {x_label}, until {last:g}")
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _scale(values: Sequence[float | None], rates: bool, *, zero: bool = False) -> tuple[float, float, list[float]]:
    """Both ends of an axis that holds what is known of the values, and its marks."""
    if rates:
        return 0.0, 1.0, [0.0, 0.25, 0.5, 0.75, 1.0]
    known = [v for v in values if v is not None and math.isfinite(v)]
    return _round_scale(min([0.0, *known] if zero else known, default=0.0), max(known, default=1.0))


def _round_scale(lo: float, hi: float) -> tuple[float, float, list[float]]:
    """An axis that holds ``lo`` and ``hi``, and at most seven round marks on it."""
    if hi - lo < 1e-12:
        pad = 0.25 * abs(lo) or 0.5
        lo, hi = lo - pad, hi + pad
    unit = 10 ** math.floor(math.log10((hi - lo) / 4))
    step = next(m * unit for m in (1, 2, 5, 10) if (hi - lo) / (m * unit) <= 5)
    first, last = math.floor(lo / step), math.ceil(hi / step)
    return first * step, last * step, [i * step for i in range(first, last + 1)]


def _texts(marks: Sequence[float], rates: bool) -> list[str]:
    """Labels of an axis, with as many decimals as its marks need to differ."""
    step = marks[1] - marks[0]
    if rates or max(abs(v) for v in marks) >= 10_000 or not 1e-5 < step < 1:
        return [_label(v, rates) for v in marks]
    decimals = math.ceil(-math.log10(step * 1.001))
    return [f"{v:.{decimals}f}" for v in marks]


def _axis_y(marks: Sequence[float], labels: Sequence[str], py: Scale, edges: Edges) -> str:
    out: list[str] = []
    for v, word in zip(marks, labels, strict=True):
        y = py(v)
        out.append(_segment("grid", *edges, y, y))
        out.append(f'<text class="tick" x="{edges[0] - 7:.0f}" y="{y + 4:.1f}" text-anchor="end">{word}</text>')
    return "".join(out)


def _axis_x(ticks: Sequence[tuple[float, str]], px: Scale, label: str, edges: Edges, height: float) -> str:
    every = max(1, math.ceil(len(ticks) / (8 if edges[1] - edges[0] > SMALL[0] else 4)))
    y = height - _BOTTOM + 17
    out = [
        f'<text class="tick" x="{px(x):.1f}" y="{y}" text-anchor="middle">{text(said)}</text>'
        for i, (x, said) in enumerate(ticks)
        if i % every == 0
    ]
    middle = sum(edges) / 2
    out.append(f'<text class="tick" x="{middle:.0f}" y="{height - 5}" text-anchor="middle">{text(label)}</text>')
    return "".join(out)


def _band(line: Line, px: Scale, py: Scale, dx: float, edges: Edges) -> str:
    ends = [
        (x, a, b)
        for x, a, b in zip(line.x, line.lo, line.hi, strict=False)  # empty where nothing is known
        if a is not None and b is not None and math.isfinite(a) and math.isfinite(b)
    ]
    if line.mark == "level" and ends:
        _, a, b = ends[0]
        across = f'x="{edges[0]:.1f}" width="{edges[1] - edges[0]:.1f}" y="{py(b):.1f}" height="{py(a) - py(b):.1f}"'
        return f'<rect class="band s{line.style}" {across}/>'
    whiskers = ends if line.mark == "dots" else []
    out = "".join(_segment(f"whisker thin s{line.style}", px(x) + dx, px(x) + dx, py(a), py(b)) for x, a, b in whiskers)
    if len(ends) > 1:
        upper = [f"{px(x) + dx:.1f},{py(b):.1f}" for x, _, b in ends]
        lower = [f"{px(x) + dx:.1f},{py(a):.1f}" for x, a, _ in reversed(ends)]
        out = f'<polygon class="band s{line.style}" points="{" ".join(upper + lower)}"/>' + out
    return out


def _line(line: Line, px: Scale, py: Scale, dx: float, edges: Edges) -> str:
    if line.mark == "level":
        return _segment(f"line level s{line.style}", *edges, py(line.y[0]), py(line.y[0]))
    points = [(px(x) + dx, py(y)) for x, y in zip(line.x, line.y, strict=True)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    if line.mark == "points":
        look, r = ("faint ", 2) if len(points) > CROWD else ("", 4)
        return "".join(
            f'<circle class="dot {look}s{line.style}" cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>' for x, y in points
        )
    shown = points if line.mark == "dots" else []
    dots = "".join(f'<circle class="dot s{line.style}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in shown)
    return f'<polyline class="line s{line.style}" points="{path}"/>{dots}'


def _label(v: float, rates: bool, *, short: bool = False) -> str:
    if rates:
        return f"{100 * v:.0f}" if short else f"{100 * v:.0f} %"
    if abs(v) >= 10_000:
        return ("-" if v < 0 else "") + count(abs(v))
    return f"{v:.4g}" if abs(v) >= 1000 else f"{v:.3g}"


def _segment(kind: str, x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'
