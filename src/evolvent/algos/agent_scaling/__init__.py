"""Agent scaling: how many agents does it take, and does it help that they differ? A frozen model, votes and debates.

Paper: Understanding Agent Scaling in LLM-Based Multi-Agent Systems via Diversity (arXiv 2602.03794).

    L1   one kind, one persona         L2   one kind, five personas, cycled
    L3   kinds cycled, one persona     L4   both cycled: agent i has kind i mod M, persona i mod 5
    K*   of what n agents say to a task, the mean over tasks (``formulas.diversity``); accuracy against it over all arms
         floor + span (1 - exp(-alpha K*)), least squares
    vote of round 0; debate: ``--rounds`` more, in each of which a member reads the latest texts (mesh, ring, hub)

``--answer choose``: a frozen model chooses among the functions of a request (BFCL) in three ways, which are the kinds
(``members``), and teams are also put together by the sum of their log-probabilities. ``--answer write``: kinds are
models that write, ``--model`` and ``--also``; the only ones that can debate.

With a plain vote two agents score the mean of the two, so every table has beside each arm the single greedy agent, the
best single one, the mean of members, agents alike by vote, and agents alike at equal tokens.

Deviations: kinds of choosers in place of three model families; MiniLM in place of NV-Embed-v2 for K*, per task, rows
renormalised; personas are ours, and none is the shared one. Published personas have temperature 0, at which agents
alike are one agent; each level is also drawn at ``--temperature``. Ties of a vote are a chance, not a draw. Of the
released ``--solver vote|debate`` both debate; here both are taken from one record.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evolvent import models
from evolvent.algos.agent_scaling.arms import summarise
from evolvent.algos.agent_scaling.members import CHANNELS, MEMBERS, TOPOLOGIES, Asked, Team, debated, teams
from evolvent.core.config import at_least
from evolvent.core.errors import BadInput, closest
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.protocols import Env, Task, distinct
from evolvent.evaluate.live import Live
from evolvent.memory import embedders
from evolvent.runs.opening import started
from evolvent.runs.shell import Shell, tell_fewer

PAPER = "arXiv 2602.03794"
LEVELS = ("component",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config:
    """Settings of a scaling study."""

    KIND = "agents"

    env: str = "bfcl:multiple,n=63"
    """Environment whose held-out tasks are answered, each in one step."""
    model: str = "smollm2-135m"
    """The frozen model."""
    also: tuple[str, ...] = ()
    """Further models that write, for L3 and L4."""
    answer: Literal["choose", "write"] = "choose"
    """Whether a member chooses among the functions of a task, in one of three ways, or writes."""
    tasks: int = 63
    """Held-out tasks."""
    agents: int = 16
    """Members of the largest team (published: 2, 4, 8, 12, 16)."""
    temperature: float = 1.0
    """Of arms in which answers are drawn; the others have 0, as published."""
    rounds: int = 0
    """Rounds of debate after the first answers (published: 3); 0 = none."""
    debaters: int = 4
    """Members of a team that debates."""
    topologies: tuple[str, ...] = ("mesh", "ring", "hub")
    """Who reads whom: mesh, ring, hub."""
    embedder: str = embedders.DEFAULT
    """What embeds texts for K*; published: nvidia/NV-Embed-v2."""
    seed: int = 0
    """Random seed of tasks and draws."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Ask every member every task once, and return the summary that stands in ``summary.json``."""
    at_least(config, {"tasks": 2, "agents": 2, "temperature": 0.0, "rounds": 0, "debaters": 2}, {"agents": 64})
    embedder, choose = embedders.ready(config.embedder), config.answer == "choose"
    with ExitStack() as stack:
        opening = started(config, folder, live, lambda env: _tasks(config, env, live), writes="nobody answers")
        worlds, model, tasks = stack.enter_context(opening)
        every = [model, *(stack.enter_context(closing(models.load(name))) for name in config.also)]
        levels = teams(CHANNELS if choose else [one.name for one in every], config.agents)
        shell = Shell(folder, live, len(tasks), resume=resume, unit="task")
        if resume:
            done = len(folder.read_metrics())
            shell.go_on(done, done - 1)
        for number in shell.updates():
            with shell.clock("act"):  # ACT and STEP: an answer is judged as it is given; nothing is credited or learned
                asked = Asked(worlds.first, tasks[number], every, config.seed)
                row = answered(config, asked, levels)
            shell.log(number, {"task": tasks[number].id, "said": asked.said, **row}, {})
            shell.tell(())
    rows = folder.read_metrics()
    found = [(row["task"], row["said"][at]) for row in rows for at in row["arms"][MEMBERS]]
    lines = [dump({"question": task, "agent": said["member"], **said}) + "\n" for task, said in found]
    write_atomic(folder.path / "answers.jsonl", "".join(lines))
    options_Q = np.array([len(row["said"][0]["logprob"]) if choose else 0 for row in rows])
    measured = summarise(rows, embedder, options_Q, config.seed)
    return {"algo": "agent_scaling", "env": config.env, "model": model.name, "seed": config.seed} | measured


def answered(config: Config, asked: Asked, levels: dict[str, Team]) -> dict[str, Any]:
    """The arms of a task, each the places in ``asked.said`` of its answers, and the tokens of all rounds of debates."""
    drawn, arms, spent = config.temperature, dict[str, list[int]](), dict[str, int]()
    for level, team in levels.items():
        arms[level] = [asked.ask(*member, 0.0, i) for i, member in enumerate(team)]
        if level != MEMBERS and drawn:
            arms[f"{level} drawn"] = [asked.ask(*member, drawn, i) for i, member in enumerate(team)]
    for level in levels if config.rounds else ():
        for topology in config.topologies if level != MEMBERS else ():
            team, name = levels[level][: config.debaters], f"{level} {topology}"
            arms[name], spent[name] = debated(asked, team, drawn, config.rounds, topology)
    return {"arms": arms, "spent": spent}


def _tasks(config: Config, env: Env, live: Live) -> list[Task]:
    if config.answer == "choose" and not hasattr(env, "item"):
        do = "--answer write"
        raise BadInput(
            "nothing to choose among", got=config.env, expected="--env bfcl:multiple", where="--answer", do=do
        )
    if config.answer == "choose" and (config.also or config.rounds):
        do = "--answer write"
        raise BadInput("who chooses has one model and no debate", got="--also or --rounds", where="--answer", do=do)
    for name in config.topologies:
        if name not in TOPOLOGIES:
            raise BadInput("unknown topology", got=name, expected=closest(name, TOPOLOGIES), where="--topologies")
    tasks = distinct(env.tasks("heldout", config.tasks, config.seed))
    tell_fewer(live, config.env, "held-out tasks", config.tasks, len(tasks))
    return tasks
