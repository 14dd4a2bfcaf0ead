"""The page of any run: its score, curves of what it logged, its attempts at tasks, samples where it recorded some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.evaluate.blocks import Block, Curve, Hint, Line, Page
from evolvent.runs.account import memories, samples, series, tasks, updates
from evolvent.runs.account.updates import section

_MEANING = ("t", "step", "update", "pass", "success", "valid")
_LEVELS = ("baseline", "before", "greedy", "sampled", "idle")
_READING = "What the run logged, as it is; intervals are those that it gave."


def account(folder: RunFolder) -> Page:
    """What a run tells of itself whose kind is not known."""
    rows = folder.read_metrics()
    summary = folder.summary() if folder.finished else {}
    manifest = folder.manifest()
    run = updates.updates(rows)
    attempts = series.valid(rows)
    against = updates.levels(summary, run)
    beside = [(str((summary.get(name) or {}).get("name") or name), summary.get(name)) for name in _LEVELS]
    judged = updates.judged(summary, run, judged_as="evaluation", beside=beside, against=against)
    body: list[Block] = [judged.headline, *judged.comparisons]
    if attempts and not run.updates:
        body += _of_tasks(summary, rows, attempts, folder)
    else:
        body += [*updates.pictures(run, trained="training", judged_as="evaluation", chance="random actions")]
        shown = [name for name in (*run.learned(), *run.reported()) if name != "success_mean"]
        body += section("Learning in numbers", updates.numbers(run, shown))
        if run.evaluations or summary.get("sampled"):
            table = updates.evaluations(summary, run, sampled="actions sampled", chance="random actions")
            body += section("Evaluations", table)
        body += section("Where the time goes", updates.time_split(run, {}))
        body += _others(rows)
    body += memories.valuable(summary)
    body += section("Attempts, first and last", samples.first_and_last(folder.read_episodes()))
    facts = (str(summary.get("model") or ""), f"seed {manifest['seed']}", f"{len(rows):,} lines")
    last = max((int(row["step"]) for row in rows), default=0)
    return Page(
        str(manifest.get("kind") or ""),
        tuple(body),
        judged.score,
        tuple(fact for fact in facts if fact),
        last,
        hint=Hint(),
        reading=_READING,
    )


def _of_tasks(
    summary: Mapping[str, Any], rows: Sequence[dict[str, Any]], attempts: Sequence[Any], folder: RunFolder
) -> list[Block]:
    """Attempts at tasks: by phase and pass, each of them, and what runs are compared by."""
    score, last = summary.get("score") or {}, tasks.final(attempts)
    counted = (
        "value" in score
        and last
        and abs(fmean(int(row["success"]) for row in last) - float(score["value"] or 0.0)) < 1e-3
    )
    return [
        *tasks.comparisons(attempts),
        *([tasks.outcomes(last)] if counted else []),
        *tasks.pictures(attempts),
        *section("Phases", tasks.phase_table(attempts)),
        *section("Passes over the tasks", tasks.pass_table(attempts)),
        *tasks.broken(rows),
        *section("Every task", tasks.every_task(attempts, tasks.seen(folder.read_episodes()))),
    ]


def _others(rows: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Numbers in lines that are neither updates nor evaluations, by phase."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if "update" not in row and row.get("phase") not in ("eval", "random", "idle"):
            groups.setdefault(str(row.get("phase", "")), []).append(row)
    found: list[Block] = []
    for phase, members in groups.items():
        names = dict.fromkeys(name for row in members for name in row if name not in _MEANING)
        for name in names:
            x, y = updates.column(members, name)
            if len(x) > 1:
                x, y, _ = updates.thinned(x, y)
                label = f"{phase}: {name}" if phase else name
                found.append(Curve(label, (Line("", tuple(x), tuple(y), mark="line"),), "step", name, small=True))
    return section("What it logged", found)
