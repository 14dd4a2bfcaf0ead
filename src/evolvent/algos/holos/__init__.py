"""Holos: a market of agents that fail: ranked by what they did before, leased parts of tasks, paid for what they bring.

Paper: Holos: A Web-Scale LLM-Based Multi-Agent System for the Agentic Web (arXiv 2604.02334). Neither its code nor its
rules are public: what follows is our reconstruction of what is told of it.

    profiles    made where a capability lacks agents, tools by MMR, dormant until asked            (``profiles``)
    plan        a graph of parts, made without knowing the agents                                  (``plans``)
    dispatch    ranked, learned from the log of leases, with exploration                           (``market``)
    value       double entry in whole units, escrow, stake, paid once; a bonus split by worth      (``accounts``)

Agents are memories of one frozen model: each carries lessons on some kinds of question, from a reviewer of its own who
may be wrong. Every agent answers every question once; then tasks of several questions are served again and again, by
processes that give those answers, crash, hang, lie and come too late. With a chance r to fail per lease, k candidates
and n parts, a task is delivered with probability ``(1 - r^k)^n`` where failures are crashes and hangs.

Deviations from the reconstruction's sources: the planner is a script that is told each question's kind; parts are
served in order; bids are fixed prices without a time, as recorded answers take none; a lease has a deadline and no
heartbeat; planning again means the next candidate.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from evolvent.algos.holos.cells import FAILURES, Judge, Made, all_cells, answers_of, made, opened, served
from evolvent.algos.holos.summary import summarise
from evolvent.core.config import at_least
from evolvent.core.errors import BadInput, closest
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Env
from evolvent.evaluate.live import Live
from evolvent.memory import embedders
from evolvent.play.settings import AttemptSettings
from evolvent.runs.memory.attempt import Agent
from evolvent.runs.opening import answering, started
from evolvent.runs.shell import Shell, tell_fewer

PAPER = "arXiv 2604.02334"
LEVELS = ("component",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config:
    """Settings of a market."""

    KIND = "agents"

    env: str = "analyst:kinds=6,reviewer_wrong=0.3"
    """Environment whose held-out tasks are asked, each in one step; its kinds of task are the capabilities."""
    model: str = "qwen2.5-coder-1.5b"
    """The frozen model of all agents."""
    questions: int = 24
    """Held-out tasks that every agent answers once."""
    tasks: int = 24
    """Tasks that are served at each failure, rate and arm; each has as many questions as the plan has nodes."""
    nodes: int = 4
    """Parts of a task."""
    plan: str = "chain"
    """chain, fan, or a JSON file with a graph: {"node": ["node that it needs", …]}."""
    candidates: int = 3
    """Agents that a capability has, and leases that a part may take (k)."""
    skills: int = 3
    """Capabilities of an agent."""
    tools: int = 2
    """Lessons of an agent for each of its capabilities."""
    lessons: int = 4
    """Solved tasks of each capability to choose them from."""
    diversity: float = 0.3
    """Weight of difference in that choice (MMR: 1 - lambda)."""
    failures: tuple[str, ...] = FAILURES
    """crash, hang, lie, caught, late, wash."""
    rates: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    """Chances to fail at a lease (r)."""
    explore: float = 0.1
    """Share of leases that go to any candidate, however ranked."""
    lease_s: float = 0.5
    """Seconds that an agent has for an answer that it knows."""
    active: int = 4
    """Agents that are awake at most."""
    embedder: str = embedders.DEFAULT
    """What compares texts."""
    seed: int = 0
    """Random seed of profiles, tasks, draws and failures."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Let every agent answer, serve tasks in every cell, and return the summary that stands in ``summary.json``."""
    _check(config)
    every = all_cells(config.failures, config.rates)
    with ExitStack() as stack:
        prepare = started(config, folder, live, lambda env: _made(config, env, live), writes="nobody answers")
        worlds, model, have = stack.enter_context(prepare)
        engine, renderer = answering(model, 0.0)
        agent, judge = Agent(engine, model.name, settings=AttemptSettings(renderer)), Judge(worlds.first)
        shell = Shell(folder, live, len(have.questions) + len(every) * config.tasks, resume=resume, unit="task")
        if resume:
            done = len(folder.read_metrics())
            shell.go_on(done, done - 1)
        rows, one = folder.read_metrics(), stack.enter_context(ExitStack())
        answers, market, at = rows[: len(have.questions)], None, -1
        for number in shell.updates():
            with shell.clock("act"):  # ACT and STEP; CREDIT: agents are paid as they serve
                if (question := number) < len(have.questions):
                    row = answers_of(have.questions[question], folder.path, worlds.first, agent, have, config.seed)
                    answers.append(row)
                else:
                    where, task = divmod(number - len(have.questions), config.tasks)
                    if market is None or where != at:
                        one.close()
                        market = one.enter_context(opened(every[where], config, folder.path, have, answers, judge))
                        at, before = where, rows[number - task : number]
                        market.recall([lease for line in before for lease in line["leases"]])  # LEARN: from the log
                    row = served(every[where], config, have, market, task)
            shell.log(number, row, {})
            shell.tell(())
    return {"algo": "holos", "env": config.env, "model": agent.name, "seed": config.seed} | summarise(
        folder, have, config
    )


def _made(config: Config, env: Env, live: Live) -> Made:
    found = made(config, env, embedders.ready(config.embedder))
    tell_fewer(live, config.env, "held-out tasks", config.questions, len(found.questions))
    return found


def _check(config: Config) -> None:
    least = {
        "questions": 2,
        "tasks": 1,
        "nodes": 1,
        "candidates": 1,
        "skills": 1,
        "tools": 1,
        "lessons": 1,
        "active": 1,
    }
    at_least(config, least | {"lease_s": 0.01, "explore": 0.0, "diversity": 0.0}, {"explore": 1.0, "diversity": 1.0})
    for name in config.failures:
        if name not in FAILURES:
            raise BadInput("unknown failure", got=name, expected=closest(name, FAILURES), where="--failures")
    if not config.failures or not config.rates or not all(0.0 <= rate <= 1.0 for rate in config.rates):
        got = f"{config.failures}, {config.rates}"
        raise BadInput("nothing to measure", got=got, expected="failures, and rates of 0 to 1", where="--rates")
