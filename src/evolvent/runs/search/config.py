"""Settings of a search run, and what each search is called with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import tyro

from evolvent.core.config import at_least, from_json
from evolvent.core.credit_rule import values_of
from evolvent.core.errors import BadInput
from evolvent.runs.search.memory_value import PREFIX, MemoryValue
from evolvent.search.values import Rollouts
from evolvent.search.ways import way, ways

ENOUGH = 4096
"""Paths of a task that are enough for a search that draws them until its budget is spent."""
WHICH = {"heldout": "held-out", "train": "training"}
"""Tasks of a split, in words."""
VALUES = ("likelihood", "judge", "flat", "shown", "rollouts")
"""Values that need no training."""
LEAST: dict[str, int] = {
    **dict.fromkeys(("tasks", "batch", "parallel", "longest", "widths", "keep"), 1),
    **dict.fromkeys(("paths", "c", "temperature", "threads", "minutes"), 0),
    **dict.fromkeys(("budget_tokens", "budget_calls", "budget_seconds"), 0),
}
"""The least value of settings, of each number where there are several."""
MOST = {**dict.fromkeys(("tasks", "parallel", "widths"), 1_000_000), "threads": 4096}
"""The largest value of those of which something is made, one each, before anything is seen of the run."""


def _is_folder(value: str) -> bool:
    return (Path(value).expanduser() / "value.json").is_file()


def parts_of(value: str) -> list[str]:
    """The values that a mean is of, joined by "+"; a folder may have one in its name."""
    return [value] if _is_folder(value) else value.split("+")


def known(part: str) -> bool:
    """Whether a value is one that needs no model in torch: anything but a folder."""
    return part in VALUES or part.startswith((PREFIX, "rollouts:"))


def rollouts(part: str) -> Rollouts:
    """The value of ``rollouts:n=20,least=5``.

    Raises:
        BadInput: an option that there is not, or numbers that cannot be.
    """
    pairs = filter(None, part.removeprefix("rollouts").removeprefix(":").split(","))
    given = values_of(pairs, "--value rollouts")
    if unknown := sorted(given.keys() - {"n", "least"}):
        raise BadInput("unknown field", got=unknown[0], expected="n or least", where="--value rollouts")
    return from_json(Rollouts, given, "--value rollouts")


@dataclass(frozen=True)
class Plan:
    """What a search shares, and how it uses the machine."""

    batch: int = 12
    """Tasks that are searched side by side."""
    threads: int = 0
    """Threads of a model in torch (train:…); 0 = torch's default. Beside other busy processes fewer are faster."""
    minutes: float = 0.0
    """Time limit in minutes, checked after each batch of tasks; 0 = no limit."""
    join: bool = False
    """Situations with the same prompt are one state, searched once (transpositions). Only for worlds that hide nothing:
    what a world does not show is taken to be the same."""
    split: Literal["heldout", "train"] = "heldout"
    """Which tasks: held-out ones, to measure searches; training tasks, for a policy that learns from the trees
    (policy_gradient --recorded, dpo --pairs --compare siblings)."""


@dataclass(frozen=True)
class SearchConfig:
    """Settings of a search run."""

    KIND = "search"
    EXTENDABLE = (("plan.minutes", "t"),)

    env: str = "game24"
    """Environment with its options; see `evolvent list envs`."""
    model: str = "train:smollm2-135m"
    """Language model: a name of `evolvent list models`, train:NAME or train:FOLDER (in torch: many at once, with
    log-probabilities), a GGUF file, remote:NAME@URL, or none (admissible commands)."""
    seed: int = 0
    """Random seed of tasks and draws."""
    search: Annotated[
        tuple[str, ...],
        tyro.conf.arg(help=f"Searches, compared at the same budget: {', '.join(ways())}; see `evolvent list search`."),
    ] = ("mcts_rollout", "cot_sc")
    """Searches, compared at the same budget: names of `evolvent list search`."""
    value: str = "likelihood"
    """What states are worth: likelihood (exp of the mean log-probability), judge (the model's own word, yes against
    no), flat (nothing), shown (the share of the tests in the question that a program passes; likelihood before it is
    whole), rollouts (the mean reward of samples from there, which is an oracle; rollouts:n=20,least=5: that many
    at the question, fewer below), memory:STORE (what a memory recalls
    for the question and the steps so far; memory:STORE,k=5), or the folder of a learned value or process reward model
    (value/ of a run of ts_llm or openr). A mean of several: likelihood+judge."""
    verifier: bool = False
    """Let searches see the environment's reward at the end of an attempt: an oracle."""
    aggregate: Literal["auto", "majority", "last_max", "last_vote", "min_max", "min_vote"] = "auto"
    """How one answer is made of many; auto = majority for cot_sc, the best value for most
    (`evolvent list search`)."""
    unit: Literal["line", "answer", "token"] = "line"
    """What a move is: a line of an answer, a whole answer (or action), a token."""
    widths: tuple[int, ...] = (8, 4, 1)
    """Moves that are asked for at each depth; the last number holds for all below."""
    keep: tuple[int, ...] = (6, 3)
    """States that go on at each depth of a beam."""
    paths: int = 0
    """Paths for each task; 0 = until the budget is spent where a search draws paths, otherwise one."""
    budget_tokens: int = 400
    """Tokens for each task and search: what the model writes, and what it reads where it judges (--value judge);
    0 = no limit."""
    budget_calls: int = 0
    """Completions that it may be asked for; 0 = no limit."""
    budget_seconds: float = 0.0
    """Seconds for each batch of tasks; 0 = no limit."""
    tasks: int = 24
    """Tasks that are searched (--split says which)."""
    parallel: int = 4
    """Simulations of one task that are under way at once, apart by virtual loss."""
    c: float = 3.0
    """Weight of exploration in PUCT."""
    temperature: float = 1.0
    """Of sampling; the search called greedy has 0."""
    longest: int = 64
    """Largest number of tokens of a line."""
    plan: Plan = field(default_factory=Plan)
    """What is shared, and how the machine is used."""

    def __post_init__(self) -> None:
        for name in self.search:
            way(name)
        if any(not known(part) for part in parts_of(self.value)) and not self.model.startswith("train:"):
            raise BadInput(
                "a learned value reads the states of a model in torch",
                got=self.model,
                expected="train:MODEL",
                where="--model",
            )
        if self.model == "none" and "judge" in self.value.split("+"):
            raise BadInput(
                "a judge without a model",
                got="--model none",
                expected="a model that scores yes against no",
                where="--value judge",
                do="take another value (--value flat), or a model",
            )
        if self.model.startswith("remote:") and "judge" in parts_of(self.value):
            raise BadInput(
                "a remote model cannot score words",
                got=self.model,
                expected="a model in this process (train:MODEL)",
                where="--value judge",
                do="take another value (--value flat, shown, rollouts), or such a model",
            )
        if not self.search or len(set(self.search)) < len(self.search):
            raise BadInput("searches", got=self.search, expected="one or several, each once", where="--search")
        at_least(self, LEAST, MOST)
        limited = self.budget_tokens or self.budget_calls or self.budget_seconds
        if not limited and not self.paths:
            raise BadInput(
                "a search without an end",
                where="--budget-tokens",
                do="give a budget (--budget-tokens, --budget-calls, --budget-seconds) or --paths",
            )


def check_value(config: SearchConfig) -> None:
    """Refuse a value that is neither known nor a memory nor a folder, before anything is loaded."""
    parts = parts_of(config.value)
    for part in parts:
        if part.startswith(PREFIX):
            with closing(MemoryValue.of(part)):
                continue
        if part.startswith("rollouts:"):
            rollouts(part)
        elif part not in VALUES and not _is_folder(part):
            raise BadInput(
                "no such value",
                got=part,
                where="--value",
                expected=f"{', '.join(VALUES)}, memory:STORE, or a folder with value.json",
            )
    if len(set(parts)) < len(parts) or sum(not known(part) for part in parts) > 1:
        raise BadInput("a mean of values", got=config.value, expected="each once, one folder at most", where="--value")


def called(name: str, config: SearchConfig, seeds: Sequence[int]) -> tuple[ModuleType, object]:
    """The module of a search and its settings, a seed a task; fields that it does not have are left out."""
    module = way(name)
    draws = getattr(module, "DRAWS", False)
    given: dict[str, object] = {
        "parallel": getattr(module, "PARALLEL", config.parallel),
        "c": config.c,
        "keep": config.keep,
        "seed": tuple(seeds),
        "paths": config.paths or (ENOUGH if draws else 1),
        "simulations": 10_000 if draws else 20,
    }
    known = {one.name for one in fields(module.Config)}
    return module, module.Config(**{key: value for key, value in given.items() if key in known})


def wider(name: str) -> str | None:
    """The flags that let a search spend more; ``None`` where nothing does but its budget."""
    return getattr(way(name), "WIDER", None)


def unread(config: SearchConfig) -> list[str]:
    """Flags that were set and that nothing in this run reads."""
    names, plain = {one.name for name in config.search for one in fields(way(name).Config)}, SearchConfig()
    flags = [
        f"--{name}" for name in ("keep", "c") if name not in names and getattr(config, name) != getattr(plain, name)
    ]
    if config.widths != plain.widths and not any("--widths" in (wider(name) or "") for name in config.search):
        flags.append("--widths")
    if config.plan.threads and not config.model.startswith("train:"):
        flags.append("--threads")
    return flags
