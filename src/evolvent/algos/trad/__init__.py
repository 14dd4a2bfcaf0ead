"""TRAD: recorded steps of an expert are found by thought and shown with their neighbours; the model stays as it is.

Paper: arXiv 2403.06221 (SIGIR 2024). Once, for each step of each expert trajectory, the model writes why the command
was given (a thought). Then, at every step of a task:

    1. thought      beside whole trajectories of the k nearest tasks (words, first situation), what to do next and why
    2. retrieval    cosine of that thought with those of all expert steps; the nearest step, then the nearest of another
                    trajectory, ... until k
    3. decision     each found step i with its neighbours i - back .. i + forward, marked by their offset to i, earliest
                    i first; the own last ``history`` steps (situation, thought, command), marked by their offset;
                    then the command

The expert is the environment's (``expert(task)``: alfworld searches, twx has its package's path, household plans) or
the successful training attempts of another run (``--experts RUN``). What was shown stands on receipts, which are
settled with the outcome of the attempt; no value moves. Held-out tasks are tried without the steps (thoughts and own
last steps alone) and with them. Control: ``--by trajectory`` shows whole trajectories to the one that decides, too
(retrieval by task).

Not repeated from the released code: each thought is embedded once and kept; steps have ids of their own; a step keeps
situation, thought and command together; a thought that stays empty is asked for twice, not for ever, and its step
cannot be found; the history is the agent's own, never the expert's.

Deviations: the local model writes the thoughts, from two examples of ours. A situation is in the words that a memory
gets. A command is the likeliest of those that are offered (free text where none are). Of more than ``chars`` characters
of examples the farthest steps are dropped, and a whole trajectory is shown from its beginning as far as it fits. The
one that thinks sees as many own steps as the one that decides (in the released ALFWorld code all of them), own steps
are marked, too, and whole trajectories stand the nearest last (released: the shortest first). An attempt ends after
``repeats`` equal commands, or pairs of them, and at the environment's limit (50 commands in alfworld). Where the model
thinks nothing, nothing is shown.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from evolvent.algos.trad.aligned import STEP, TEAM, THINKER, WHOLE, Aligned, Alignment, asked, example, library_of
from evolvent.algos.trad.experts import Expert, experts_of, play_expert, steps_of, world_seed
from evolvent.core.config import at_least, from_json
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Env, Model, Request, Task, cut, distinct
from evolvent.core.seeding import seed_tree
from evolvent.envs.promises import check_splits
from evolvent.evaluate.live import Live, count, one_line
from evolvent.memory import embedders
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.play.experience import Use
from evolvent.play.settings import AttemptSettings, Budget
from evolvent.runs.broken import Lately
from evolvent.runs.memory import cursor
from evolvent.runs.memory.attempt import Agent
from evolvent.runs.memory.lifelong import Item, Stream, check_plan, one_step
from evolvent.runs.memory.run import judged, tried
from evolvent.runs.memory.summary import summarise
from evolvent.runs.opening import Wanted, answering, opened
from evolvent.runs.shell import Shell, tell_fewer

PAPER = "arXiv 2403.06221"
LEVELS = ()
STATUS = "lightly tested"
T = TypeVar("T")
HEAD = "Each command was right. Say in one short sentence why it was given, as its thought.\n\n"
EXAMPLES = (
    (
        "put the lamp on the shelf",
        "At the table. On it: lamp. Holding: nothing.",
        "take lamp from table",
        "The lamp is here, so I take it before I go to the shelf.",
    ),
    (
        "water the plant",
        "In the hall. The door to the garden is shut. Holding: full can.",
        "open door to garden",
        "The plant is in the garden and the door is shut, so I open it first.",
    ),
)
"""Thoughts that were written by hand: task, situation, command, thought."""
TITLES = {
    "expert": "The expert's steps, explained",
    "before": "Held-out tasks without the expert's steps",
    "after": "Held-out tasks with the expert's steps",
}


@dataclass(frozen=True)
class Config:
    """Settings of TRAD; k, back, forward and repeats are the paper's for ALFWorld."""

    KIND = "memory"

    env: str = "alfworld"
    """Environment with its options; one with an expert (alfworld, twx, household, yours with expert(task)), unless
    --experts names a run."""
    model: str = "qwen2.5-coder-1.5b"
    """Language model, which writes the thoughts and decides; see `evolvent list models`."""
    seed: int = 0
    """Random seed of tasks and sampling."""
    train: int = 24
    """Training tasks whose expert trajectories are recorded."""
    heldout: int = 24
    """Held-out tasks, each tried without and with the expert's steps."""
    experts: str = ""
    """Folder of a run whose successful attempts at training tasks are the expert's; "" = the environment's own."""
    by: Literal["thought", "trajectory"] = "thought"
    """What is shown to the one that decides: steps found by thought, or whole trajectories found by task (control)."""
    k: int = 2
    """Steps found for a decision, each of another trajectory; trajectories shown to the one that thinks (K)."""
    back: int = 1
    """Steps shown before one that was found (B)."""
    forward: int = 2
    """Steps shown after it (F)."""
    marks: bool = True
    """Say how far each shown step is from the one that was found."""
    history: int = 3
    """Own last steps that are shown; in the paper B + F."""
    same_kind: bool = True
    """Only trajectories of tasks of the same kind (a separate index for each)."""
    repeats: int = 3
    """Equal commands, or pairs of them, in a row that end an attempt; 0 = none do."""
    chars: int = 8000
    """Characters of examples in a prompt, at most."""
    words: int = 40
    """Tokens of a thought, at most."""
    temperature: float = 0.0
    """Sampling temperature of thoughts and commands; 0 = greedy."""
    embedder: str = embedders.DEFAULT
    """What compares thoughts; see the plan of `evolvent run memlift --help`."""

    def __post_init__(self) -> None:
        least = {"train": 1, "heldout": 1, "k": 1, "back": 0, "forward": 0, "history": 0, "chars": 0, "words": 1}
        at_least(self, least | {"repeats": 0, "temperature": 0})


def run(
    config: Config, folder: RunFolder, live: Live, *, resume: bool = False, model: Model | None = None
) -> dict[str, Any]:
    """Explain the expert's steps, then try held-out tasks without and with them; returns the summary."""
    with _opened(config, folder, live, resume, model, _plan) as (env, agent, memory, (experts, plan)):
        source, of = (config.experts, "solved training tasks") if config.experts else (env.name, "training tasks")
        tell_fewer(live, source, of, config.train, len(experts))
        tell_fewer(live, env.name, "held-out tasks", config.heldout, sum(item.phase == "after" for item in plan))
        shell = Shell(folder, live, len(plan), resume=resume, unit="task")
        cursor.go_on(shell, memory, lambda done: check_plan(plan, folder, done))
        stream, ready, lately = Stream("trad", config.seed), None, Lately()
        heading = ""
        for number in shell.updates():
            item = plan[number]
            if heading != item.phase:
                live.phase(f"{TITLES[item.phase]} ({item.of})")
                heading = item.phase
            if item.phase == "expert":
                broke = _explained(config, item, experts[number], env, agent, memory, folder, live)
            else:
                ready = ready or _aligned(config, agent, memory, env, live)
                broke = one_step(item, stream, env, ready, memory, folder, live)  # ACT, STEP
            lately.add(broke)
            if item.phase != "expert":
                lately.check()
            shell.update += 1
        summary = summarise("trad", env.name, agent, folder.read_metrics(), config.seed)
        rows = [row for row in folder.read_metrics() if row["phase"] == "expert"]
        summary["experts"] = {name: sum(row[name] for row in rows) for name in ("solved", "steps", "thoughts")}
        summary |= {"by": config.by, "health": memory.health()}
        folder.write_summary(summary)
    return summary


def evaluate(folder: RunFolder, live: Live, episodes: int | None = None) -> dict[str, Any]:
    """Held-out success with the expert's steps of a run that has explained them."""
    config = from_json(Config, folder.config)
    with _opened(config, folder, live, None, None, lambda config, env: None) as (env, agent, memory, _):
        tasks = distinct(env.tasks("heldout", episodes or config.heldout, config.seed))
        return judged(env, _aligned(config, agent, memory, env, live), memory, tasks, config.seed, live)


# ------------------------------------------------------------------------------------------------ before anything
@contextmanager
def _opened(
    config: Config,
    folder: RunFolder,
    live: Live,
    resume: bool | None,
    model: Model | None,
    plan: Callable[[Config, Env], T],
) -> Iterator[tuple[Env, Agent, Memory, T]]:
    def prepare(env: Env) -> T:
        tried(env, config)
        return plan(config, env)

    policy = preset("rag", k=config.k, pool=config.k)
    wanted = Wanted(policy, config.embedder, writes="thoughts are written by a model")
    opening = opened(config, folder, live, wanted, resume=resume, model=model, prepare=prepare)
    with opening as (env, model, memory, planned):
        assert model is not None
        engine, renderer = answering(model, config.temperature)
        budget = Budget(answer=max(config.words, env.max_tokens), repeats=config.repeats)
        yield env, Agent(engine, model.name, Use(), AttemptSettings(renderer, TEAM, budget)), memory, planned


def _plan(config: Config, env: Env) -> tuple[list[Expert], list[Item]]:
    """Find the expert's tasks, and lay out all steps of the run."""
    experts = experts_of(env, config.env, config.train, config.seed, config.experts)
    heldout = distinct(env.tasks("heldout", config.heldout, config.seed))
    train = [task for task, _ in experts]
    check_splits(env, train, heldout)
    _check_kinds(config, heldout, {task.kind for task in train})
    phases = [("expert", train), ("before", heldout), ("after", heldout)]
    steps = [(phase, task, len(tasks), i) for phase, tasks in phases for i, task in enumerate(tasks)]
    return experts, [Item(n, phase, 1, task, of, i) for n, (phase, task, of, i) in enumerate(steps, 1)]


def _check_kinds(config: Config, tasks: list[Task], known: set[str]) -> None:
    if config.same_kind and (alone := sorted({task.kind for task in tasks} - known)):
        raise BadInput(
            "no trajectory of an expert for this kind of task",
            got=", ".join(alone),
            expected=", ".join(sorted(known)),
            where="--same-kind",
            do="record more (--train), or --no-same-kind shows those of other kinds",
        )


def _aligned(config: Config, agent: Agent, memory: Memory, env: Env, live: Live) -> Agent:
    """The agent with what the memory holds by now."""
    library = library_of(memory)
    if not library:
        raise BadInput(
            "no trajectory of an expert",
            got="none of the training tasks was solved",
            where=config.env,
            expected="at least one",
            do="raise --train or the environment's step_limit, or name a run: --experts",
        )
    tasks = distinct(env.tasks("heldout", config.heldout, config.seed))
    _check_kinds(config, tasks, {trajectory.kind for trajectory in library.values()})
    sizes = [len(example(env, one, dict.fromkeys(range(len(one.steps))))) for one in library.values()]
    if long := sum(size > config.chars for size in sizes):
        live.note(
            f"{long} of {len(sizes)} trajectories are longer than --chars {config.chars} (the longest: "
            f"{max(sizes)}); the one that thinks sees their first steps"
        )
    how = Alignment(
        config.k,
        config.back,
        config.forward,
        config.by,
        config.marks,
        config.history,
        config.same_kind,
        not config.temperature,
        config.chars,
    )
    made = functools.partial(Aligned, library=library, how=how)
    return Agent(agent.engine, agent.name, agent.use, agent.settings, made)


# ------------------------------------------------------------------------------------------------ thoughts
def _explained(
    config: Config, item: Item, expert: Expert, env: Env, agent: Agent, memory: Memory, folder: RunFolder, live: Live
) -> EnvError | None:
    """One trajectory: played, and its steps explained and kept one by one; what a kill leaves is not asked again."""
    task, episode = expert
    started, error = time.perf_counter(), None
    try:
        episode = episode or play_expert(env, task, world_seed(config.seed, task))
    except EnvError as broke:
        error = broke
    explained = {} if episode is None else _thoughts(config, task, episode, env, agent, memory)
    row = {
        "phase": "expert",
        "task": task.id,
        "kind": task.kind,
        "solved": int(episode is not None),
        "steps": len(explained),
        "thoughts": sum(about["thought"] for about in explained.values()),
    }
    row |= {name: sum(about[name] for about in explained.values()) for name in ("tokens", "prompt_tokens")}
    with memory.transaction():
        if episode is not None:
            about = {"trajectory": task.id, "kind": task.kind}
            key = asked(task, explained[0]["situation"])
            memory.remember(key, task.text, kind=WHOLE, metadata=about, source="expert", merge=None)
            folder.episode(episode, step=item.step)
        folder.log(
            item.step,
            **row,
            seconds=round(time.perf_counter() - started, 3),
            **({} if error is None else {"error": one_line(str(error))}),
        )
        cursor.saved(memory, item.step)
    action = "not solved by the expert" if error else f"{count(row['steps'], 'step')}, {row['thoughts']} with a thought"
    live.task(
        item.index + 1,
        item.of,
        question=task.text,
        action=action,
        ok=error is None,
        note=one_line(str(error)) if error else "",
        seconds=time.perf_counter() - started,
    )
    return error


def _thoughts(
    config: Config, task: Task, episode: Episode, env: Env, agent: Agent, memory: Memory
) -> dict[int, dict[str, Any]]:
    """A thought for each step, each kept when it is there: key = thought, body = command."""
    steps, before = steps_of(episode), ""
    mine = {"trajectory": task.id}
    known = {item.metadata["step"]: item for item in memory.items(filter=mine) if item.kind == STEP}
    explained: dict[int, dict[str, Any]] = {}
    for i, (situation, action) in enumerate(steps):
        if i in known and (known[i].body, known[i].metadata["situation"]) != (action, situation):
            raise BadInput(
                "the expert does something else now",
                got=action,
                expected=known[i].body,
                where=f"{task.id}, step {i}",
                do="start a new run",
            )
        if i in known:
            thought, about = known[i].key if known[i].metadata["thought"] else "", known[i].metadata
        else:
            thought, tokens, prompt_tokens = _thought(config, task, env, agent, (before, situation, action), i)
            about = {
                **mine,
                "kind": task.kind,
                "step": i,
                "situation": situation,
                "thought": bool(thought),
                "found": bool(thought),
                "tokens": tokens,
                "prompt_tokens": prompt_tokens,
            }
            memory.remember(thought or action, action, kind=STEP, metadata=about, source="expert", merge=None)
        explained[i] = about
        before += f"{env.labels[1]}: {action}\n{THINKER}: {thought}\n"
    return explained


def _thought(
    config: Config, task: Task, env: Env, agent: Agent, step: tuple[str, str, str], i: int
) -> tuple[str, int, int]:
    """Why a step was made, in one line, with the tokens it took; empty where the model twice says nothing."""
    (question, answer), (before, situation, action) = env.labels, step
    shown = [f"Task: {t}\n{question}: {s}\n{answer}: {a}\n{THINKER}: {why}\n\n" for t, s, a, why in EXAMPLES]
    text = f"{HEAD}{''.join(shown)}Task: {task.text}\n{before}{question}: {situation}\n{answer}: {action}\n{THINKER}:"
    tokens = prompt_tokens = 0
    for begin in ("", " I"):
        prompt = agent.settings.renderer.plain(text + begin)
        seed = seed_tree(config.seed, "thought", task.id, i, begin)
        (said,) = agent.engine([Request(prompt, seed, config.words, ("\n",), adapter=None)])
        tokens, prompt_tokens = tokens + len(said.token_ids), prompt_tokens + said.prompt_tokens
        begun, _ = cut(said.text, (f"{question}:", f"{answer}:", f"{THINKER}:", "\n"))
        if thought := " ".join(begun.split()):
            return f"{begin.strip()} {thought}".strip(), tokens, prompt_tokens
    return "", tokens, prompt_tokens
