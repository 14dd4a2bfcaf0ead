"""Pictures of a memory as inline SVG: a value over time, provenance, what was shown when, growth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from evolvent.evaluate.pages.page import text

_SHADES = 7  # classes t0 (worst) to t6 (best) of the style
_CHART = (300, 118)
_STRIP, _ROW, _LABELS = 840, 15, 58
_COLUMN, _LINE = 104, 27


def shade(value: float | None, lo: float, hi: float) -> str:
    """The class that colours a value or reward between ``lo`` and ``hi``; ``none`` where there is no value."""
    if value is None:
        return "none"
    share = (value - lo) / (hi - lo) if hi > lo else 0.5
    return f"t{min(_SHADES - 1, max(0, int(share * _SHADES)))}"


def value_chart(chart: Mapping[str, Any], lo: float, hi: float) -> str:
    """The value of one memory after each outcome, one mark for each event; rewards go from ``lo`` to ``hi``.

    ``points`` of the chart are ``[receipt, rule, reward, value, counts]``, ``start`` is the starting value.
    """
    width, height = _CHART
    left, right, top, bottom = 26, 8, 8, 20
    points = chart["points"]
    ends = [chart["start"], *(p[3] for p in points)]
    low, high = min(lo, *ends), max(hi, *ends)
    first, last = (points[0][0], points[-1][0]) if points else (0, 1)

    def x(receipt: float) -> float:
        return left + (receipt - first) / max(1, last - first) * (width - left - right)

    def y(value: float) -> float:
        return top + (high - value) / max(1e-12, high - low) * (height - top - bottom)

    parts = [
        f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y(v):.1f}" y2="{y(v):.1f}"/>'
        f'<text class="tick" x="{left - 5}" y="{y(v) + 4:.1f}" text-anchor="end">{v:g}</text>'
        for v in (low, high)
    ]
    start = f"{y(chart['start']):.1f}"
    parts.append(f'<line class="start" x1="{left}" x2="{width - right}" y1="{start}" y2="{start}"/>')
    steps, at = [], chart["start"]
    for receipt, _, _, value, counts in points:
        if counts:
            steps += [f"{x(receipt):.1f},{y(at):.1f}", f"{x(receipt):.1f},{y(value):.1f}"]
            at = value
    if steps:
        parts.append(f'<polyline class="path" points="{" ".join(steps)}"/>')
    parts += [_mark(x(p[0]), y(p[3]), p, shade(p[2], lo, hi)) for p in points]
    foot = f'y="{height - 5}" class="tick"'
    parts.append(f'<text {foot} x="{left}">r{first}</text>')
    parts.append(f'<text {foot} x="{width - right}" text-anchor="end">r{last}</text>')
    label = f"value of {chart['id']} over {chart['events']} events: {chart['start']:.2f} to {chart['value']:.2f}"
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text(label)}">{"".join(parts)}</svg>'


def _mark(x: float, y: float, point: Sequence[Any], colour: str) -> str:
    receipt, rule, reward, value, counts = point
    kind = f'class="{"out" if rule == "omitted" else "mark"} {colour}{"" if counts else " void"}"'
    said = f"<title>r{receipt}: {rule}, reward {reward:g}, value {value:.3f}{'' if counts else ' (voided)'}</title>"
    if rule == "ancestor":
        return f'<path {kind} d="M{x:.1f} {y - 4:.1f}l4 4-4 4-4-4z">{said}</path>'
    radius = 2.6 if rule == "omitted" else 3.4
    return f'<circle {kind} cx="{x:.1f}" cy="{y:.1f}" r="{radius}">{said}</circle>'


def strip(data: Mapping[str, Any], lo: float, hi: float) -> str:
    """Memories by receipts: which were shown, coloured by the mean reward of what followed, from ``lo`` to ``hi``.

    ``rows`` are memories, ``columns`` the first receipt of each, ``cells``
    ``[row, column, mean reward or None, shown, left out]``.
    """
    rows, columns = data["rows"], data["columns"]
    width, height = _STRIP, _ROW * len(rows) + 24
    cell = (width - _LABELS - 10) / max(1, len(columns))
    side = min(6.0, cell - 2)
    parts: list[str] = []
    for i, row in enumerate(rows):
        if i % 2 == 0:
            at = f'x="{_LABELS}" y="{i * _ROW}" width="{width - _LABELS - 10}" height="{_ROW}"'
            parts.append(f'<rect class="stripe" {at}/>')
        mark = "✕ " if row["status"] == "quarantined" else ""
        said = f"<title>{text(row['id'] + ': ' + row['key'])}</title>"
        at = f'x="{_LABELS - 6}" y="{i * _ROW + 11}" text-anchor="end"'
        parts.append(f'<text class="id" {at}>{mark}{row["id"]}{said}</text>')
    for row, column, reward, shown, left in data["cells"]:
        x, y = _LABELS + column * cell, row * _ROW
        outcome = "not settled" if reward is None else f"mean reward {reward:.2f}"
        said = f"{rows[row]['id']} from {columns[column]}: shown {shown}, left out {left}"
        if shown:
            at = f'x="{x + 0.5:.1f}" y="{y + 1.5}" width="{cell - 1:.1f}" height="{_ROW - 3}"'
            kind, said = f"cell {shade(reward, lo, hi)}", f"{said}, {outcome}"
        else:
            at = f'x="{x + (cell - side) / 2:.1f}" y="{y + 4.5}" width="{side:.1f}" height="6"'
            kind = "left"
        parts.append(f'<rect class="{kind}" {at}><title>{said}</title></rect>')
    for column in sorted({0, len(columns) // 2, len(columns) - 1}):
        anchor = "start" if column == 0 else "end" if column == len(columns) - 1 else "middle"
        x = _LABELS + column * cell + (cell if anchor == "end" else 0)
        parts.append(f'<text class="tick" x="{x:.1f}" y="{height - 6}" text-anchor="{anchor}">{columns[column]}</text>')
    label = f"what was shown when: {len(rows)} memories in {len(columns)} columns of receipts"
    return f'<svg class="wide" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def graph(data: Mapping[str, Any], lo: float, hi: float) -> str:
    """Provenance: parents left, children right, coloured by value, from ``lo`` to ``hi``.

    ``nodes`` are memories, ``edges`` ``[parent, child, relation]``.
    """
    nodes = {node["id"]: node for node in data["nodes"]}
    columns = _columns(list(nodes), data["edges"])
    tall = max(len(column) for column in columns)
    place: dict[str, tuple[float, float]] = {}
    for c, column in enumerate(columns):
        gap = tall / len(column)
        for i, id_ in enumerate(column):
            place[id_] = (24 + c * _COLUMN, 20 + (i + 0.5) * gap * _LINE - _LINE / 2)
    width, height = 24 + len(columns) * _COLUMN, 24 + tall * _LINE
    parts = [_edge(place[parent], place[child], relation) for parent, child, relation in data["edges"]]
    parts += [_node(node, *place[id_], shade(node["value"], lo, hi)) for id_, node in nodes.items()]
    label = f"provenance of {len(nodes)} memories"
    size = f'style="width: {width}px; max-width: {width}px; min-width: {min(width, 640)}px"'
    return (
        f'<svg class="graph" viewBox="0 0 {width} {height}" {size} role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )


def _columns(ids: Sequence[str], edges: Sequence[Sequence[str]]) -> list[list[str]]:
    """Ids by distance from the oldest ancestors, each column ordered so that few edges cross."""
    depth = dict.fromkeys(ids, 0)
    parents: dict[str, list[str]] = {id_: [] for id_ in ids}
    children: dict[str, list[str]] = {id_: [] for id_ in ids}
    for parent, child, _ in sorted(edges, key=lambda edge: int(edge[1][1:])):  # parents are older: one pass is enough
        depth[child] = max(depth[child], depth[parent] + 1)
        parents[child].append(parent)
        children[parent].append(child)
    columns: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for id_ in sorted(ids, key=lambda id_: int(id_[1:])):
        columns[depth[id_]].append(id_)
    for near in (parents, children, parents, children):
        place = {id_: (i + 0.5) / len(column) for column in columns for i, id_ in enumerate(column)}
        for column in columns:
            column.sort(key=lambda id_: fmean([place[other] for other in near[id_]] or [place[id_]]))
    return columns


def _edge(a: tuple[float, float], b: tuple[float, float], relation: str) -> str:
    half = (a[0] + b[0]) / 2
    kind = "" if relation == "retrieved" else f" {text(relation)}"
    return (
        f'<path class="edge{kind}" d="M{a[0]:.0f} {a[1]:.1f}C{half:.0f} {a[1]:.1f} {half:.0f} {b[1]:.1f} '
        f'{b[0]:.0f} {b[1]:.1f}"/>'
    )


def _node(node: Mapping[str, Any], x: float, y: float, colour: str) -> str:
    gone = " gone" if node["status"] in ("archived", "superseded") else ""
    said = f"{node['id']} ({node['status']}, by {node['source']}): value {node['value']:.2f}, {node['key']}"
    ring = f'<circle class="bad-ring" cx="{x:.0f}" cy="{y:.1f}" r="11"/>' if node["status"] == "quarantined" else ""
    cross = "✕ " if ring else ""
    return (
        f'<g class="{gone.strip()}"><circle class="node {colour}" cx="{x:.0f}" cy="{y:.1f}" r="8.5"/>{ring}'
        f'<text class="id" x="{x + 13:.0f}" y="{y + 4:.1f}">{cross}{node["id"]}</text>'
        f"<title>{text(said)}</title></g>"
    )


def trend(name: str, at: Sequence[float], counts: Sequence[float]) -> str:
    """A count over time as an area."""
    width, height, top, bottom = 260, 78, 8, 6
    high, span = max([1.0, *counts]), max(1e-9, at[-1] - at[0])
    pairs = [
        (3 + (t - at[0]) / span * (width - 6), top + (1 - c / high) * (height - top - bottom))
        for t, c in zip(at, counts, strict=True)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)
    base = height - bottom
    area = f"3,{base} {line} {pairs[-1][0]:.1f},{base}"
    label = text(f"{name}: {counts[-1]:g}")
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}"><polygon class="area" points="{area}"/>'
        f'<polyline class="trend" points="{line}"/></svg>'
    )
