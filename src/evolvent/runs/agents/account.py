"""The page of a run that measures a team: what its summary says in words, a table of all arms, and pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evolvent.core.config import from_json
from evolvent.core.folder import RunFolder
from evolvent.evaluate.blocks import Block, Comparison, Curve, Headline, Hint, Number, Page, Section, Table, Text
from evolvent.evaluate.live import count
from evolvent.teams.page import page_of
from evolvent.teams.report import Report, report_in

_READING = "Shares carry 95 % intervals over tasks; differences are paired over tasks."


def account(folder: RunFolder) -> Page:
    """What a measured team tells of itself.

    A study of slots has its runs as episodes, and the page of ``evolvent.worth``. Otherwise of the summary are read
    ``score`` and ``baseline``, ``words``, two tables of ``columns`` and ``rows``, of which ``table`` is short and
    ``cells`` has everything, and ``pictures``, the fields of ``evaluate.blocks.Curve``.
    """
    if (report := report_in(folder)) is not None:
        return _of_slots(report, folder.manifest())
    rows, manifest = [row for row in folder.read_metrics() if "task" in row], folder.manifest()
    summary: dict[str, Any] = folder.summary() if folder.finished else {}
    score, baseline = (_number(summary.get(name)) for name in ("score", "baseline"))
    body: list[Block] = [Headline(tuple(one for one in (score, baseline) if one))] if score else []
    if score and baseline:
        body.append(Comparison(baseline.name, own=score, other=baseline))
    body.append(Text(tuple(summary.get("words", ("Nothing is measured yet.",))), said=True))
    body += [from_json(Curve, one, "pictures") for one in summary.get("pictures", ())]
    if "table" in summary:
        body.append(Section("Beside one agent alone", (_table(summary["table"], said=True),)))
        body.append(Section("Every arm", (_table(summary["cells"], said=False),), folded=True))
    facts = (str(summary.get("model", "")), f"seed {manifest['seed']}", count(len(rows), "task"))
    return Page("", tuple(body), score, facts, len(rows), "tasks", Hint("Measure on more tasks."), _READING)


def _of_slots(report: Report, manifest: dict[str, Any]) -> Page:
    """The page of a study of slots, also of one that goes on."""
    page, config = page_of(report), manifest["config"]
    facts = (f"{config['model']} against {config['strong']}", f"seed {manifest['seed']}", *page.facts)
    return replace(page, facts=facts)


def _number(found: dict[str, Any] | None) -> Number | None:
    if not found or found.get("value") is None:
        return None
    low, high = found.get("ci95") or (None, None)
    return Number(found["name"], found["value"], (low, high), rate=True, over="tasks")


def _table(found: dict[str, Any], *, said: bool) -> Table:
    rows = tuple(map(tuple, found["rows"]))
    return Table(tuple(found["columns"]), rows, left=(0, 2), said=said)
