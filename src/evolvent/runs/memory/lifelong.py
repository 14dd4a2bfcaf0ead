"""A lifelong stream: held-out before, passes over a stream of tasks with learning, held-out after, and the control.

The loop is the same for every memory system of ``algos/``; what differs is the policy of the memory and what is
written. A step is one task. What a step taught is one transaction, after the model has answered, which also carries the
step's number; before it, a step leaves nothing but receipts, which are taken back when the run goes on. So a killed run
resumes with the step that was not finished and ends with the same numbers.

A step that the world broke does not count and teaches nothing. Where too many of the last steps broke, the run ends;
resumed, it repeats those after the last whole one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evolvent.core.errors import EnvError
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import shorten_home
from evolvent.core.protocols import Env, Task, distinct
from evolvent.core.seeding import rng, seed_tree
from evolvent.envs.promises import check_splits
from evolvent.evaluate.live import Live, one_line
from evolvent.memory.memory import Memory
from evolvent.runs.broken import Lately
from evolvent.runs.memory import cursor
from evolvent.runs.memory.attempt import Agent, Attempt, attempt
from evolvent.runs.memory.summary import summarise, top_memories
from evolvent.runs.shell import Shell, tell_fewer
from evolvent.runs.sources import check_tasks


@dataclass(frozen=True)
class Stream:
    """What is run: sizes, passes and the arms beside the learning one."""

    algo: str
    seed: int = 0
    passes: int = 2
    train: int = 48
    heldout: int = 24
    control: bool = True
    """Also try the stream's tasks once without memory (what the agent would have done anyway)."""
    attempts: int = 1
    """Attempts at each task; success of any counts (pass@k, without memory). Where later ones know of the first, only
    tasks of the stream have more than one."""


@dataclass(frozen=True)
class Item:
    """A step of a plan: a task in a phase."""

    step: int
    phase: str
    number: int
    task: Task
    of: int
    index: int


Choice = Callable[[Item, Sequence[Attempt]], Agent]
"""The agent of the next try of a step, after those that failed."""


def run_stream(
    stream: Stream,
    env: Env,
    agent: Agent,
    memory: Memory,
    folder: RunFolder,
    live: Live,
    *,
    resume: bool = False,
    chosen: Choice | None = None,
) -> dict[str, Any]:
    """Run all phases and write ``metrics.jsonl``, ``episodes.jsonl`` and ``summary.json``; returns the summary.

    ``chosen`` says which agent tries, where it is not always ``agent``.

    Raises ``Interrupted`` after the task at hand when the user asked to stop; the run can be resumed.
    """
    plan = list(_plan(stream, env))
    for phase, wanted, of in (("stream", stream.train, "training tasks"), ("before", stream.heldout, "held-out tasks")):
        tell_fewer(live, env.name, of, wanted, sum(item.phase == phase and item.number == 1 for item in plan))
    shell = Shell(folder, live, len(plan), resume=resume, unit="task")
    cursor.go_on(shell, memory, lambda done: check_plan(plan, folder, done))
    heading, lately = "", Lately()
    for number in shell.updates():
        item = plan[number]
        if heading != (title := _title(item, stream)):
            live.phase(heading := title)
            env.advance(item.number if item.phase in ("before", "stream") else stream.passes)
        lately.add(one_step(item, stream, env, agent, memory, folder, live, chosen=chosen))
        lately.check()
        shell.update += 1
        if shell.left > 30.0:
            shell.tell(())
    summary = summarise(stream.algo, env.name, agent, folder.read_metrics(), stream.seed)
    summary["top_memories"], summary["worst_memories"] = top_memories(memory)
    summary["health"] = memory.health()
    folder.write_summary(summary)
    return summary


def tasks_of(env: Env, train: int, heldout: int, seed: int) -> tuple[list[Task], list[Task]]:
    """The tasks of the stream and those held out, each of the latter once.

    Raises:
        BadInput: some are in both.
    """
    some = env.tasks("train", train, seed)
    others = distinct(env.tasks("heldout", heldout, seed)) if heldout else []
    check_splits(env, some, others)
    return some, others


def _plan(stream: Stream, env: Env) -> Iterator[Item]:
    """All steps in order. Orders of the stream come from the seed tree, a fresh one each pass."""
    train, heldout = tasks_of(env, stream.train, stream.heldout, stream.seed)
    step = 0
    phases: list[tuple[str, int, Sequence[Task]]] = [("before", 1, heldout)]
    for number in range(1, stream.passes + 1):
        order = rng(stream.seed, "order", number).permutation(len(train))
        phases.append(("stream", number, [train[i] for i in order]))
    phases.append(("after", stream.passes, heldout))
    if stream.control:
        phases.append(("control", 1, [train[i] for i in rng(stream.seed, "order", 1).permutation(len(train))]))
    for phase, number, tasks in phases:
        for index, task in enumerate(tasks):
            step += 1
            yield Item(step, phase, number, task, len(tasks), index)


def check_plan(plan: Sequence[Item], folder: RunFolder, done: int) -> None:
    """Whether the steps that were done are the first ones of the plan: an earlier version repeated held-out tasks."""
    rows = [row for row in folder.read_metrics() if row["step"] <= done]
    check_tasks(folder, rows, [(item.phase, item.task.id) for item in plan[: len(rows)]])


def one_step(
    item: Item,
    stream: Stream,
    env: Env,
    agent: Agent,
    memory: Memory,
    folder: RunFolder,
    live: Live,
    *,
    chosen: Choice | None = None,
) -> EnvError | None:
    """One step; the error of the world, where it broke."""
    learning = item.phase == "stream"
    tries: list[Attempt] = []
    for k in range(stream.attempts if learning or chosen is None else 1):
        agent = agent if chosen is None else chosen(item, tries)
        use_memory = item.phase in ("stream", "after") and agent.use.how != "none"
        seed = seed_tree(stream.seed, item.phase, item.number, item.task.id, k)
        tries.append(attempt(env, item.task, agent, memory if use_memory else None, seed=seed, learn=learning))
        if tries[-1].success:
            break
    tries = [one for one in tries if one.error is None] or tries[-1:]
    best = tries[-1]
    with memory.transaction():  # no model is called in it
        for one in tries:
            one.learn()
        _log(item, tries, memory, folder)
        if best.error is None:
            cursor.saved(memory, item.step)
    show(live, item.index + 1, item.of, item.task, best)
    return best.error


def _log(item: Item, tries: list[Attempt], memory: Memory, folder: RunFolder) -> None:
    best = tries[-1]
    if best.error is None:
        folder.episode(best.episode, step=item.step)
    health = memory.health() if item.phase == "stream" else {}
    folder.log(
        item.step,
        phase=item.phase,
        **{"pass": item.number},
        task=item.task.id,
        kind=item.task.kind,
        success=int(best.success),
        reward=best.episode.total_reward,
        valid=int(best.episode.valid),
        first=int(item.phase == "stream" and item.number == 1),
        repeat=int(item.phase == "stream" and item.number > 1),
        attempts=len(tries),
        prompt_tokens=sum(t.prompt_tokens for t in tries),
        tokens=sum(t.tokens for t in tries),
        seconds=round(sum(t.seconds for t in tries), 3),
        shown=[m.id for m in best.shown],
        omitted=[m.id for m in best.omitted],
        lesson=best.lesson,
        bank=health.get("items", 0),
        coverage=round(float(health.get("coverage", 0.0)), 4),
        **({} if best.error is None else {"error": one_line(shorten_home(str(best.error)))}),
    )


def show(live: Live, i: int, n: int, task: Task, done: Attempt) -> None:
    """The live line of an attempt."""
    said = (
        one_line(str(done.error)) if done.error else note(done) if done.episode.valid else "the world did not judge it"
    )
    live.task(
        i,
        n,
        question=done.situation or task.text,
        action=done.action,
        note=said,
        seconds=done.seconds,
        ok=done.success if done.episode.valid else None,
    )


def note(done: Attempt) -> str:
    """Why a program failed, what was recalled and why, what was left out, what was learned: the end of a live line."""
    nothing = f"{done.recalled} recalled, none shown" if done.recalled else "nothing recalled"
    parts = [f"{m.id} {m.why}" for m in done.shown[:3]] or [nothing]
    if not done.success and (text := done.episode.meta.get("words")):
        parts.insert(0, str(text))
    if done.omitted:
        parts.append("left out on purpose: " + ", ".join(m.id for m in done.omitted))
    if done.lesson:
        parts.append(f"→ {done.lesson}")
    return " · ".join(parts)


def _title(item: Item, stream: Stream) -> str:
    names = {
        "before": f"Held-out questions before learning ({item.of})",
        "stream": f"Stream, pass {item.number} of {stream.passes} ({item.of} tasks)",
        "after": f"Held-out questions after learning, memory frozen ({item.of})",
        "control": f"Control: the stream's tasks without memory ({item.of})",
    }
    return names[item.phase]
