"""ShapleyFlow: what is each slot of a workflow worth? Weak and strong in all configurations, at the same tasks.

Paper: Understanding and Optimizing Agentic Workflows via Shapley value (arXiv 2502.00510, CapaBench). Every slot always
runs; a coalition S says which ones are strong, and v(S) is the success rate.

    phi_i = sum_{S without i} |S|! (n-|S|-1)! / n! [v(S + i) - v(S)]      v(S) ~ v(none) + sum_{i in S} phi_i

``--slots workflow``, as published (``slots``): plan once, then up to ``--steps`` times reason, act and, after a wrong
answer, reflect; weak slots ask ``--model``, strong ones ``--strong``. ``--slots analyst``: what one pays for when a
model writes queries, a larger model, lessons, a longer schema, a second query after one that failed. ``--players`` says
which are exchanged, the others stay weak; ``placebo``, a comment in every prompt, is worth nothing.

Reported are Shapley and Banzhaf values, what is lost without a slot, what it adds alone, interactions, the same of
tokens and seconds, what configurations score beyond the sum of their slots, and the best one at fresh tasks
(``evolvent.teams``, which measures any workflow so). Intervals are over tasks, paired.

Deviations: the released scripts compute the Banzhaf value, count a missing coalition as 0 and keep the best of several
runs; here all coalitions are run once, at the same tasks. What is no answer ends with its line, after ``--line`` tokens
(published 1,024). The published loop asks the gold answer whether to stop; with ``--no-oracle-stop`` only an error that
the environment reports lets it try again. Default models are a 135M and a 1.5B (published: Llama-3-8B against nine).
The same prompt is answered once, and costs every configuration what it cost then.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Literal

from evolvent import models
from evolvent.algos.shapley_flow.slots import ANALYST, WORKFLOW, Asked, analysed, comment, lessons, worked
from evolvent.core.config import at_least
from evolvent.core.errors import BadInput, closest
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Env, Task, distinct
from evolvent.evaluate.live import Live
from evolvent.memory import embedders
from evolvent.runs.opening import started
from evolvent.teams.parts import parts_of
from evolvent.teams.report import summary_of
from evolvent.teams.study import Study
from evolvent.teams.worth import measured

PAPER = "arXiv 2502.00510"
LEVELS = ("component",)
STATUS = "lightly tested"
PLACEBO = "placebo"


@dataclass(frozen=True)
class Config:
    """Settings of a study of slots."""

    KIND = "agents"

    env: str = "arithmetic:addition2"
    """Environment whose held-out tasks are worked on; the slot schema wants ``analyst``."""
    slots: Literal["workflow", "analyst"] = "workflow"
    """Plan, reason, act and reflect; or model, memory, schema and repair."""
    players: tuple[str, ...] = ()
    """Slots that are exchanged, ``placebo`` among them if you like; none = the four."""
    model: str = "smollm2-135m"
    """The weak model."""
    strong: str = "qwen2.5-coder-1.5b"
    """The strong model."""
    tasks: int = 48
    """Held-out tasks that values come from."""
    fresh: int = 16
    """Further ones, where the best configuration is verified."""
    steps: int = 10
    """Of the workflow: answers to a task, at most."""
    oracle_stop: bool = True
    """Of the workflow: a wrong answer may be mended, as if somebody knew (published)."""
    line: int = 48
    """Tokens of a plan, a thought or a reflection, at most."""
    lessons: int = 3
    """Of the analyst: lessons in the prompt, the nearest of 60 corrections."""
    comment: int = 1
    """Which comment the placebo is."""
    embedder: str = embedders.DEFAULT
    """What finds the nearest lessons."""
    seed: int = 0
    """Random seed of the tasks."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Work on every task in every configuration, and return the summary that stands in ``summary.json``."""
    least = {"tasks": 1, "fresh": 0, "steps": 1, "line": 1, "lessons": 1, "comment": 0}
    at_least(config, least, {"lessons": 60})
    players = _players(config)
    with ExitStack() as stack:
        opening = started(
            config, folder, live, lambda env: _tasks(config, env, "schema" in players), writes="nobody answers"
        )
        worlds, weak, tasks = stack.enter_context(opening)
        ask, env = Asked({config.model: weak}), worlds.first
        if any(config.strong in pair for pair in players.values()):
            live.status(f"loading {config.strong}")
            ask.models[config.strong] = stack.enter_context(closing(models.load(config.strong)))
        known = lessons(env, config.embedder, config.lessons, config.seed) if "memory" in players else None

        def work(task: Task, parts: Any) -> dict[str, Any]:
            if config.slots == "analyst":
                return analysed(env, task, parts, ask, config.model, known)
            how = {"steps": config.steps, "oracle_stop": config.oracle_stop, "line": config.line}
            return worked(env, task, parts, ask, config.model, **how)

        fit = list(range(config.tasks))
        apart = list(range(config.tasks, len(tasks)))
        masks = list(range(1 << len(players)))
        study = Study(work, _right, parts_of(players), tasks, masks, fit, apart, 1, {}, None, 1, strict=True)
        report = measured(study, folder, live)
    names = {"algo": "shapley_flow", "env": config.env, "model": config.model, "seed": config.seed}
    return names | {"against_model": config.strong, **summary_of(report)}


def _right(task: Task, answer: dict[str, Any]) -> bool:
    return answer["right"]


def _players(config: Config) -> dict[str, tuple[Any, Any]]:
    """The slots that are exchanged, each weak and strong."""
    models = config.model, config.strong
    known: dict[str, tuple[Any, Any]] = dict.fromkeys(WORKFLOW, models)
    if config.slots == "analyst":
        known = {"model": models, **ANALYST}
    names = config.players or tuple(known)
    known[PLACEBO] = None, comment(config.comment)
    for name in names:
        if name not in known:
            raise BadInput("no such slot", got=name, expected=closest(name, list(known)), where="--players")
    if len(set(names)) < len(names):
        raise BadInput("a slot is named twice", got=names, expected="each once", where="--players")
    if models[0] == models[1] and any(known[name] == models for name in names):
        raise BadInput("weak and strong are one model", got=models[0], expected="two", where="--strong")
    return {name: known[name] for name in names}


def _tasks(config: Config, env: Env, described: bool) -> list[Task]:
    if described and not hasattr(env, "schema"):
        raise BadInput("no schema to show at length", got=config.env, expected="--env analyst", where="slot schema")
    wanted = config.tasks + config.fresh
    tasks = distinct(env.tasks("heldout", wanted, config.seed))
    if len(tasks) < wanted:
        do = "fewer --tasks or --fresh"
        raise BadInput("too few held-out tasks", got=len(tasks), expected=wanted, where=config.env, do=do)
    return tasks
