"""What is measured: the agents' answers, and tasks that are served again and again at a failure, a rate and an arm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evolvent.algos.holos import plans, profiles
from evolvent.algos.holos.accounts import Accounts
from evolvent.algos.holos.market import ALONE, USER, Arm, Market, Ranking
from evolvent.algos.holos.pool import Pool, Said
from evolvent.algos.holos.profiles import Profile
from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.protocols import Embedder, Env, Task, distinct
from evolvent.core.seeding import rng, seed_tree
from evolvent.runs.memory.attempt import Agent

FAILURES = ("crash", "hang", "lie", "caught", "late", "wash")
"""As of ``worker``; *caught*: lies where what is not right is not accepted; *wash*: before each task the
owner of the worst agent buys a share r of the parts from it, as far as it is able, and finds them perfect."""
PRICE, STAKE, PENALTY, MONEY, BONUS = 100, 10_000, 1, 10_000_000, 100_000
"""Of a part, of an agent, of a lease that brought nothing, of whoever buys, of all agents at the end."""


class Cell(NamedTuple):
    """A market of its own: with its accounts, its processes, its log."""

    arm: Arm
    failure: str
    rate: float

    @property
    def name(self) -> str:
        """As its file is called."""
        return f"{self.arm}-{self.failure}-{self.rate:g}"


def all_cells(failures: Sequence[str], rates: Sequence[float]) -> list[Cell]:
    """The market at every failure and rate, other arms at the first failure, washing with and without the guard."""
    found = [Cell("market", failure, rate) for failure in failures for rate in rates]
    others: list[Arm] = ["unlearned", "random", *ALONE]
    found += [Cell(arm, failures[0], rate) for arm in others for rate in rates]
    return found + [Cell("unguarded", "wash", rate) for rate in rates if "wash" in failures]


class Made(NamedTuple):
    """What is there before a model is loaded: questions, solved tasks by id, agents, the shape of plans."""

    questions: list[Task]
    solved: dict[str, Task]
    agents: list[Profile]
    needs: plans.Shape
    embedder: Embedder

    @property
    def vocabulary(self) -> list[str]:
        """The capabilities."""
        return sorted({task.kind for task in self.solved.values()})

    @property
    def generalist(self) -> Profile:
        """One agent with everybody's lessons, who is no part of the market: the control."""
        return Profile("generalist", "nobody", tuple(self.vocabulary), PRICE, vector=self.agents[0].vector)

    def lessons(self, env: Env, seed: int) -> dict[str, list[tuple[str, str]]]:
        """What every agent has learned, question and answer; the generalist everything, once."""
        of = {one.id: profiles.learned(one, self.solved, env, seed) for one in self.agents}
        return of | {self.generalist.id: list(dict.fromkeys(chain.from_iterable(of.values())))}


def made(config: Any, env: Env, embedder: Embedder) -> Made:
    """Questions, agents and plans of a run.

    Raises:
        BadInput: tasks of one kind, fewer questions than a plan has nodes, a plan that cannot be.
    """
    questions = distinct(env.tasks("heldout", config.questions, config.seed))
    needs, kinds = plans.shape(config.plan, config.nodes), sorted({task.kind for task in questions})
    if len(kinds) < 2 or len(questions) < len(needs):
        got = f"{len(questions)} tasks of {len(kinds)} kinds, a plan of {len(needs)} nodes"
        expected = "at least two kinds of task, and a task for each node"
        raise BadInput("no market", got=got, expected=expected, where="--env", do="--env analyst:kinds=6")
    solved = distinct(env.tasks("train", config.lessons * len(kinds), config.seed))
    solved = [task for task in solved if task.kind in kinds]
    if missing := set(kinds) - {task.kind for task in solved}:
        raise BadInput("no solved task of a kind", got=sorted(missing), where="--lessons", do="more --lessons")
    agents = profiles.generate(kinds, config.candidates, config.skills, PRICE, config.seed)
    lam = 1.0 - config.diversity
    agents = [profiles.equip(one, solved, embedder, config.tools, lam) for one in agents]
    return Made(questions, {task.id: task for task in solved}, agents, needs, embedder)


def answers_of(question: Task, folder: Path, env: Env, agent: Agent, made: Made, seed: int) -> dict[str, Any]:
    """What every agent answers to a question, one woken after another: a line of the log."""
    (folder / "agents").mkdir(exist_ok=True)
    said = {
        name: profiles.answered(env, question, agent, lessons, folder / "agents" / f"{name}.db", made.embedder)
        for name, lessons in made.lessons(env, seed).items()
    }
    return {"asked": question.id, "kind": question.kind, "said": said}


@dataclass
class Judge:
    """The quality of answers as the environment finds it, each found once."""

    env: Env
    known: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])

    def __call__(self, question: Task, answer: str) -> float:
        """1 where it is right, else 0."""
        key = (question.id, answer)
        if key not in self.known:
            self.env.reset(question, question.seed)
            self.known[key] = float(self.env.step(answer).success)
        return self.known[key]


@contextmanager
def opened(
    cell: Cell, config: Any, folder: Path, made: Made, answers: Sequence[Mapping[str, Any]], judge: Judge
) -> Iterator[Market]:
    """The market of a cell, with its accounts in the run folder, and processes that start when they are needed."""
    (folder / "accounts").mkdir(exist_ok=True)
    right = {one.id: sum(row["said"][one.id]["right"] for row in answers) for one in made.agents}
    alone = {"single": [max(made.agents, key=lambda one: right[one.id])], "generalist": [made.generalist]}
    agents = alone.get(cell.arm, made.agents)
    files = {one.id: folder / "agents" / f"{one.id}.json" for one in agents}
    for name, file in files.items():
        if not file.exists():
            write_atomic(file, dump({row["asked"]: row["said"][name]["answer"] for row in answers}))
    accounts = Accounts(folder / "accounts" / f"{cell.name}.db")
    for one in agents:
        accounts.mint(f"stake:{one.id}", STAKE)
        accounts.mint(f"user:{one.owner}", MONEY)
    accounts.mint(USER, MONEY)
    failure = {"caught": "lie", "wash": "none"}.get(cell.failure, cell.failure)
    # the same for every arm, and different ones for every failure and rate
    seed = seed_tree(config.seed, cell.failure, f"{cell.rate:g}")
    pool = Pool(files, failure, cell.rate, seed, active=config.active, lease_s=config.lease_s)
    vec_QD = made.embedder.embed([task.text for task in made.questions])

    def judged(node: plans.Node, said: Said) -> tuple[bool, float]:
        quality = judge(node.question, said.answer)
        return cell.failure != "caught" or quality == 1.0, quality

    market = Market(
        agents,
        accounts,
        pool,
        judged,
        {task.id: vec_D for task, vec_D in zip(made.questions, vec_QD, strict=True)},
        Ranking(explore=config.explore, guarded=cell.arm != "unguarded"),
        cell.arm,
        config.candidates,
        PENALTY,
        config.seed,
        worst=min(right, key=lambda name: right[name]),
    )
    try:
        yield market
    finally:
        pool.close()
        accounts.audit()
        accounts.close()


def served(cell: Cell, config: Any, made: Made, market: Market, number: int) -> dict[str, Any]:
    """A task of a cell, the same ones in each: a line of the log."""
    at = rng(config.seed, "task", number).choice(len(made.questions), len(made.needs), replace=False)
    questions = [made.questions[i] for i in at]
    nodes = plans.plan(made.needs, questions, made.vocabulary, PRICE, PRICE * len(questions))
    washed = nodes[: round(cell.rate * len(nodes))] if cell.failure == "wash" else []
    bought = market.trade(f"wash{number}", washed) if washed else []
    row = market.serve(f"task{number}", nodes)
    return {**row, "leases": bought + row["leases"], "cell": list(cell), "kinds": {n.id: n.question.id for n in nodes}}


def worth(answers: Sequence[Mapping[str, Any]], agents: Sequence[Profile]) -> np.ndarray:
    """Shapley values ``[A, Q]`` of agents in the game whose worth is 1 where some capable member answers right."""
    from evolvent.formulas.coalitions import shapley, tabulate

    names, able = [one.id for one in agents], {one.id: one.skills for one in agents}

    def won(members: frozenset[str], row: Mapping[str, Any]) -> bool:
        return any(row["said"][name]["right"] and row["kind"] in able[name] for name in members)

    per_Q = [tabulate(names, lambda members, row=row: float(won(members, row))) for row in answers]
    return shapley(np.stack(per_Q, axis=1))
