"""The page of a study as blocks: what each part earns and costs, how parts work together, every configuration."""

from __future__ import annotations

import dataclasses

from evolvent.evaluate.blocks import Bars, Block, Headline, Hint, Number, Page, Table, Text
from evolvent.evaluate.live import count, number, percent
from evolvent.teams.game import COSTS, in_words
from evolvent.teams.report import Report, called

_READING = (
    "A part earns what it adds to the mean score, strong instead of weak, as a mean over all orders in which the parts "
    "become strong (Shapley value); costs likewise. Intervals are over tasks, 95 %, for each part alone. Left out: "
    "what is lost when it alone is weak. Alone: what it adds when all others are weak."
)


def page_of(report: Report) -> Page:
    """The page."""
    best = called(report.best, len(report.parts))
    body: list[Block] = []
    if report.verified is not None:
        against = (dataclasses.replace(one, name=f"more than {one.name}") for one in report.against)
        body.append(Headline((dataclasses.replace(report.verified, name=f"score of the best: {best}"), *against)))
    parts, choice = list(report.parts.values()), report.choice()
    adding = [line[:1].upper() + line[1:] for line in report.adding()]
    lines = (*map(str, parts), choice[:1].upper() + choice[1:], *adding)
    body.append(Text(lines, title="Part by part", said=True))
    ordered = sorted(parts, key=lambda p: -(p.shapley.value or 0.0))
    body.append(_bars("What each part earns", [(p.name, p.shapley) for p in ordered]))
    body += [
        _bars(f"What each part costs: {key} a run", [(p.name, p.takes[key]) for p in ordered])
        for key in COSTS
        if any(p.takes[key] is not None for p in parts)
    ]
    columns, rows = report.ways()
    body.append(Table(tuple(columns), tuple(map(tuple, rows)), title="Four ways to count it"))
    if report.interactions is not None and len(parts) > 1:
        columns, rows = report.matrix()
        what = "Above 0: two parts are worth more together than the sum of both."
        body += [Table(tuple(columns), tuple(map(tuple, rows)), title="Together"), Text((what,), tone="soft")]
    body.append(_configurations(report))
    if report.notes:
        body.append(Text(report.notes, tone="warning", title="What limits these numbers"))
    out = [p.name for p in parts if p.verdict.endswith("leave it out")]
    verdict = f"Best: {best}."
    if report.behind:
        verdict = f"Not confirmed: {best} was chosen, and is behind {report.behind} at the tasks held apart."
    facts = (
        count(len(parts), "part"),
        count(report.tasks, "task"),
        f"{report.held} held apart",
        count(report.runs, "run"),
    )
    return Page(
        "worth of the parts of a workflow",
        tuple(body),
        report.score,
        facts,
        report.runs,
        "runs",
        Hint(verdict=verdict + (f" Leave out: {', '.join(out)}." if out else "")),
        _READING,
        "What each part is worth",
    )


def _bars(title: str, rows: list[tuple[str, Number | None]]) -> Bars:
    return Bars(title, tuple(dataclasses.replace(one, name=name) for name, one in rows if one is not None), zero=True)


def _configurations(report: Report) -> Table:
    """The best score first, then the cheapest; the one that was chosen has a mark."""
    shown = sorted(report.configurations, key=lambda one: (-(one.score.value or 0.0), one.takes["tokens"] or 0.0))
    known = [key for key in COSTS if any(one.takes[key] is not None for one in shown)]
    full = max(shown, key=lambda one: len(one.strong))
    adds = any(one.beyond for one in shown)
    rows = [
        (
            called(one.strong, len(report.parts)) + " ✓ chosen" * (one.strong == report.best),
            in_words(one.score),
            *((number(one.added, 0.1), in_words(one.beyond, signed=True)) if one.beyond else ("", "")) * adds,
            *(_share(one.takes[key], full.takes[key]) for key in known),
        )
        for one in shown
    ]
    columns = ("configuration", "score", *("if parts add", "beyond that") * adds, *known)
    return Table(columns, tuple(rows), title="Every configuration")


def _share(value: float | None, whole: float | None) -> str:
    """A cost, and its share of what everything strong takes."""
    if value is None:
        return "–"
    return number(value) + (f" ({percent(value / whole)})" if whole else "")
