"""What a model calls on the held-out tasks of ``functions:``, before learning and after it.

Names of functions and parameters are asked for twice, as they are and drawn at random: who reads descriptions loses
nothing by the second. Functions that training knows stand apart from unseen ones, and refusals beside the call rate:
who never calls has every refusal right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evolvent import envs
from evolvent.core.errors import EnvError
from evolvent.core.protocols import Request, Task
from evolvent.core.seeding import seed_tree
from evolvent.envs.text.functions import Functions
from evolvent.evaluate.live import Live, interval, percent
from evolvent.runs.account.calls import COLUMNS, graded, shares

if TYPE_CHECKING:
    from evolvent.runs.language.run import LanguageRun

NAMES = ("own", "random")
HELD = {"seen": "heldout", "unseen": "unseen"}
_UNREADABLE = "{"
Calls = Mapping[str, Mapping[str, Mapping[str, Mapping[str, Any]]]]
"""By names, held-out part and column: ``value``, ``ci95`` and the number ``n`` of tasks; ``None`` where that is 0."""


def judged_calls(run: LanguageRun) -> Calls:
    """Greedy answers to the held-out tasks of the run, with their own names and with random ones.

    "calls right", "functions right" and "arguments right" are of tasks that need a call, "refusals right" of the
    others, "call rate" of all. An answer that cannot be read, or a task that does not fit the context, is a wrong call.
    """
    found = envs.find(run.copies.spec, "--env")
    out: dict[str, dict[str, Any]] = {}
    for names in NAMES:
        found_of = answers(run, found.make(**found.given("--env") | {"names": names}), run.heldout)
        for held, split in HELD.items():
            mine = [one for task, one in zip(run.heldout, found_of, strict=True) if task.meta["split"] == split]
            if mine:
                out.setdefault(names, {})[held] = shares(mine)
    return out


def answers(run: LanguageRun, env: Any, tasks: Sequence[Task]) -> list[dict[str, bool]]:
    """What is right of greedy answers to tasks of ``env``: the ``COLUMNS`` that a task has."""
    from evolvent.models.language.acting import Acting

    requests: dict[int, Request] = {}
    for i, task in enumerate(tasks):
        try:
            requests[i] = next(run.attempt(env, task, seed_tree(run.config.seed, "calls", i), task.id, learns=False))
        except EnvError:  # does not fit; the evaluation beside this one says so
            continue
    told = Acting(run.model, run.config.act, 0.0)(list(requests.values()))
    said = {i: answer.text.strip() for i, answer in zip(requests, told, strict=True)}
    return [_graded(env, task, said.get(i, _UNREADABLE)) for i, task in enumerate(tasks)]


def show_calls(live: Live, before: Calls, after: Calls) -> None:
    """The table of both."""
    rows: list[list[object]] = []
    for names, parts in after.items():
        for held, now in parts.items():
            was = before[names][held]
            cells = [
                f"{percent(was[what]['value'])} → {interval(now[what]['value'], now[what]['ci95'])}" for what in COLUMNS
            ]
            rows.append([f"{names}, {held}", now["call rate"]["n"], *cells])
    live.table("held-out tasks, before → after [95 %]", ["names, functions", "tasks", *COLUMNS], rows)
    if not any(parts["refusals right"]["n"] for parts in after[NAMES[0]].values()):
        live.note("! no held-out task is right to refuse: evolvent data functions … --irrelevant .1 makes some")


def _graded(env: Functions, task: Task, text: str) -> dict[str, bool]:
    env.reset(task, task.seed)
    return graded(env.step(text).info["judged"])


def show_shares(live: Live, found: Mapping[str, Mapping[str, Any]]) -> None:
    """The table of ``shares``."""
    rows = [[what, one["n"], interval(one["value"], one["ci95"])] for what, one in found.items()]
    live.table("calls of functions, greedy", ["", "tasks", "share [95 %]"], rows)
