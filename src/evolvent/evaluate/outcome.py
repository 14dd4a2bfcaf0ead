"""What a run came to, on the terminal: its verdict, and the parts of its page that are said there, too."""

from __future__ import annotations

from pathlib import Path

from evolvent.core.folder import RunFolder
from evolvent.evaluate.blocks import Notes, Page, Table, Text
from evolvent.evaluate.live import Live, interval
from evolvent.evaluate.verdict import of_run, seeds_of

_NOTES = 3


def tell(run: RunFolder, page: Page, live: Live, report: Path) -> None:
    """Show the result of a run that has ended, and where its ``report`` lies."""
    manifest = run.manifest()
    verdict = of_run(manifest, page, run.path)
    for line in verdict.told(advice=len(seeds_of(manifest)) < 2):  # what comes next is said of all seeds at the end
        live.note(line)
    if (score := page.score) is not None:
        live.note(f"{score.name}: {interval(score.value, score.ci95, rate=score.rate)}")
    tables = [table for table in page.of(Table) if table.said]
    for i, table in enumerate(tables):
        live.table(table.title or ("" if i else "Result"), table.columns, table.rows)
    for text in page.of(Text):
        for line in text.lines if text.said else ():
            live.note(line)
    for notes in page.of(Notes):
        if notes.said:
            live.note(f"{notes.title}:")
            for note in notes.notes[:_NOTES]:
                live.note(f"  {note.facts}  {note.heading}\n      {note.body}\n      {note.why}")
    live.note(f"\nreport: {report}")
