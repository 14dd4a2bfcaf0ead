"""``report.html`` of a run over programs: what was right and fast by when, and where each program came from.

A program opens on a click: what it changes against the one it was made of, its time with interval, and the memory that
it was written with. Green ones are right; the deeper the green, the faster.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

from evolvent.evaluate.live import interval, one_line
from evolvent.evaluate.pages.page import cards, fold, page, scroll, section, table, text
from evolvent.evaluate.pages.report_parts import configuration, figure, foot, head, title
from evolvent.evaluate.pages.svg import Curve, curves

_READING = (
    "A ratio is how many times as fast as a naive kernel in C with the same compiler flags, by processor clocks read "
    "from outside; it counts from 1.15 on, and where fresh processes confirm it. Intervals of ratios: 95 %, by "
    "resampling rounds of timing; of rates: Wilson. Gains: at least 1.15 times as fast as what they began with."
)
_GATES = {
    "text": "no program",
    "hack": "against the rules",
    "compile": "does not compile",
    "correct": "wrong",
    "harness": "?",
}
MOST_SHOWN = 5
"""Memories beside the report's text, of the highest values; a click shows the others."""
Row = Mapping[str, Any]


def render(manifest: Mapping[str, Any], summary: Mapping[str, Any], rows: Sequence[Row], top: str = "") -> str:
    """The page as text; of a run that has not ended without its tables.

    Args:
        manifest: content of ``config.json``.
        summary: content of ``summary.json``.
        rows: lines of ``metrics.jsonl``, one an attempt.
        top: verdict and links.
    """
    facts = [str(summary.get("model") or manifest["config"].get("model", "")), f"seed {manifest['seed']}"]
    return page(
        title(manifest),
        [
            head(manifest, summary, [*facts, f"{len(rows)} attempts"], top),
            _hero(summary),
            cards([("Kernels by round", _curves(summary["rounds"]))] if len(summary.get("rounds", [])) > 1 else []),
            section("Kernels", _kernels(summary.get("kernels", []))),
            section("The fastest kernel beside the reference", _fastest(rows, summary.get("references", {}))),
            section("What each memory was worth", _advice(summary.get("advice", []))),
            section("Where each program came from", _lineages(rows)),
            section("Configuration", configuration(manifest)),
            foot(manifest, _READING),
        ],
        styles=("report.css", "tree.css"),
    )


def _hero(summary: Mapping[str, Any]) -> str:
    if not summary.get("score"):
        return ""
    shown = [figure(summary["score"], rates=True)]
    faster = {
        "name": "kernels faster than naive C",
        "value": summary["faster"]["rate"],
        "ci95": summary["faster"]["ci95"],
    }
    shown.append(figure(faster, rates=True, minor=True))
    gain = summary["speedup"]
    if gain["n"]:
        named = {"name": f"times as fast as the first right one, median of {gain['n']}", "value": gain["median"]}
        shown.append(figure(named, rates=False, minor=True))
    return f'<div class="hero">{"".join(shown)}</div>'


def _curves(rounds: Sequence[Row]) -> str:
    xs, none = [one["round"] for one in rounds], [None] * len(rounds)
    lines = [
        Curve(what, xs, [one[what] for one in rounds], none, none, i)
        for i, what in enumerate(("compiled", "right", "faster"))
    ]
    every = max(1, len(xs) // 8)
    return curves(lines, ticks=[(x, str(x)) for x in xs[::every]], x_label="attempts at each kernel", y_label="kernels")


def _kernels(kernels: Sequence[Row]) -> str:
    cells = [
        [
            k["name"],
            k["attempts"],
            k["first_right_at"],
            k["first"],
            interval(k["best"], k["ci95"], rate=False),
            None if k["us"] is None else round(k["us"], 1),
            ", ".join(k["advice"]),
        ]
        for k in kernels
    ]
    names = ["kernel", "attempts", "right at attempt", "first ×", "best × [95 %]", "µs a call", "written with"]
    return table(names, cells, left=(0, 6))


def _fastest(rows: Sequence[Row], naive: Mapping[str, str]) -> str:
    right = [row for row in rows if row["gate"] == "" and row["valid"]]
    if not right:
        return ""
    best = max(right, key=lambda row: row["ratio"])
    reference = naive.get(best["kernel"], "")
    sides = [("naive", reference), (f"attempt {best['step']}: {_ratio(best)}", best["source"])]
    shown = [(f"{best['kernel']}, {name}", scroll(f"<pre>{text(code)}</pre>", name)) for name, code in sides if code]
    return cards(shown)


def _advice(advice: Sequence[Row]) -> str:
    cells = [
        [
            a["id"],
            a["stage"],
            a["kind"],
            a["shown"],
            a["right"],
            a["gains"],
            None if a["value"] is None else f"{a['value']:.2f}",
            shorten(one_line(a["body"]), 120, placeholder=" …"),
        ]
        for a in advice
    ]
    names = ["memory", "stage", "kind", "shown", "right", "gains", "value", "what it says"]
    best = sorted((i for i, a in enumerate(advice) if a["value"] is not None), key=lambda i: -advice[i]["value"])
    top = [[cells[i][-1], *(cells[i][at] for at in (1, 5, 6))] for i in best[:MOST_SHOWN]]
    shown = table(["what it says", "stage", "gains", "value"], top, left=(0, 1))
    return shown + fold(f"all that were shown: {len(cells)}", table(names, cells, left=(0, 1, 2, 7)), opened=not top)


# ------------------------------------------------------------------------------------------------ lineages
def _lineages(rows: Sequence[Row]) -> str:
    out: list[str] = []
    for name in dict.fromkeys(row["kernel"] for row in rows):
        mine = [row for row in rows if row["kernel"] == name]
        best = max(
            (row for row in mine if row["gate"] == "" and row["valid"]), key=lambda row: row["ratio"], default=None
        )
        path: set[int] = set()
        at = best
        while at is not None:
            path.add(at["step"])
            at = next((row for row in mine if row["step"] == at["start"]), None)
        below: dict[int | None, list[Row]] = {}
        for row in mine:
            below.setdefault(row["start"], []).append(row)
        # 0 is the naive kernel that a run may begin with: no attempt of its own
        inside = "".join(_program(row, below, mine, path) for row in [*below.get(None, []), *below.get(0, [])])
        mark = "✗" if best is None else f"✓ {best['ratio']:.2f}×"
        out.append(fold(f"{mark} {name}, {len(mine)} attempts", f'<div class="tree">{inside}</div>'))
    return "".join(out)


def _program(row: Row, below: Mapping[int | None, Sequence[Row]], mine: Sequence[Row], path: set[int]) -> str:
    """One attempt with what was made of it; depth is bounded by the attempts."""
    parent = next((one for one in mine if one["step"] == row["start"]), None)
    share = 0.0 if row["gate"] else min(1.0, 0.4 + 0.2 * math.log2(max(row["ratio"], 0.25)))
    tag = (
        f'<span class="tag good">{text(_ratio(row))}</span>'
        if row["gate"] == ""
        else (f'<span class="tag bad">{text(_GATES.get(row["gate"], row["gate"]))}</span>')
    )
    words = f"attempt {row['attempt']}, {row['phase']}"
    label = f'<span class="mono">{text(words)}</span> {tag} <span class="soft small">{text(_with(row))}</span>'
    said = f'<p class="small">{text(row["words"])}</p>' if row["gate"] else ""
    code = _diff(parent["source"], row["source"]) if parent is not None else f"<pre>{text(row['source'])}</pre>"
    inside = said + (fold("the program" if parent is None else "what it changes", code) if row["source"] else "")
    inside += "".join(_program(child, below, mine, path) for child in below.get(row["step"], []))
    taken = row["step"] in path
    style = f"--value:{120 * max(0.0, share):.0f};border-left-width:{4 if taken else 1}px"
    opened = " open" if taken else ""
    kind = "state taken" if taken else "state"
    return f'<div class="{kind}" style="{style}"><details{opened}><summary>{label}</summary>{inside}</details></div>'


def _diff(before: str, after: str) -> str:
    if before == after:
        return '<p class="small soft">nothing: it is a copy</p>'
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2))[2:]
    return f"<pre>{text(chr(10).join(lines))}</pre>"


def _ratio(row: Row) -> str:
    ends = f" [{row['low']:.2f}, {row['high']:.2f}]" if row["low"] is not None else ""
    return f"{row['ratio']:.2f}× naive C{ends}"


def _with(row: Row) -> str:
    shown = [f"{m['id']} ({m['value']:+.2f}): {one_line(m['body'])[:70]}" for m in row["advice"]]
    return " · ".join(shown)
