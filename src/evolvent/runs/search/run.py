"""A search run: tasks, each searched in one way or in several at the same budget, and what came of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Engine, Env, Renderer, Task, distinct
from evolvent.core.seeding import seed_tree
from evolvent.evaluate.live import Live
from evolvent.play.settings import AttemptSettings
from evolvent.runs.opening import answering, started
from evolvent.runs.search.config import (
    WHICH,
    SearchConfig,
    called,
    check_value,
    known,
    parts_of,
    rollouts,
    unread,
)
from evolvent.runs.search.drawing import TREES, drawn, save_trees
from evolvent.runs.search.grow import Grower
from evolvent.runs.search.memory_value import PREFIX, MemoryValue
from evolvent.runs.search.outcome import chosen, row
from evolvent.runs.search.summary import summarise
from evolvent.runs.shell import Shell, tell_fewer, threads
from evolvent.runs.sources import check_tasks
from evolvent.search import values
from evolvent.search.attempts import Attempts
from evolvent.search.budget import Budget
from evolvent.search.record import records
from evolvent.search.search import Search, Value, flat
from evolvent.search.ways import way


@dataclass
class Backend:
    """What searches: an engine of each temperature, prompts in its form, and worlds, one a task of a batch."""

    name: str
    engines: Callable[[float], Engine]
    renderer: Renderer
    decode: Callable[[np.ndarray], str] | None
    worlds: list[Env]
    learned: Value | None = None
    """The value that stands in a folder, where one was asked for."""
    remembered: dict[str, Value] = field(default_factory=dict[str, Value])
    """Values of memories, by what was asked for."""
    keeping: Callable[[], AbstractContextManager[None]] = nullcontext
    """See ``Grower``."""


@dataclass(frozen=True)
class Batch:
    """Tasks that one search looks at side by side: ``first`` is the number of the first of them, ``step`` that of its
    line in the metrics.
    """

    search: str
    tasks: Sequence[Task]
    first: int
    step: int


def run(config: SearchConfig, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Search every task in every way, batch by batch, and return the summary that stands in ``summary.json``."""
    check_value(config)
    plan = config.plan
    with ExitStack() as stack:
        memories = [part for part in parts_of(config.value) if part.startswith(PREFIX)]
        remembered = {part: stack.enter_context(closing(MemoryValue.of(part))) for part in memories}
        opening = started(config, folder, live, partial(_tasks, config, live))
        worlds, model, tasks = stack.enter_context(opening)
        backend = _backend(config, model, worlds.some(min(plan.batch, len(tasks))), stack)
        backend.remembered.update(remembered)
        batches = [
            Batch(name, tasks[first : first + plan.batch], first, number * len(tasks) + first)
            for number, name in enumerate(config.search)
            for first in range(0, len(tasks), plan.batch)
        ]
        shell = Shell(
            folder,
            live,
            len(batches),
            resume=resume,
            unit="batch",
            spent=lambda: folder.seconds / 60 / (plan.minutes or math.inf),
        )
        if resume:
            _go_on(shell, batches)
        heading = ""
        for number in shell.updates():
            batch = batches[number]
            if heading != batch.search:
                live.phase(f"{batch.search} ({len(tasks)} tasks, {_limits(config)})")
            heading = batch.search
            _search(batch, len(tasks), config, backend, folder, live)
            shell.update += 1
            if shell.left > 30.0:
                shell.tell(())
        if shell.update < len(batches):
            live.note(
                f"! the {plan.minutes:g} minutes are over: {shell.update} of {len(batches)} batches were searched"
            )
    return summarise(config, backend.name, folder.read_metrics())


def _tasks(config: SearchConfig, live: Live, env: Env) -> list[Task]:
    """The tasks to search, each once; what does not fit them is refused or said."""
    tasks = distinct(env.tasks(config.plan.split, config.tasks, config.seed))
    tell_fewer(live, config.env, f"{WHICH[config.plan.split]} tasks", config.tasks, len(tasks))
    if idle := unread(config):
        live.note(f"! {', '.join(idle)} changes nothing here: no search that was asked for reads it")
    for name in config.search:
        if check := getattr(way(name), "check", None):
            check(env, tasks[0])
    return tasks


def _go_on(shell: Shell, batches: Sequence[Batch]) -> None:
    """Go on after the last batch that is whole; lines of one that was broken off are dropped.

    Raises:
        BadInput: the tasks are others than they were.
    """
    rows = shell.folder.read_metrics()
    check_tasks(shell.folder, rows, [(batch.search, task.id) for batch in batches for task in batch.tasks])
    n = len(rows)
    whole = [batch for batch in batches if batch.step + len(batch.tasks) <= n]
    shell.go_on(len(whole), sum(len(batch.tasks) for batch in whole) - 1)


def _search(batch: Batch, total: int, config: SearchConfig, backend: Backend, folder: RunFolder, live: Live) -> None:
    """Search the tasks of a batch side by side, log and show them."""
    began = time.perf_counter()
    search, space = searched(batch.search, batch.tasks, config, backend)
    seconds = time.perf_counter() - began
    for task, one in enumerate(batch.tasks):
        step, number = batch.step + task, batch.first + task
        found = chosen(search, space, task, batch.search if config.aggregate == "auto" else config.aggregate)
        for record in records(search, space, [p.leaf for p in search.of(task)]):
            folder.episode(record, step=step)
        if number < TREES:
            save_trees(folder.path, step, [drawn(search, space, task, found.path, batch.search)])
        columns = row(search, space, task, one, found, seconds)
        folder.log(step, phase=batch.search, **columns)
        note = f"value {found.path.value:.3g}, {columns['nodes']} states, {columns['tokens']} tokens"
        live.task(
            number + 1,
            total,
            question=one.text,
            action=found.answer or "",
            ok=found.right,
            note="broke, not counted" if found.broke else note,
            seconds=seconds / len(batch.tasks),
        )
    for text in dict.fromkeys([*search.notes, *space.notes]):
        live.note(f"! {text}")


def searched(name: str, tasks: Sequence[Task], config: SearchConfig, backend: Backend) -> tuple[Search, Attempts]:
    """The trees of some tasks, grown by one search."""
    module, settings = called(name, config, [seed_tree(config.seed, name, one.id) for one in tasks])
    worlds = [module.world(env, settings) for env in backend.worlds] if hasattr(module, "world") else backend.worlds
    grower = Grower(
        worlds,
        AttemptSettings(backend.renderer),
        backend.engines(getattr(module, "TEMPERATURE", config.temperature)),
        config.widths,
        config.longest,
        getattr(module, "UNIT", config.unit),
        Budget(config.budget_tokens, config.budget_calls, config.budget_seconds),
        backend.decode,
        backend.keeping,
        config.plan.join,
    )
    # the world's own reward, as a place in what it can be: PUCT's weights are made for values of 0 to 1
    paid = partial(values.reward, bounds=backend.worlds[0].reward_range)
    return grower.grow(
        tasks,
        lambda search: module.run(search, settings),
        _value(config, backend),
        seed=config.seed,
        verifier=paid if config.verifier else values.shown if "shown" in parts_of(config.value) else None,
    )


# ------------------------------------------------------------------------------------------------ inside
def _backend(config: SearchConfig, model: Any, worlds: list[Env], stack: ExitStack) -> Backend:
    def engine(temperature: float) -> Engine:
        return answering(model, temperature)[0]

    name = "none" if model is None else model.name
    backend = Backend(name, engine, answering(model, config.temperature)[1], None, worlds)
    if model is not None and hasattr(model, "logprobs"):  # in torch
        stack.enter_context(threads(config.plan.threads))
        backend.name = config.model.removeprefix("train:")
        backend.decode, backend.keeping = model.decode, model.keeping
        if folders := [part for part in parts_of(config.value) if not known(part)]:
            backend.learned = _learned(model, folders[0])
    return backend


def _learned(model: Any, folder: str) -> Value:
    """The value that stands in a folder: a critic of steps, or a head on hidden states."""
    from evolvent.learn.critics.search_value import SearchValue
    from evolvent.runs.search.step_critic import StepCritic, is_critic

    return StepCritic.load(model, folder) if is_critic(folder) else SearchValue.load(model, folder)


def _value(config: SearchConfig, backend: Backend) -> Value:
    parts = [_one(part, backend) for part in parts_of(config.value)]
    return parts[0] if len(parts) == 1 else values.mixture(*((1 / len(parts), part) for part in parts))


def _one(name: str, backend: Backend) -> Value:
    """A value by its name; any other is that of a memory, or of the folder."""
    if name == "judge":
        return values.Judge(backend.engines(1.0), backend.renderer.plain, backend.renderer.command)
    kinds: dict[str, Value] = {"likelihood": values.likelihood, "flat": flat, "shown": values.guess}
    if name.startswith("rollouts"):
        return replace(rollouts(name), bounds=backend.worlds[0].reward_range)
    if name in (own := kinds | backend.remembered):
        return own[name]
    assert backend.learned is not None
    return backend.learned


def _limits(config: SearchConfig) -> str:
    limits = {"tokens": config.budget_tokens, "calls": config.budget_calls, "seconds": config.budget_seconds}
    return ", ".join(f"{limit:g} {what}" for what, limit in limits.items() if limit) or f"{config.paths} paths"
