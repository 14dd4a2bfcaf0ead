"""The page of a search: searches at one budget side by side, and the trees that they grew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.evaluate.blocks import Bars, Block, Comparison, Headline, Hint, Page, Table, Text
from evolvent.evaluate.live import count, interval, percent
from evolvent.runs.account import series, tasks, trees
from evolvent.runs.account.series import Row
from evolvent.runs.account.updates import facts, number, section

_READING = (
    "Rates carry 95 % Wilson intervals. An oracle's choice: a right path was among those that were found. Value ranks: "
    "of all pairs of a right and a wrong path of one task, in how many the right one has the higher value (50 %: by "
    "chance). Tokens are those that the model wrote; p is of an exact McNemar test against the first search, on the "
    "same tasks."
)

EARLY, OVER = 0.25, -0.05
"""Shares of a budget: a search that leaves more, and one that goes so far beyond it, are reported."""


def account(folder: RunFolder) -> Page:
    """What a run of searches tells of itself."""
    manifest, rows = folder.manifest(), folder.read_metrics()
    summary = folder.summary() if folder.finished else {}
    arms: list[dict[str, Any]] = summary.get("arms", [])
    by_search = series.phases(rows)
    first = arms[0]["name"] if arms else next(iter(by_search), "")
    score, beside = tasks.scored(summary, series.rate("right so far", by_search.get(first, [])))
    found = trees.trees(trees.read(folder.path))
    body: list[Block] = [
        *([Headline((score, *beside))] if score and summary else []),
        *_comparisons(arms, by_search),
        tasks.outcomes(by_search.get(first, [])),
        *_bars(arms),
        *section("Searches at one budget", [*_table(arms), *_said(arms)]),
        *section("Trees", [*found, *([Text((trees.LEGEND,), "soft")] if found else [])]),
    ]
    kinds, names = {row["phase"] for row in rows}, {row["task"] for row in rows}
    said = "1 search" if len(kinds) == 1 else f"{len(kinds)} searches"
    shown = facts(manifest, summary, f"{said} × {count(len(names), 'task')}")
    return Page("", tuple(body), score, shown, hint=_hint(summary), reading=_READING)


def _comparisons(arms: Sequence[Row], by_search: dict[str, list[Row]]) -> list[Comparison]:
    """The first search against each other one, on the same tasks."""
    if not arms:
        return []
    first, *others = [str(arm["name"]) for arm in arms]
    return [
        one for name in others for one in tasks.pairs(name, by_search.get(first, []), by_search.get(name, []), first)
    ]


def _hint(summary: Row) -> Hint:
    """Twice the budget that ended the first search: of tokens and calls the one of which it spent the larger share."""
    advice = "Search with a larger budget, or on more tasks."
    arm, shares = (summary.get("arms") or [{}])[0], dict[str, float]()
    for name, spent in (
        ("tokens", (arm.get("tokens") or 0.0) + (arm.get("judge_tokens") or 0.0)),
        ("calls", arm.get("calls") or 0.0),
    ):
        if limit := summary.get(f"budget_{name}"):
            shares[name] = spent / limit
    most = max(shares, key=lambda name: shares[name], default="")
    if summary.get("budget_seconds") and shares.get(most, 0.0) <= 1.0 - EARLY:
        most = "seconds"
    elif arm.get("wider") and shares.get(most, 1.0) <= 1.0 - EARLY:
        return Hint(f"It came to nothing new before its budget was spent: set {arm['wider']}, or search more tasks.")
    return Hint(advice, (f"--budget-{most}", f"{2 * summary[f'budget_{most}']:g}") if most else ())


def _bars(arms: Sequence[Row]) -> list[Block]:
    known = [number(str(a["name"]), {**a, "value": a["rate"]}, rate=True) for a in arms if a["rate"] is not None]
    return [Bars("Right, by search", tuple(known), tuple(i % 5 for i in range(len(known))))] if known else []


def _said(arms: Sequence[Row]) -> list[Block]:
    """Which searches ended early, and what a round of answers that are written again does (``search.dser``)."""
    notes = [
        f"{a['name']}: a round mends {interval(a['mends'], a['mends_ci95'])} of wrong answers and spoils "
        f"{interval(a['spoils'], a['spoils_ci95'])} of right ones; 80 such rounds would lead to "
        f"{interval(a['right_after_80_rounds'], None)}."
        for a in arms
        if a.get("mends") is not None
    ]
    lines = (*uneven(arms), *notes)
    return [Text(lines, "soft", said=True)] if lines else []


def uneven(arms: Sequence[Row]) -> list[str]:
    """A sentence on each search that left much of its budget, or whose judge went beyond it; older runs do not say."""
    over = [f"{a['name']} {percent(1 - a['left'])}" for a in arms if (a.get("left") or 0.0) < OVER]
    lines = [
        f"spent of the budget: {', '.join(over)}; what was made is judged even beyond it: give a larger budget or "
        "larger moves, or compare searches at what they spent"
    ]
    return (lines if over else []) + [
        f"{arm['name']} left {percent(arm['left'])} of its budget, for it came to nothing new: "
        f"set {arm['wider']}, or compare it with searches at what it spent"
        for arm in arms
        if arm.get("wider") and (arm.get("left") or 0.0) > EARLY
    ]


def _table(arms: Sequence[Row]) -> list[Block]:
    read = ["judge_tokens"] if any(a.get("judge_tokens") for a in arms) else []
    rows = [
        (
            a["name"],
            interval(a["rate"], a["ci95"]),
            percent(a["oracle"]),
            percent(a.get("ranks")),
            *(round(a[key], 1) for key in ("tokens", *read, "calls", "paths", "nodes")),
            round(a["seconds"], 2),
            "" if i == 0 else f"{a['p']:.2g}",
            percent(a.get("left")),
        )
        for i, a in enumerate(arms)
        if a["n"]
    ]
    spent = ["tokens", *(["read by the judge"] if read else []), "calls", "paths", "states", "seconds"]
    columns = ("search", "right [95 %]", "an oracle's choice", "value ranks", *spent, "p", "budget left")
    return [Table(columns, tuple(rows), said=True)] if rows else []
