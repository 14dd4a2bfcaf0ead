"""The page of a run of a memory: success before, while and after it learned, its memories, each task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.evaluate.blocks import Block, Headline, Hint, Page
from evolvent.evaluate.live import count
from evolvent.runs.account import calls, changed, memories, series, tasks, updates
from evolvent.runs.account.series import Row
from evolvent.runs.account.updates import facts, section

_EASY = 0.95
_READING = (
    "Rates carry 95 % Wilson intervals; differences on the same tasks Newcombe's and an exact McNemar test. First "
    "encounters are tasks of a kind, or in a form, that the run had not met before."
)


def account(folder: RunFolder) -> Page:
    """What a run of a memory tells of itself."""
    manifest, rows = folder.manifest(), folder.read_metrics()
    summary = folder.summary() if folder.finished else {}
    attempts = series.valid(rows)
    last = attempts[-1:] and [r for r in attempts if all(r.get(k) == attempts[-1].get(k) for k in ("phase", "pass"))]
    score, beside = tasks.scored(summary, series.rate("success so far", last))
    seen = tasks.seen(folder.read_episodes())
    body: list[Block] = [
        *([Headline((score, *beside))] if score and summary else []),
        *changed.example(attempts, seen),
        *tasks.comparisons(attempts),
        tasks.outcomes(tasks.final(attempts)),
        *tasks.pictures(attempts),
        *calls.blocks(_judged(attempts, seen)),
        *section("Phases", tasks.phase_table(attempts)),
        *section("Passes over the tasks", tasks.pass_table(attempts)),
        *tasks.broken(rows),
        *memories.valuable(summary),
        *memories.health(summary),
        *section("Every task", tasks.every_task(attempts, seen)),
    ]
    shown = facts(manifest, summary, count(len(attempts), "attempt"))
    title = f"{manifest.get('env') or 'Tasks'} without a memory" if _control(manifest) else updates.title(manifest)
    return Page("", tuple(body), score, shown, hint=_hint(manifest, summary), reading=_READING, title=title)


def _judged(attempts: list[Row], seen: Mapping[int, tasks.Seen]) -> dict[str, list[tasks.Seen]]:
    """Attempts before learning and after it; where nothing is held out, those without memory and the last pass."""
    groups = series.phases(attempts)
    before = groups.get("before") or groups.get("control", [])
    named = {"before": before, "after": tasks.final(attempts)}
    return {name: [seen[step] for row in rows if (step := int(row["step"])) in seen] for name, rows in named.items()}


def _control(manifest: Row) -> bool:
    return manifest["algo"] == "no_memory"


def _hint(manifest: Row, summary: Row) -> Hint:
    if _control(manifest):
        advice = "Run a memory on the same tasks, and compare the two (evolvent compare)."
        return Hint(advice, verdict="No verdict: this is the control, which learns nothing.")
    baseline: Any = (summary.get("baseline") or {}).get("value")
    if baseline is not None and baseline >= _EASY:
        return Hint("Without memory nearly every task is solved already: choose harder tasks.")
    advice = "See which memories help, which do harm, and whether any was shown at all; then try more passes."
    return Hint(advice, command=("evolvent", "memory", "audit", "DIR", "--html", "audit.html"))
