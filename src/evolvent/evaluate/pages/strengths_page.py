"""The page of ``evolvent eval --strengths``: a heat map of source and strength, the curves, the worst attempts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evolvent.core.jsonfile import write_atomic
from evolvent.evaluate.blocks import Curve, Line, Table
from evolvent.evaluate.live import interval
from evolvent.evaluate.pages.draw import draw
from evolvent.evaluate.pages.page import page, scroll, section, text
from evolvent.evaluate.strengths import shade

_SHADES = 5
_READING = (
    "Interquartile mean of the return of attempts, which counts the undisturbed reward, with its 95 % bootstrap "
    "interval; the darker, the more is lost. The policy is frozen and acts greedily; all cells have the same starts."
)


def write(result: Mapping[str, Any], path: Path) -> Path:
    """Write the page of what ``evaluate_team`` returned with strengths."""
    title = f"{result['algo']} under disturbance"
    about = f"trained on {result['trained_on']}, update {result['update']}, seed {result['seed']}, "
    about += f"{result['n']} attempts a cell"
    body = [
        f'<header><p class="soft small">robustness</p><h1>{text(title)}</h1><p>{text(_said(result))}</p>'
        f'<p class="soft">{text(result["env"])} · {text(about)}</p></header>',
        section("Return by source and strength", _heat(result)),
        draw([_curves(result)], path.parent),
        draw([_worst(result)], path.parent),
        f'<footer><p>{text(_READING)} The numbers are in <a href="{text(path.stem)}.json">{text(path.stem)}.json</a>.'
        "</p></footer>",
    ]
    write_atomic(path, page(title, body))
    return path


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['source']}: {row['how'].replace(':', ' ')}"


def _said(result: Mapping[str, Any]) -> str:
    """What the grid came to, in a sentence."""
    rows, strongest = result["rows"], result["strengths"][-1]
    worst = min(rows, key=lambda row: row["cells"][-1]["iqm"])
    first, last = worst["cells"][0], worst["cells"][-1]
    if last["ci95"][1] >= first["ci95"][0]:
        return f"Up to a strength of {strongest:g} no source costs more than chance explains."
    return f"At a strength of {strongest:g} {_name(worst)} costs most: {first['iqm']:.4g} becomes {last['iqm']:.4g}."


def _heat(result: Mapping[str, Any]) -> str:
    rows, head = result["rows"], "".join(f'<th scope="col" class="n">{s:g}</th>' for s in result["strengths"])
    lines = ""
    for row in rows:
        lines += f'<tr><th scope="row" class="first">{text(_name(row))}</th>'
        for cell in row["cells"]:
            number, _, ends = interval(cell["iqm"], cell["ci95"], rate=False).partition(" ")
            kind = f"n shade{math.ceil(_SHADES * shade(cell, rows))}"
            lines += f'<td class="{kind}">{text(number)}<br><small>{text(ends)}</small></td>'
        lines += "</tr>"
    whole = f'<table class="shaded"><thead><tr><th class="first">strength</th>{head}</tr></thead>'
    return scroll(f"{whole}<tbody>{lines}</tbody></table>", "return by source and strength")


def _curves(result: Mapping[str, Any]) -> Curve:
    at = tuple(result["strengths"])
    lines = [
        Line(
            _name(row),
            at,
            tuple(cell["iqm"] for cell in row["cells"]),
            tuple(cell["ci95"][0] for cell in row["cells"]),
            tuple(cell["ci95"][1] for cell in row["cells"]),
            (0, 2, 3, 4, 5, 1)[i % 6],
            "dots",
        )
        for i, row in enumerate(result["rows"])
    ]
    ticks = tuple((x, f"{x:g}") for x in at)
    return Curve("Return as it grows", tuple(lines), "strength", "return", False, ticks=ticks)


def _worst(result: Mapping[str, Any]) -> Table:
    columns = ("source", *(f"{s:g}" for s in result["strengths"]), "mean")
    rows = tuple((_name(row), *(cell["worst"] for cell in row["cells"]), row["area"]) for row in result["rows"])
    return Table(columns, rows, "Mean of the worst tenth of attempts; and the area under the curve, as a mean")
