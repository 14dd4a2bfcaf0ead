"""The runs of a study: made in their order, several at a time, and kept in a run folder.

A line of ``episodes.jsonl`` is one run, the same bytes however often the study was stopped; what a clock says stands in
``metrics.jsonl``.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from evolvent.core import outside
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump
from evolvent.core.protocols import Task
from evolvent.teams.game import Row
from evolvent.teams.parts import Chosen, Part
from evolvent.teams.spend import metered

_TEXT = 4000  # characters of a task, or an answer, that are kept


class Job(NamedTuple):
    """A run that is to be made; ``held``: at a task that was held apart."""

    held: bool
    task: int
    mask: int
    seed: int


Made = tuple[Row, Episode]


@dataclass(frozen=True)
class Study:
    """What is to be run, checked: values come from the tasks ``fit``, the best is verified at those ``held`` apart.

    ``strict``: what ``run`` raises ends the study; otherwise it is an outcome, of score 0.
    """

    run: Callable[..., Any]
    score: Callable[[Any, Any], Any]
    parts: tuple[Part, ...]
    tasks: list[Any]
    masks: list[int]
    fit: list[int]
    held: list[int]
    seeds: int
    budget: Mapping[str, float]
    within: float | None
    workers: int
    strict: bool = False

    def jobs(self, tasks: Iterable[int], masks: Iterable[int], *, held: bool) -> list[Job]:
        """Runs in their order: task by task."""
        masks = list(masks)
        return [Job(held, task, mask, seed) for task in tasks for mask in masks for seed in range(self.seeds)]


def in_order(
    study: Study, jobs: Sequence[Job], loop: asyncio.AbstractEventLoop
) -> Generator[tuple[Job, Callable[[], Made]]]:
    """The jobs in their order, each with what makes, or waits for, its run; ``loop`` is for asynchronous ones."""
    if study.workers == 1:
        yield from ((job, partial(_attempt, study, job, loop)) for job in jobs)
        return
    waiting: deque[tuple[Job, Future[Made]]] = deque()
    with ThreadPoolExecutor(study.workers) as pool:
        try:
            for job in jobs:
                waiting.append((job, pool.submit(copy_context().run, _attempt, study, job, loop)))
                if len(waiting) == 2 * study.workers:
                    first, future = waiting.popleft()
                    yield first, future.result
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result
        finally:
            for _, future in waiting:
                future.cancel()


def _attempt(study: Study, job: Job, loop: asyncio.AbstractEventLoop) -> Made:
    task, chosen = study.tasks[job.task], Chosen(study.parts, job.mask)
    more = {"seed": job.seed} if _takes_seed(study.run) else {}
    answer, error, score = None, "", 0.0
    began = time.monotonic()
    with metered() as meter:
        try:
            answer = study.run(task, chosen, **more)
            if inspect.isawaitable(answer):
                answer = asyncio.run_coroutine_threadsafe(_awaited(answer), loop).result()
        except (Exception, SystemExit) as raised:  # anybody's workflow: that it fails is an outcome
            if study.strict:
                raise
            error = f"{type(raised).__name__}: {raised}\n{outside.line_of(raised)}"
    seconds = round(time.monotonic() - began + meter.saved_s, 3)
    if not error:
        with outside.own_faults("", "score raised", where=f"task {job.task}, answer {_text(answer)[:80]!r}"):
            found = study.score(task, answer)
        score = _number(found, job.task)
    calls = None if meter.stray else meter.calls
    row = Row(*job, score, seconds, calls, meter.known, error, frozenset(chosen.read))
    episode = _recorded(study, row, answer)
    if meter.known is not None and meter.split:
        episode.spend(prompt=meter.prompt, cached=meter.cached, completion=meter.completion)
    success = bool(score) if score in (0, 1) else None
    episode.end(terminated=True, success=success, source="score", valid=not job.held, stop="raised" if error else "")
    return row, episode


def _recorded(study: Study, row: Row, answer: Any) -> Episode:
    """A run as a recorded attempt that has not ended: every slot with its implementation; nothing that a clock says."""
    facts = {"held": row.held, "mask": row.mask, "calls": row.calls, "tokens": row.tokens, "read": sorted(row.read)}
    name = f"{'held' if row.held else 'fit'}-{row.task}-{row.mask}-{row.seed}"
    facts |= {"error": row.error} if row.error else {}
    episode = Episode(f"task {row.task}", seed=row.seed, id=name, meta=facts)
    episode.observe(_text(study.tasks[row.task]))
    for i, part in enumerate(study.parts):
        episode.component(part.name, implementation=part.labels[row.mask >> i & 1])
    episode.act(_text(answer), reward=row.score)
    return episode


def stored(folder: RunFolder) -> list[Row]:
    """The runs so far, those whose two lines both stand; the rest is cut off."""
    rows = rows_of(folder)
    folder.truncate(len(rows))
    return rows


def rows_of(folder: RunFolder) -> list[Row]:
    """The runs so far, those whose two lines both stand."""
    seconds = {row["step"]: row["seconds"] for row in folder.read_metrics()}
    rows: list[Row] = []
    for found in folder.read_episodes():
        if found["step"] not in seconds:
            break
        facts, episode = found["meta"], Episode.from_dict(found)
        job = Job(facts["held"], int(episode.task_id.removeprefix("task ")), facts["mask"], episode.seed)
        counted = facts["calls"], facts["tokens"], facts.get("error", ""), frozenset[str](facts["read"])
        rows.append(Row(*job, episode.total_reward, seconds[found["step"]], *counted))
    return rows


def _text(value: Any) -> str:
    """A task or an answer as text; of what has none that stays the same its type."""
    if isinstance(value, Task):
        return value.text
    try:
        return (value if isinstance(value, str) else dump(value))[:_TEXT]
    except (BadInput, TypeError, RecursionError):
        return f"<{type(value).__name__}>"


def _number(value: Any, task: int) -> float:
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, bool | int | float) or not isfinite(plain):
        expected = "True, False, or a finite number"
        raise BadInput("a score is not a number", got=value, expected=expected, where=f"score of task {task}")
    return float(plain)


def _takes_seed(run: Callable[..., Any]) -> bool:
    try:
        return "seed" in inspect.signature(run).parameters
    except (TypeError, ValueError):
        return False


async def _awaited(answer: Any) -> Any:
    return await answer
