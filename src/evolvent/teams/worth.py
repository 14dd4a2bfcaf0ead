"""``evolvent.worth``: run a workflow with each part weak and strong at the same tasks, and say what each part is worth.

Every task is run in every configuration before the next one begins. The folder is a run folder, so that the other
commands read it: ``evolvent credit``, ``evolvent runs``.
"""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from math import ceil, inf
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.folder import Interrupted, RunFolder
from evolvent.core.jsonfile import write_atomic
from evolvent.core.seeding import rng
from evolvent.evaluate import blocks
from evolvent.evaluate.live import Live, count, duration
from evolvent.evaluate.pages.report import report as html_of
from evolvent.formulas.effect import LEAST
from evolvent.teams.game import Game, Row
from evolvent.teams.page import page_of
from evolvent.teams.parts import fingerprint, masks_of, parts_of
from evolvent.teams.report import Report, report_of, summary_of
from evolvent.teams.study import Job, Study, in_order, stored

KIND = "worth"
BUDGETS = ("runs", "calls", "tokens", "seconds")
_WHERE = "evolvent.worth"
_VERIFIED = 3  # the best configuration, everything strong, everything weak


def worth(
    run: Callable[..., Any],
    parts: Mapping[str, Any] | Iterable[tuple[str, Any]],
    tasks: Iterable[Any],
    score: Callable[[Any, Any], Any],
    *,
    out: str | os.PathLike[str],
    verify: float = 0.3,
    seeds: int = 1,
    budget: Mapping[str, float] | None = None,
    within: float | None = None,
    workers: int = 1,
    seed: int = 0,
    quiet: bool = False,
) -> Report:
    """What each part of a workflow is worth, and what it costs, from runs with each part weak and strong.

    Up to six parts are run in all 2^n configurations (exact Shapley values), more along drawn orders. The same call
    goes on where it was stopped. A run that raises has the score 0, and its error is kept.

    Args:
        run: ``run(task, parts)`` answers a task; ``parts[name]`` is the implementation to use. May be asynchronous;
            gets ``seed=`` where it takes one.
        parts: ``{name: (weak, strong)}``; anything, ``None`` for a part that is left out.
        tasks: what ``run`` gets, the same for every configuration.
        score: ``score(task, answer)``, True, False or a number; more is better.
        out: the folder of the study.
        verify: share of the tasks held apart, where the best configuration is verified.
        seeds: runs of each configuration at each task.
        budget: the most to take, of ``runs``, ``calls``, ``tokens``, ``seconds``.
        within: stop as soon as every part is known to plus or minus this (95 %, valid under looking).
        workers: runs at the same time, in threads.
        seed: of the draws: the tasks held apart and their order, orders of more than six parts.
        quiet: print nothing.

    Raises:
        BadInput: what cannot be run so; a score that is not a number; a folder of another study.
        KeyboardInterrupt: Ctrl-C, after what was done is saved.
    """
    limits = {} if budget is None else dict(budget)
    study = Study(run, score, parts_of(parts), list(tasks), [], [], [], seeds, limits, within, workers)
    _check(study, verify)
    study = _drawn(study, verify, seed)
    settings = {"verify": verify, "seeds": seeds, "seed": seed, "budget": limits, "within": within}
    with ExitStack() as stack:
        live = stack.enter_context(Live(plain=True, stream=io.StringIO() if quiet else None))
        folder = stack.enter_context(_opened(Path(out), study, settings, live))
        stack.enter_context(folder.alone())
        report = measured(study, folder, live)
        folder.write_summary({"algo": KIND, "seconds": folder.seconds, **summary_of(report)})
        page = page_of(report)
        blocks.write(folder.path, page)
        write_atomic(folder.path / "report.html", html_of(folder, page))
        return report


def _check(study: Study, verify: float) -> None:
    budget, within = study.budget, study.within
    numbers = all(isinstance(x, int | float) and x > 0 for x in budget.values())
    for good, what, got, expected in (
        (callable(study.run), "run is no function", study.run, "run(task, parts)"),
        (callable(study.score), "score is no function", study.score, "score(task, answer)"),
        (len(study.tasks) > 0, "there are no tasks", study.tasks, "at least one; two for an interval"),
        (0 <= verify < 1, "not a share of the tasks", verify, "verify from 0, below 1"),
        (min(study.seeds, study.workers) >= 1, "too few", (study.seeds, study.workers), "seeds and workers from 1 on"),
        ({*BUDGETS} >= {*budget} and numbers, "not a budget", budget, f"numbers above 0, of {', '.join(BUDGETS)}"),
        (within is None or within > 0, "not a width", within, "within above 0"),
    ):
        if not good:
            raise BadInput(what, got=got, expected=expected, where=_WHERE)


def _drawn(study: Study, verify: float, seed: int) -> Study:
    """The study with its tasks held apart and its configurations, cut to its budget of runs."""
    order = rng(seed, KIND, "tasks").permutation(len(study.tasks)).tolist()
    masks = masks_of(len(study.parts), rng(seed, KIND, "orders"))
    n = round(verify * len(order))
    held, fit, most = order[:n], order[n:], study.budget.get("runs")
    if most is not None:
        fit = fit[: max(0, int(most / study.seeds - _VERIFIED * n) // len(masks))]
    if not fit:
        least = (len(masks) + _VERIFIED * n) * study.seeds
        raise BadInput(
            "no task is left to measure at",
            got=f"{len(order)} tasks, verify={verify}, budget of runs {most}",
            expected=f"a task that is not held apart, and at least {least} runs",
            where=_WHERE,
            do="more tasks, fewer parts, or a smaller verify",
        )
    return replace(study, masks=masks, fit=fit, held=held)


# ------------------------------------------------------------------------------------------------ the folder
def _opened(path: Path, study: Study, settings: dict[str, Any], live: Live) -> RunFolder:
    """The folder, new or as it was left.

    Raises:
        BadInput: it is of another study, or a part, the tasks or the workflow are no longer the same.
    """
    config = {
        "parts": {part.name: list(part.labels) for part in study.parts},
        "prints": [[part.name, *part.prints] for part in study.parts],
        "tasks": [len(study.tasks), fingerprint(study.tasks)[0]],
        "run": fingerprint(study.run)[0],
        "score": fingerprint(study.score)[0],
        **settings,
    }
    by_name = [part.name for part in study.parts if not part.whole]
    if by_name:
        live.note(f"! objects in {', '.join(by_name)} are known by their type alone: changed ones need another out")
    if not (path / "config.json").exists():
        seed = settings["seed"]
        return RunFolder.create(path, algo=KIND, config=config, env="", seed=seed, command=_WHERE, kind=KIND)
    folder = RunFolder.open(path)
    stored = folder.manifest()
    if stored.get("kind") != KIND:
        raise BadInput("a folder of another run", got=stored.get("algo"), where=str(path), do="choose another out")
    changed = [key for key in config if key != "parts" and stored["config"].get(key) != config[key]]
    if "score" in changed:
        live.note("! score has changed since the study began: what was run before is judged by the old one")
        changed.remove("score")
    if changed:
        names = [mine[0] for mine in config["prints"] if mine not in stored["config"]["prints"]]
        what = f"the parts ({', '.join(names) or 'one is gone'})" if "prints" in changed else ", ".join(changed)
        raise BadInput(
            f"the folder holds another study: {what} changed",
            got=str(path),
            expected="the same parts, tasks, workflow and settings as before",
            where=_WHERE,
            do="choose another out, or remove that folder",
        )
    return folder


# ------------------------------------------------------------------------------------------------ running
def measured(study: Study, folder: RunFolder, live: Live) -> Report:
    """Make the runs of a study that are not in its folder yet, and report what all came to.

    Raises:
        Interrupted: Ctrl-C, after what was done is saved.
    """
    with ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            stack.enter_context(folder.interrupt)
        return _measured(study, folder, live)


def _measured(study: Study, folder: RunFolder, live: Live) -> Report:
    rows, full = stored(folder), (1 << len(study.parts)) - 1
    plan = study.jobs(study.fit, study.masks, held=False)
    most = len(plan) + _VERIFIED * len(study.held) * study.seeds
    live.note(
        f"{count(len(study.parts), 'part')}, {count(len(study.masks), 'configuration')}, "
        f"{count(len(study.fit), 'task')} and {len(study.held)} held apart: at most {count(most, 'run')}"
        f"{f', {len(rows):,} made before' * bool(rows)} → {folder.path}; tokens and time follow after the first task"
    )
    with _loop() as loop:
        if not folder.finished and not any(row.held for row in rows):
            _run(study, plan, rows, (folder, live, loop, most))
        fit = [row for row in rows if not row.held]
        looked = study.within is not None or len(fit) < len(plan)
        best = Game(study.parts, fit, looked).best()
        if study.held and not folder.finished:
            again = study.jobs(study.held, sorted({best, 0, full}), held=True)
            _run(study, [*(Job(*row[:4]) for row in fit), *again], rows, (folder, live, loop, most))
    return report_of(folder.path, study.parts, rows, best, looked=looked)


def _run(
    study: Study, plan: Sequence[Job], rows: list[Row], at: tuple[RunFolder, Live, asyncio.AbstractEventLoop, int]
) -> None:
    """Make the runs of the plan that are not in ``rows``, until a task ends after which no other is to be begun."""
    folder, live, loop, most = at
    todo, begun = plan[len(rows) :], len(rows)
    a_task = sum(job[:2] == plan[-1][:2] for job in plan)
    if [row[:4] for row in rows] != plan[:begun]:
        do = "choose another out, or remove that folder"
        raise BadInput("the lines are not those of this study", where=str(folder.path), do=do)
    if not todo:
        return
    if begun:
        live.note(_forecast(rows, most - begun, study.workers))
    advanced = live.advancing("verifying" if plan[-1].held else "measuring")
    with closing(in_order(study, todo, loop)) as runs:
        for job, made in runs:
            if rows and rows[-1][:2] != job[:2]:
                if _enough(study, rows, folder.seconds, a_task, held=job.held):
                    return
                if len(rows) == a_task:
                    live.note(_forecast(rows, most - a_task, study.workers))
            row, episode = made()
            rows.append(row)
            folder.log(len(rows), seconds=row.seconds, score=row.score)
            folder.episode(episode)
            advanced(len(rows) / most)
            if folder.interrupt.requested:
                raise Interrupted(f"stopped; the study stands in {folder.path}\n  do: the same call goes on")


def _enough(study: Study, rows: list[Row], seconds: float, a_task: int, *, held: bool) -> bool:
    """Whether no other task is to be begun: every part is known well enough, or the budget would not hold it."""
    if rows[-1].held != held:  # the first of the tasks held apart
        return False
    at_all = len({row.task for row in rows}) >= LEAST
    if study.within and not held and at_all and Game(study.parts, rows, looked=True).widest() <= study.within:
        return True
    nothing = all(row.calls == 0 for row in rows)
    unknown = {
        "calls": nothing or any(row.calls is None for row in rows),
        "tokens": nothing or any(row.tokens is None and row.calls != 0 for row in rows),
    }
    if any(unknown.get(name, False) for name in study.budget):
        do = "evolvent.spend(client), evolvent.spent(tokens), or a budget of runs or seconds"
        raise BadInput("a budget of what is not counted", got=dict(study.budget), where=_WHERE, do=do)
    ahead = 1 + (a_task + (0 if held else _VERIFIED * len(study.held) * study.seeds)) / len(rows)
    calls, tokens = sum(row.calls or 0 for row in rows), sum(row.tokens or 0 for row in rows)
    used = {"calls": calls, "tokens": tokens, "seconds": seconds}
    return any(used[name] * ahead > study.budget.get(name, inf) for name in used)


def _forecast(rows: Sequence[Row], left: int, workers: int) -> str:
    """What is still to come, from the first runs."""
    share, calls = left / len(rows), sum(row.calls or 0 for row in rows)
    tokens = [row.tokens for row in rows if row.tokens is not None]
    said = [f"at most {count(left, 'run')}"] + [f"{ceil(share * calls):,} calls"] * (calls > 0)
    said += [f"{ceil(share * sum(tokens)):,} tokens"] * (calls > 0 and len(tokens) == len(rows))
    said.append(duration(share * sum(row.seconds for row in rows) / workers))
    raised = [row.error for row in rows if row.error]
    warning = f"\n! {len(raised)} of {len(rows)} runs raised: {raised[0]}" if raised else ""
    return f"still to come, from {count(len(rows), 'run')}: {', '.join(said)}{warning}"


@contextmanager
def _loop() -> Generator[asyncio.AbstractEventLoop]:
    """One event loop for all runs that are asynchronous: a client of the workflow belongs to a loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
