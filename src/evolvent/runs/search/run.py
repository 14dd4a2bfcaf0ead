"""A search run: tasks, each searched in one way or in several at the same budget, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evolvent import envs, models
from evolvent.core.episode import Episode
from evolvent.core.folder import Interrupted, RunFolder
from evolvent.core.protocols import Engine, Env, Renderer, Task, distinct
from evolvent.core.reward_kinds import reward_kinds, rewards_of
from evolvent.core.seeding import seed_tree
from evolvent.evaluate.live import Live, count
from evolvent.formulas.statistics import auc, mcnemar, wilson
from evolvent.formulas.two_state import revisions, right_after
from evolvent.models.served.acting import Served
from evolvent.play.manner import Manner
from evolvent.play.renderers import Plain, Text
from evolvent.runs.search.config import (
    SEARCHES,
    WIDER,
    SearchConfig,
    called,
    check_value,
    known,
    parts_of,
    rollouts,
    unread,
)
from evolvent.runs.search.drawing import TREES, drawn, keep_trees
from evolvent.runs.search.grow import Grower
from evolvent.runs.search.memory_value import PREFIX, MemoryValue
from evolvent.search import dser, values
from evolvent.search.aggregate import AGGREGATORS
from evolvent.search.attempts import Attempts
from evolvent.search.budget import Budget
from evolvent.search.record import records
from evolvent.search.search import Path, Search, State, Value, flat

WHICH = {"heldout": "held-out", "train": "training"}
REVISED = ("mended", "wrong_answers", "spoiled", "right_answers")


@dataclass
class Seat:
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
class Found:
    """What a search made of one task."""

    path: Path
    answer: str | None
    episode: Episode | None
    right_somewhere: bool
    """Whether any path was right: what an oracle would have chosen."""
    n_paths: int
    pairs: tuple[float, int]
    """Pairs of a right and a wrong path: in how many the right one has the higher value (ties half), and all."""


def run(config: SearchConfig, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Search every task in every way, batch by batch, and return the summary that stands in ``summary.json``."""
    check_value(config)
    with ExitStack() as stack:
        side_by_side = min(config.plan.batch, config.tasks)
        worlds = [stack.enter_context(closing(envs.load(config.env))) for _ in range(side_by_side)]
        tasks = distinct(worlds[0].tasks(config.plan.split, config.tasks, config.seed))
        if len(tasks) < config.tasks:
            told = count(len(tasks), f"{WHICH[config.plan.split]} task")
            live.note(f"! {config.env} has {told}: {config.tasks} were asked for, and each is searched once")
        if idle := unread(config):
            live.note(f"! {', '.join(idle)} changes nothing here: no search that was asked for reads it")
        if "dser" in config.search:
            dser.world(worlds[0], dser.Config()).check(tasks[0])
        memories = [part for part in parts_of(config.value) if part.startswith(PREFIX)]
        remembered = {part: stack.enter_context(closing(MemoryValue.of(part))) for part in memories}
        seat = replace(_seat(config, worlds, stack, live), remembered=remembered)
        done = _go_on(folder, config, len(tasks)) if resume else 0
        step = done
        with folder.interrupt as interrupt:
            for name in config.search:
                live.phase(f"{name} ({len(tasks)} tasks, {_limits(config)})")
                for start in range(0, len(tasks), config.plan.batch):
                    batch = tasks[start : start + config.plan.batch]
                    if done >= len(batch):
                        done -= len(batch)
                        continue
                    step = _batch(name, batch, (start, len(tasks), step), config, (seat, folder, live))
                    if interrupt.requested:
                        raise Interrupted
    return summarise(config, seat.name, folder.read_metrics())


def _batch(
    name: str, batch: Sequence[Task], at: tuple[int, int, int], config: SearchConfig, io: tuple[Seat, RunFolder, Live]
) -> int:
    """Search some tasks side by side, log and show them; returns the number of the next line."""
    start, total, step = at
    seat, folder, live = io
    began = time.perf_counter()
    search, space = searched(name, batch, config, seat)
    spent = time.perf_counter() - began
    for task, one in enumerate(batch):
        found = chosen(search, space, task, name if config.aggregate == "auto" else config.aggregate)
        right = bool(found.episode and found.episode.success)
        broke = not found.path.ended and task in {of for of, _ in space.broken}
        valid, meter = not broke and (found.episode is None or found.episode.valid), search.meter
        for record in records(search, space, [p.leaf for p in search.of(task)]):
            folder.episode(record, step=step)
        if start + task < TREES:
            keep_trees(folder.path, step, [drawn(search, space, task, found.path, name)])
        folder.log(
            step,
            phase=name,
            task=one.id,
            kind=one.kind,
            question=one.text[:500],
            success=int(right),
            oracle=int(found.right_somewhere),
            answer=found.answer,
            value=round(found.path.value, 5),
            ended=int(found.path.ended),
            paths=found.n_paths,
            ranked=found.pairs[0],
            pairs=found.pairs[1],
            nodes=len(search.tree.inside(task)),
            tokens=int(meter.tokens[task]),
            judge_tokens=int(meter.judge[task]),
            calls=int(meter.calls[task]),
            judged=int(meter.judged[task]),
            seconds=round(spent / len(batch), 3),
            model_s=round(meter.model_s / len(batch), 3),
            value_s=round(meter.value_s / len(batch), 3),
            valid=int(valid),
            prompt_tokens=round(meter.prompt / len(batch)),
            cached_tokens=round(meter.cached / len(batch)),
            **_revised(search, space, task),
        )
        note = f"value {found.path.value:.3g}, {len(search.tree.inside(task))} states, {int(meter.tokens[task])} tokens"
        live.task(
            start + task + 1,
            total,
            question=one.text,
            action=found.answer or "",
            ok=right,
            note="broke, not counted" if broke else note,
            seconds=spent / len(batch),
        )
        step += 1
    for text in dict.fromkeys([*search.notes, *space.notes]):
        live.note(f"! {text}")
    return step


def searched(name: str, tasks: Sequence[Task], config: SearchConfig, seat: Seat) -> tuple[Search, Attempts]:
    """The trees of some tasks, grown by one search."""
    module, settings = called(name, config, [seed_tree(config.seed, name, one.id) for one in tasks])
    worlds = [module.world(env, settings) for env in seat.worlds] if hasattr(module, "world") else seat.worlds
    grower = Grower(
        worlds,
        Manner(seat.renderer),
        seat.engines(0.0 if name == "greedy" else config.temperature),
        config.widths,
        config.longest,
        "answer" if name == "greedy" else config.unit,
        Budget(config.budget_tokens, config.budget_calls, config.budget_seconds),
        seat.decode,
        seat.keeping,
        config.plan.join,
    )
    return grower.grow(
        tasks,
        lambda search: module.run(search, settings),
        _value(config, seat),
        seed=config.seed,
        verifier=_paid(seat) if config.verifier else values.shown if "shown" in parts_of(config.value) else None,
    )


def _revised(search: Search, space: Attempts, task: int) -> dict[str, int]:
    """How often answers were mended and spoiled in the rounds of a task's chains (``search.dser``)."""
    chains = [space.episode(path.leaf) for path in search.of(task)]
    told = [
        rewards_of(one, dser.RIGHT)[::2] > 0 for one in chains if one is not None and dser.RIGHT in reward_kinds(one)
    ]
    counts = np.sum([revisions(answers.tolist()) for answers in told], axis=0).tolist() if told else []
    return dict(zip(REVISED, counts, strict=False))


def chosen(search: Search, space: Attempts, task: int, how: str) -> Found:
    """One path of all that were found for a task; ``how`` is a search (its own way) or an aggregator.

    A vote reads no value: of the paths to its answer it takes the first, not the one that a value likes best.
    """
    found, way = search.of(task), SEARCHES.get(how, how)
    episodes = {path.leaf: space.episode(path.leaf) for path in found}
    answers = [_answer(episodes[path.leaf]) for path in found]
    steps = [search.tree.value[search.tree.path(path.leaf)[1:]].tolist() for path in found]
    answer = AGGREGATORS[way](answers, steps)
    ranked = [i for i, a in enumerate(answers) if a == answer] or list(range(len(found)))
    best = ranked[0] if way == "majority" else max(ranked, key=lambda i: found[i].value)
    ends = [episodes[path.leaf] for path in found]
    right = np.array([one is not None and bool(one.success) for one in ends], bool)
    pairs = int(right.sum() * (~right).sum())
    ranked = auc([path.value for path in found], right) * pairs if pairs else 0.0
    return Found(found[best], answer, episodes[found[best].leaf], bool(right.any()), len(found), (ranked, pairs))


def summarise(config: SearchConfig, model: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Success of each search with its interval, what it cost, and each against the first on the same tasks."""
    by_name = {name: [row for row in rows if row["phase"] == name and row["valid"]] for name in config.search}
    first = {row["task"]: row["success"] for row in by_name[config.search[0]]}
    arms: list[dict[str, Any]] = []
    for name, mine in by_name.items():
        won, n = sum(row["success"] for row in mine), len(mine)
        mean = {
            key: float(np.mean([row[key] for row in mine])) if n else None
            for key in ("oracle", "tokens", "calls", "seconds", "paths", "nodes", "prompt_tokens", "cached_tokens")
        }
        pairs = sum(row.get("pairs", 0) for row in mine)  # rows of older runs do not say
        low, high = wilson(won, n) if n else (0.0, 1.0)
        both = [row for row in mine if row["task"] in first]
        a, b = [first[row["task"]] for row in both], [row["success"] for row in both]
        p = mcnemar(a, b) if both else 1.0
        arms.append(
            {
                "name": name,
                "n": n,
                "successes": won,
                "rate": won / n if n else None,
                "ci95": [low, high],
                **mean,
                **(_spent(config, name, mine) if n else {"judge_tokens": None, "left": None}),
                "ranks": sum(row.get("ranked", 0.0) for row in mine) / pairs if pairs else None,
                "first_only": sum(x > y for x, y in zip(a, b, strict=True)),
                "this_only": sum(y > x for x, y in zip(a, b, strict=True)),
                "p": p,
                **_two_states([row for row in mine if REVISED[0] in row]),
            }
        )
    head = arms[0]
    other = arms[1] if len(arms) > 1 else None
    score = {"name": f"{WHICH[config.plan.split]} success, {head['name']}", "value": head["rate"], "ci95": head["ci95"]}
    baseline = {"name": other["name"], "value": other["rate"], "ci95": other["ci95"]} if other else {}
    return {
        "algo": "search",
        "env": config.env,
        "model": model,
        "seed": config.seed,
        "arms": arms,
        "score": score | {"higher_is_better": True},
        **({"baseline": baseline} if baseline else {}),
        "value": config.value,
        "verifier": config.verifier,
        "budget_tokens": config.budget_tokens,
        "budget_calls": config.budget_calls,
        "budget_seconds": config.budget_seconds,
        "steps": len(rows),
        "seconds": round(sum(row["seconds"] for row in rows), 1),
        "tokens": int(sum(row["tokens"] for row in rows)),
    }


# ------------------------------------------------------------------------------------------------ inside
def _spent(config: SearchConfig, name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a judge read, the mean share of the budget that was left, and what lets the search spend it.

    Of a budget of seconds alone nothing is said: it is one for tasks side by side. Beside another budget it may be what
    ended a search, so that nothing is advised.
    """
    tokens, calls, read = (
        float(np.mean([row.get(key, 0) for row in rows])) for key in ("tokens", "calls", "judge_tokens")
    )
    limits = ((tokens + read, config.budget_tokens), (calls, config.budget_calls))
    shares = [spent / limit for spent, limit in limits if limit]
    left = 1.0 - max(shares) if shares else None  # below 0 where a judge read beyond it
    return {"judge_tokens": read, "left": left, "wider": None if config.budget_seconds else WIDER.get(name)}


def _two_states(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Chances that a round mends a wrong answer and spoils a right one, with intervals, and what they lead to."""
    mended, wrong, spoiled, right = (sum(row[name] for row in rows) for name in REVISED)
    if not wrong or not right:
        return {}
    p, q = mended / wrong, spoiled / right
    shares = {"mends": p, "mends_ci95": wilson(mended, wrong), "spoils": q, "spoils_ci95": wilson(spoiled, right)}
    return shares | {"right_after_80_rounds": right_after(80, p, q)}


def _seat(config: SearchConfig, worlds: list[Env], stack: ExitStack, live: Live) -> Seat:
    if config.model == "none":
        return Seat("none", lambda temperature: Served(None, temperature), Text(), None, worlds)
    live.status(f"loading {config.model}")
    model = stack.enter_context(closing(models.load(config.model)))
    if not hasattr(model, "logprobs"):
        return Seat(model.name, lambda temperature: Served(model, temperature), Text(), None, worlds)
    from evolvent.models.language.acting import Acting

    language: Any = model
    stack.enter_context(_threads(config.plan.threads))
    folders = [part for part in parts_of(config.value) if not known(part)]
    learned = _learned(language, folders[0]) if folders else None
    return Seat(
        config.model.removeprefix("train:"),
        lambda temperature: Acting(language, "sum", temperature),
        Plain(model),
        language.decode,
        worlds,
        learned,
        language.keeping,
    )


@contextmanager
def _threads(n: int) -> Iterator[None]:
    """Inside, torch has ``n`` threads; 0 leaves it what it has."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(n or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _learned(model: Any, folder: str) -> Value:
    """The value that stands in a folder: a critic of steps, or a head on hidden states."""
    from evolvent.learn.critics.search_value import SearchValue
    from evolvent.runs.search.step_critic import StepCritic, is_critic

    return StepCritic.load(model, folder) if is_critic(folder) else SearchValue.load(model, folder)


def _value(config: SearchConfig, seat: Seat) -> Value:
    parts = [_one(part, seat) for part in parts_of(config.value)]
    return parts[0] if len(parts) == 1 else values.mixture(*((1 / len(parts), part) for part in parts))


def _paid(seat: Seat) -> Value:
    """The world's own reward, as a place in what it can be: PUCT's weights are made for values of 0 to 1."""

    def reward(states: Sequence[State]) -> np.ndarray:
        return values.reward(states, seat.worlds[0].reward_range)

    return reward


def _one(name: str, seat: Seat) -> Value:
    """A value by its name; any other is that of a memory, or of the folder."""
    if name == "judge":
        return values.Judge(seat.engines(1.0), seat.renderer.plain, seat.renderer.command)
    kinds: dict[str, Value] = {"likelihood": values.likelihood, "flat": flat, "shown": values.guess}
    if name.startswith("rollouts"):
        return replace(rollouts(name), bounds=seat.worlds[0].reward_range)
    if name in (own := kinds | seat.remembered):
        return own[name]
    assert seat.learned is not None
    return seat.learned


def _answer(episode: Episode | None) -> str | None:
    return None if episode is None else episode.answer


def _limits(config: SearchConfig) -> str:
    told = {"tokens": config.budget_tokens, "calls": config.budget_calls, "seconds": config.budget_seconds}
    return ", ".join(f"{limit:g} {what}" for what, limit in told.items() if limit) or f"{config.paths} paths"


def _go_on(folder: RunFolder, config: SearchConfig, tasks: int) -> int:
    """Lines that stand; those of a batch that was broken off are dropped."""
    n, whole = len(folder.read_metrics()), 0
    size = config.plan.batch
    sizes = [min(size, tasks - start) for _ in config.search for start in range(0, tasks, size)]
    for size in sizes:
        if whole + size > n:
            break
        whole += size
    folder.truncate(whole - 1)
    return whole
