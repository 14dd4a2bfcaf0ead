"""What a run over programs works with: the world, the model, the memory, and how far each kernel is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from evolvent.algos.evokernel.texts import PRACTICES, TEMPLATES
from evolvent.core.config import at_least
from evolvent.core.errors import BadInput, EnvError, EvolventError
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Model
from evolvent.evaluate.live import Live, count
from evolvent.formulas.refinement import Running
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.models.served.acting import Served
from evolvent.runs.broken import FEWEST, Lately, check_broken
from evolvent.runs.memory import cursor
from evolvent.runs.memory.attempt import Counting
from evolvent.runs.opening import FILE, Wanted, opened
from evolvent.runs.shell import tell_fewer

REWARDS = (-10.0, 10.0)
"""Bounds of what settles a receipt: ±1 for drafts, a z-score for refinements."""
FRESH = 1.0
"""Where a memory's value begins: at a success (at 0 the first advice that does no harm stays ahead, for normalised
rewards make "no gain" positive). The end of the range is only where z-scores are cut."""
_RULE = preset("evokernel", q_init=FRESH)
_STORE = "memory.db of a run that writes programs (evokernel), or its folder"


@dataclass(frozen=True)
class ProgramsConfig:
    """Settings of a run over programs."""

    KIND = "programs"

    env: str = "kernels"
    """The world of kernels with its options, e.g. kernels:own=operators.py."""
    model: str = "qwen2.5-coder-1.5b"
    """Language model: a name of `evolvent list models`, a GGUF file, remote:NAME@URL."""
    seed: int = 0
    """Random seed of kernels, exploration and sampling. The inputs that programs are checked with have a secret one."""
    kernels: tuple[str, ...] = ()
    """Kernels by name; empty = as many as --count of the split."""
    count: int = 6
    """Kernels, drawn by the seed."""
    split: Literal["train", "heldout"] = "train"
    """Which kernels: heldout for what a memory of others brings."""
    budget: int = 12
    """Attempts at each kernel, drafts and refinements together (EvoKernel's paper: 30)."""
    memory: str = ""
    """A store, or the folder of a run, to begin with: it is copied, without what it holds of the kernels at hand."""
    temperature: float = 0.7
    """Sampling temperature; 0 = greedy."""
    tokens: int = 500
    """Largest number of tokens of a program."""

    def __post_init__(self) -> None:
        at_least(self, {"count": 1, "budget": 1, "tokens": 1, "temperature": 0})


@dataclass(frozen=True)
class Start:
    """A feasible program that refinements begin with."""

    source: str
    ratio: float
    low: float
    high: float
    step: int
    """The attempt that wrote it; 0: the naive kernel that ``kernels:faster`` begins with."""
    tried: list[str] = field(default_factory=list[str])
    """What came of earlier refinements of it: its observable children."""


@dataclass
class Work:
    """A kernel and how far it is."""

    name: str
    key: str
    starts: dict[str, Start] = field(default_factory=dict[str, Start])
    """By the memory that holds it."""
    failed: str = ""
    """Why the last draft was not feasible."""
    attempts: int = 0
    judged: bool = False
    """Whether any attempt at it could be judged."""
    broken: int = 0
    """Newest attempts in a row that could not."""

    @property
    def best(self) -> str:
        """The memory of the fastest start so far, of equal ones the first."""
        return max(self.starts, key=lambda id_: (self.starts[id_].ratio, -self.starts[id_].step))

    def known(self, source: str) -> Start | None:
        """The start that is the same program, but for blanks."""
        parts = source.split()
        return next((start for start in self.starts.values() if start.source.split() == parts), None)


@dataclass
class Session:
    """What a run works with."""

    env: Any
    ask: Counting
    """The engine, its tokens of an attempt counted."""
    model: str
    memory: Memory
    works: list[Work]
    others: dict[str, list[str]]
    """By kernel, of which kernels memories may come: all but itself."""
    running: Running = field(default_factory=Running)
    """Of the rewards of refinements."""


@contextmanager
def opened_session(
    config: ProgramsConfig, folder: RunFolder, live: Live, resume: bool, model: Model | None
) -> Iterator[Session]:
    """Everything that a run needs, checked before the model is loaded.

    Raises:
        BadInput: another world, an unknown kernel, no such memory.
        EnvError, NoSandbox: programs cannot be compiled or confined here.
    """

    def prepare(env: Any) -> list[str]:
        names = _kernels(config, env, folder, live, resume)
        if config.memory and not (folder.path / FILE).exists():
            _copy(config, folder.path / FILE, set(names))
        return names

    wanted = Wanted(_RULE, reward_range=REWARDS, writes="programs are written by a model")
    opening = opened(config, folder, live, wanted, resume=resume, model=model, prepare=prepare)
    with opening as (env, model, memory, names):
        world: Any = env
        assert model is not None
        if not cursor.begun(memory):  # also of a run that was stopped before
            _begin(memory)
        works = [Work(name, f"{name}: {world.operators[name].words}") for name in names]
        if world.variant == "faster":
            live.note("each begins with its naive kernel in C, which is right: every attempt refines")
            _from_naive(world, memory, works)
        known = {"", *world.operators, *(str(item.metadata.get("kernel", "")) for item in memory.items())}
        others = {work.name: sorted(known - {work.name}) for work in works}
        yield Session(world, Counting(Served(model, config.temperature)), model.name, memory, works, others)


def _kernels(config: ProgramsConfig, env: Any, folder: RunFolder, live: Live, resume: bool) -> list[str]:
    """The names of the kernels, in the order in which they are written."""
    if not hasattr(env, "operators"):
        raise BadInput("this system writes kernels", got=config.env, expected="kernels", where="--env")
    if not env.timed:
        raise BadInput(
            "this system learns from how fast programs are",
            got=config.env,
            where="--env",
            expected="kernels that are timed",
            do="leave timed=false out",
        )
    drawn = (task.kind for task in env.tasks(config.split, config.count, config.seed))
    # the shortest first: it is written soonest, and likely to be right
    by_size = sorted(drawn, key=lambda name: len(env.operators[name].source))
    names = list(dict.fromkeys(config.kernels or by_size))
    if resume:  # it goes on in its own order, whatever that of this version is
        begun = [row["kernel"] for row in folder.read_metrics()[: len(names)]]
        names = list(dict.fromkeys([*begun, *names]))[: len(names)]
    if wrong := [name for name in names if name not in env.operators]:
        raise BadInput("no such kernel", got=wrong[0], expected=", ".join(env.operators), where="--kernels")
    if not config.kernels:
        tell_fewer(live, config.env, f"{config.split} kernels", config.count, len(names))
    bench = env.start()
    live.note(
        f"{count(len(names), 'kernel')}, up to {count(config.budget, 'attempt')} each: {', '.join(names)}\n"
        f"compiled by {bench.compiler.name}, checked and timed in the sandbox"
    )
    return names


def _from_naive(env: Any, memory: Memory, works: Sequence[Work]) -> None:
    """The naive kernels as first start points: remembered once, found again by a run that goes on."""
    for work in works:
        source = env.operators[work.name].source.strip()
        seeds = (item.id for item in memory.items(filter={"kernel": work.name}) if item.metadata.get("step") == 0)
        id_ = next(seeds, None) or memory.remember(
            work.key,
            source,
            kind="start",
            polarity="success",
            value=0.0,
            merge=None,
            source="seed",
            metadata={"kernel": work.name, "stage": "draft", "step": 0},
        )
        work.starts[id_] = Start(source, 1.0, 1.0, 1.0, 0)


def _copy(config: ProgramsConfig, path: Path, names: set[str]) -> None:
    """Another run's memory as it is now, without what it holds of the kernels at hand; all of it, or nothing."""
    given = Path(config.memory).expanduser()
    given = given / FILE if given.is_dir() else given
    if not given.is_file():
        raise BadInput("no such memory", got=config.memory, expected=_STORE, where="--memory")
    part = path.with_suffix(".part")
    _drop(part)  # of a process that was killed: its log would be replayed on the new copy
    try:
        if not given.stat().st_size:
            raise BadInput("an empty file", got="0 bytes")
        uri = f"{given.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as old, closing(sqlite3.connect(part)) as new:
            old.backup(new)
        with Memory(part, policy=_RULE, reward_range=REWARDS, sync="normal") as memory, memory.transaction():
            for item in memory.items(filter={"kernel": {"in": sorted(names)}}):
                memory.archive(item.id, "a memory of the kernels that it is tried on")
            cursor.saved(memory, 0)
    except (EvolventError, sqlite3.Error) as error:
        _drop(part)
        raise BadInput(
            "not a memory of programs",
            got=f"{given}: {str(error).partition(chr(10))[0]}",
            expected=_STORE,
            where="--memory",
        ) from error
    part.rename(path)


def _drop(store: Path) -> None:
    """A store with its log."""
    for one in store.parent.glob(f"{store.name}*"):
        one.unlink()


def _begin(memory: Memory) -> None:
    """Seeds for a new memory."""
    seeds = [("template", "write a kernel", body) for body in TEMPLATES]
    seeds += [("practice", "make a kernel faster", body) for body in PRACTICES]
    with memory.transaction():
        memory.remember_many(
            {"key": key, "body": body, "kind": kind, "source": "seed", "metadata": {"kernel": ""}}
            for kind, key, body in seeds
        )
        cursor.saved(memory, 0)


# ------------------------------------------------------------------------------------------------ not judged
OF = "at the last programs"


class Breaks:
    """Attempts that nobody could judge: is it the kernel, which is left out then, or the world, which ends the run?

    A reference of one's own that raises breaks every attempt at its kernel, and none at others: that kernel is left out
    after ``FEWEST`` attempts in a row, and the run goes on. Where kernels that were judged before break, or none can be
    judged at all, it is the world.
    """

    def __init__(self, works: Sequence[Work], live: Live) -> None:
        self._works, self._live = works, live
        self._lately, self._first = Lately(), list[EnvError]()

    def add(self, work: Work, error: EnvError | None) -> None:
        """Count an attempt; ``error``: why it could not be judged.

        Raises:
            EnvError: it is the world, or no kernel is left.
        """
        if work.judged:
            self._lately.add(error)
            self._lately.check(OF)
        elif error:
            self._first.append(error)
        none = all(one.attempts and not one.judged for one in self._works)
        if error and (all(map(left_out, self._works)) or (none and len(self._first) >= FEWEST)):
            broken = [error] if not self._first else self._first
            check_broken(broken, len(broken), OF)
        if error and left_out(work):
            place = f" ({error.where})" if error.where else ""
            self._live.note(
                f"! {work.name} is left out, for its last {FEWEST} attempts could not be judged: "
                f"{error.what}{place}; the run goes on with the other kernels"
            )


def left_out(work: Work) -> bool:
    """Whether the run goes on without this kernel."""
    return work.broken >= FEWEST
