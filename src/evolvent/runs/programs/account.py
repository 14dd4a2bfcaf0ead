"""The page of a run over programs: what was right and fast by when, and where each program came from.

Green programs are right; the deeper the green, the faster.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any, Literal

from evolvent.core.folder import RunFolder
from evolvent.evaluate.blocks import (
    Block,
    Comparison,
    Curve,
    Headline,
    Hint,
    Line,
    Node,
    Number,
    Outcomes,
    Page,
    Pair,
    Section,
    Table,
    Text,
    Tree,
)
from evolvent.evaluate.live import interval, one_line
from evolvent.formulas.refinement import GAIN
from evolvent.runs.account.updates import facts, number, section

Row = Mapping[str, Any]
MOST_SHOWN = 5
"""Memories beside the report's text, of the highest values; a click shows the others."""
_GATES = {
    "text": "no program",
    "hack": "against the rules",
    "compile": "does not compile",
    "correct": "wrong",
    "harness": "?",
}
_READING = (
    "A ratio is how many times as fast as a naive kernel in C with the same compiler flags, by processor clocks read "
    "from outside; it counts from 1.15 on, and where fresh processes confirm it. Intervals of ratios: 95 %, by "
    "resampling rounds of timing; of rates: Wilson. Gains: at least 1.15 times as fast as what they began with."
)


def account(folder: RunFolder) -> Page:
    """What a run over programs tells of itself."""
    manifest, rows = folder.manifest(), folder.read_metrics()
    summary = folder.summary() if folder.finished else {}
    numbers = _numbers(summary)
    kernels: list[Row] = summary.get("kernels", [])
    body: list[Block] = [
        *([Headline(numbers)] if numbers else []),
        *_first_attempts(rows),
        *[
            Outcomes(tuple((str(k["name"]), int(k[what]), "") for k in kernels), f"programs that are {what}", "program")
            for what in ("right", "faster")
            if kernels
        ],
        *_rounds(summary.get("rounds", [])),
        *section("Kernels", _kernels(kernels)),
        *_fastest(rows, summary.get("references", {})),
        *section("What each memory was worth", _advice(summary.get("advice", []))),
        *section("Where each program came from", _lineages(rows)),
    ]
    shown = facts(manifest, summary, f"{len(rows)} attempts")
    score = numbers[0] if numbers else None
    return Page("", tuple(body), score, shown, hint=_hint(manifest, summary), reading=_READING)


def _hint(manifest: Row, summary: Row) -> Hint:
    """More attempts find more: the control is as many without memory, drafts where there is something to draft."""
    given = str(manifest["env"]).startswith("kernels:faster")
    if summary.get("select") == "none" and (given or not summary.get("refine", True)):
        return Hint()
    advice = "See what as many {} without memory come to; then compare both (evolvent compare)."
    if given:
        return Hint(advice.format("attempts"), ("--select", "none"), always=True)
    return Hint(advice.format("drafts"), ("--select", "none", "--no-refine"), always=True)


def _numbers(summary: Row) -> tuple[Number, ...]:
    if (summary.get("score") or {}).get("value") is None:
        return ()
    faster, gain = summary["faster"], summary["speedup"]
    named = {"value": faster["rate"], "ci95": faster["ci95"]}
    shown = [number(str(summary["score"]["name"]), summary["score"], rate=True)]
    shown.append(number("kernels faster than naive C", named, rate=True))
    if gain["n"]:
        shown.append(Number(f"times as fast as the first right one, median of {gain['n']}", gain["median"]))
    return tuple(shown)


def _first_attempts(rows: Sequence[Row]) -> list[Comparison]:
    """The last attempt at each program against the first, one attempt each."""
    tries: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("valid"):
            tries.setdefault(str(row["kernel"]), []).append(row)
    return [
        Comparison(
            f"its first attempts in {what}",
            pairs=tuple((name, _reached(mine[-1], ratio), _reached(mine[0], ratio)) for name, mine in tries.items()),
            thing="program",
        )
        for what, ratio in (("programs that are right", 0.0), ("programs that are faster", GAIN))
        if tries
    ]


def _reached(row: Row, ratio: float) -> int:
    return int(row["gate"] == "" and row["ratio"] >= ratio)


def _rounds(rounds: Sequence[Row]) -> list[Block]:
    if len(rounds) < 2:
        return []
    xs = tuple(float(one["round"]) for one in rounds)
    lines = tuple(
        Line(what, xs, tuple(one[what] for one in rounds), style=i, role="judged" if what == "right" else "")
        for i, what in enumerate(("compiled", "right", "faster"))
    )
    ticks = tuple((x, f"{x:.0f}") for x in xs[:: max(1, len(xs) // 8)])
    return [Curve("Kernels by round", lines, "attempts at each kernel", "kernels", rate=True, ticks=ticks)]


def _kernels(kernels: Sequence[Row]) -> list[Block]:
    cells = [
        (
            k["name"],
            k["attempts"],
            k["first_right_at"],
            k["first"],
            interval(k["best"], k["ci95"], rate=False),
            None if k["us"] is None else round(k["us"], 1),
            ", ".join(k["advice"]),
        )
        for k in kernels
    ]
    columns = ("kernel", "attempts", "right at attempt", "first ×", "best × [95 %]", "µs a call", "written with")
    return [Table(columns, tuple(cells), left=(0, 6), said=True)] if cells else []


def _fastest(rows: Sequence[Row], naive: Mapping[str, str]) -> list[Block]:
    right = [row for row in rows if row["gate"] == "" and row["valid"]]
    if not right:
        return []
    best = max(right, key=lambda row: row["ratio"])
    names = f"{best['kernel']}, naive", f"{best['kernel']}, attempt {best['step']}: {_ratio(best)}"
    texts = str(naive.get(best["kernel"], "")), str(best["source"])
    return [Pair(names, texts, "The fastest kernel beside the reference")]


def _advice(advice: Sequence[Row]) -> list[Block]:
    cells = [
        (
            a["id"],
            a["stage"],
            a["kind"],
            a["shown"],
            a["right"],
            a["gains"],
            None if a["value"] is None else f"{a['value']:.2f}",
            shorten(one_line(a["body"]), 120, placeholder=" …"),
        )
        for a in advice
    ]
    if not cells:
        return []
    columns = ("memory", "stage", "kind", "shown", "right", "gains", "value", "what it says")
    best = sorted((i for i, a in enumerate(advice) if a["value"] is not None), key=lambda i: -advice[i]["value"])
    top = tuple((cells[i][-1], *(cells[i][at] for at in (1, 5, 6))) for i in best[:MOST_SHOWN])
    every = Section(
        f"all that were shown: {len(cells)}", (Table(columns, tuple(cells), left=(0, 1, 2, 7)),), True, not top
    )
    return [*([Table(("what it says", "stage", "gains", "value"), top, left=(0, 1))] if top else []), every]


# ------------------------------------------------------------------------------------------------ lineages
def _lineages(rows: Sequence[Row]) -> list[Block]:
    found: list[Block] = []
    for name in dict.fromkeys(row["kernel"] for row in rows):
        mine = [row for row in rows if row["kernel"] == name]
        right = [row for row in mine if row["gate"] == "" and row["valid"]]
        best = max(right, key=lambda row: row["ratio"], default=None)
        by_step = {row["step"]: row for row in mine}
        path: set[int] = set()
        at = best
        while at is not None and at["step"] not in path:
            path.add(at["step"])
            at = by_step.get(at["start"])
        place = {row["step"]: i for i, row in enumerate(mine)}
        # 0 is the naive kernel that a run may begin with: no attempt of its own
        nodes = tuple(_program(row, by_step.get(row["start"]), place.get(row["start"], -1), path) for row in mine)
        mark = "✗" if best is None else f"✓ {best['ratio']:.2f}×"
        found.append(Tree(f"{mark} {name}, {len(mine)} attempts", nodes))
    return found


def _program(row: Row, parent: Row | None, place: int, path: set[int]) -> Node:
    """One attempt, with what it changes against the one it was made of."""
    hue = 0.0 if row["gate"] else max(0.0, min(1.0, 0.4 + 0.2 * math.log2(max(row["ratio"], 0.25))))
    tag: tuple[Literal["good", "bad"], str] = ("good", _ratio(row))
    if row["gate"]:
        tag = ("bad", _GATES.get(row["gate"], str(row["gate"])))
    inside: list[Block] = [Text((str(row["words"]),), "soft")] if row["gate"] else []
    if row["source"]:
        title = "the program" if parent is None else "what it changes"
        source = Text((str(row["source"]),), "code") if parent is None else _diff(parent["source"], row["source"])
        inside.append(Section(title, (source,), folded=True))
    shown = " · ".join(f"{m['id']} ({m['value']:+.2f}): {one_line(m['body'])[:70]}" for m in row["advice"])
    taken, label = row["step"] in path, f"attempt {row['attempt']}, {row['phase']}"
    return Node(place, label, False, (tag,), shown, hue, 0.5 if taken else 0.0, taken, tuple(inside))


def _diff(before: str, after: str) -> Text:
    if before == after:
        return Text(("nothing: it is a copy",), "soft")
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2))[2:]
    return Text(("\n".join(lines),), "code")


def _ratio(row: Row) -> str:
    ends = f" [{row['low']:.2f}, {row['high']:.2f}]" if row["low"] is not None else ""
    return f"{row['ratio']:.2f}× naive C{ends}"
