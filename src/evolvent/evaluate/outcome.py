"""What a run came to: a table on the terminal, and its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live, count, interval, judged_on, percent
from evolvent.evaluate.verdict import of_run, seeds_of


def tell(path: Path, summary: dict[str, Any], live: Live) -> None:
    """Show the result of a run and write its report."""
    report = page(path)
    opened = RunFolder.open(path)
    verdict = of_run(opened.manifest(), summary, opened.read_metrics(), path)
    live.note(f"\n{verdict.sentence} {verdict.note}")
    for line in verdict.lines():
        live.note(f"  {line}")
    if verdict.advice and len(seeds_of(opened.manifest())) < 2:  # what comes next is said of all seeds at the end
        live.note(f"  next: {verdict.advice}" + (f"\n        {verdict.command}" if verdict.command else ""))
    phases = summary.get("phases") or []
    passes = [{"name": f"stream, pass {p['pass']}", **p} for p in summary.get("passes") or []]
    if phases:
        phases = [*phases[:1], *passes, *phases[1:]]
        rows = [[p["name"], p["n"], p["successes"], interval(p["rate"], p.get("ci95"))] for p in phases]
        live.table("Result", ["phase", "tasks", "right", "success [95 %]"], rows)
        if broken := [row.get("error", "not valid") for row in opened.read_metrics() if not row.get("valid", 1)]:
            live.note(f"{count(len(broken), 'attempt')} broke, not counted: {broken[0]}")
    elif summary.get("sampled"):
        live.table("Result", *_played(summary))
        if summary.get("broken"):
            live.note(f"{summary['broken']} attempts broke and were not learned from")
    elif summary.get("score"):
        score = summary["score"]
        live.note(f"{score['name']}: {interval(score['value'], score.get('ci95'), rate=False)}")
    best = summary.get("top_memories") or []
    if best:
        live.note("The most valuable memories (few outcomes count less):")
        for memory in best[:3]:
            live.note(f"  {memory['id']}  {memory['key']}\n      {memory['body']}\n      {memory['why']}")
    live.note(f"\nreport: {report}")


def page(path: Path) -> Path:
    """Write the report of a run, whether it has ended or not."""
    from evolvent.evaluate.pages.report import write_report

    return write_report(path)


def _played(summary: dict[str, Any]) -> tuple[list[str], list[list[object]]]:
    """Columns and rows of a run with updates; what was held out before learning is there of language models only."""
    names = {"before": "greedy, before learning", "greedy": "greedy", "sampled": "actions sampled"}
    names |= {"baseline": "random actions", "idle": "no action"}
    rows: list[list[object]] = []
    for name, said in names.items():
        if found := summary.get(name):
            rows.append([said, interval(found["value"], found.get("ci95"), rate=False)])
            if summary.get("before"):
                rows[-1] += [percent(found.get("success_mean")), judged_on(found)]
    return ["", "return [95 %]", *(["success", "judged on"] if summary.get("before") else [])], rows
