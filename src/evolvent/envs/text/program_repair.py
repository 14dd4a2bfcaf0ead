"""Programs to repair: right ones of several sources, in which one line was changed so that tests fail.

A task is a program of a source and the number of a change (``sandbox.mutants``). A change counts where a hidden call
fails and one that may be shown. Programs that come broken (QuixBugs) are asked for as they are. Also programs to
predict: what does this one return? And what a change of a line does, tried call by call, as labels of lines (PRLCoder).
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Task
from evolvent.envs.text._text import check_request, named
from evolvent.envs.text.program_problems import Problem, asked_for, call, split_of, tests
from evolvent.envs.text.program_sources import CodeIO, Folder
from evolvent.envs.text.program_tasks import BY_NAME, Kind
from evolvent.sandbox import Case
from evolvent.sandbox.jail.values import same
from evolvent.sandbox.mutants import mutants, normal, rewritten

Tried = Callable[[str, Problem], list[bool]]
"""A changed program → which calls of the problem it fails."""
_BROKEN: dict[str, dict[tuple[str, int], bool]] = {}
"""By where programs lie and by change: whether it breaks them, kept for the whole process."""
_MOST_LINES = 20_000
OBVIOUS = ("left out", "nothing returned")
"""Changes that are seen without reading: not asked for."""


@dataclass
class Kinds:
    """The generated functions; the rule of the house is given."""

    kinds: Sequence[Kind]
    name: str = "repair"
    key: str = "generated"

    def names(self) -> list[str]:
        """Each kind with each constant."""
        return [f"{kind.name}-{n}" for kind in self.kinds for n in kind.constants]

    def split(self, name: str) -> str:
        """As where it is to be written."""
        kind, _, n = name.rpartition("-")
        return split_of(BY_NAME[kind], int(n))

    def found(self, name: str) -> Problem | None:
        """A function with a constant."""
        known, _, n = name.rpartition("-")
        kind = next((kind for kind in self.kinds if kind.name == known), None)
        if kind is None or not n.isdecimal() or int(n) not in kind.constants:
            return None
        asked = asked_for(kind, int(n), 0, with_rule=True)
        return Problem(kind.name, kind.name, asked, tests(kind.name, int(n)), kind.source(int(n)), ours=True)


Source = Kinds | CodeIO | Folder
"""Right programs with tests; one that comes with a broken program has that as ``given``."""


class Broken:
    """Tasks of a source: repair this program."""

    def __init__(self, source: Source, tried: Tried) -> None:
        self.name, self._source, self._tried = f"program-{source.name}", source, tried
        self._broken = _BROKEN.setdefault(source.key, {})

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` broken programs: each program once in drawn order, then again with another change; then they repeat.

        Raises:
            BadInput: none of the source's programs is fit.
        """
        check_request(split, n, f"{self.name}.tasks")
        found = list(islice(self._drawn(split, seed), n))
        if n and not found:
            raise BadInput("no program of this split can be used", got=split, where=self.name)
        return named(islice(cycle(found), n), len(found))

    def _drawn(self, split: str, seed: int) -> Iterator[Task]:
        draw = random.Random(f"{self.name}/{split}/{seed}")
        names = [name for name in self._source.names() if self._source.split(name) == split]
        draw.shuffle(names)
        # a program is looked at when it is wanted, and its changes one by one: that costs runs
        streams = {name: self._ways(name, draw.random()) for name in names}
        while streams:
            for name in list(streams):
                way = next(streams[name], None)
                if way is None:
                    del streams[name]
                else:
                    yield self._task(name, way, split, seed)

    def _task(self, name: str, way: int, split: str, seed: int) -> Task:
        meta = {"program": name, "change": way}
        problem = self._changed(name, way)
        assert problem is not None
        text = f"{problem.asked}\n{problem.shown}\nBroken program:\n{problem.given}"
        return Task(f"{self.name}/{name}/{way}", text, problem.kind, split, seed, meta)

    def problem(self, task: Task) -> Problem | None:
        """The program that ``task`` is about, broken in its way."""
        if not {"program", "change"} <= set(task.meta):
            return None
        return self._changed(str(task.meta["program"]), int(task.meta["change"]))

    def _changed(self, name: str, way: int) -> Problem | None:
        problem = self._source.found(name)
        if problem is None or problem.given:
            return problem
        some = _faults(problem)
        return replace(problem, source=normal(problem.source), given=some[way]) if 0 <= way < len(some) else None

    def _ways(self, name: str, mark: float) -> Iterator[int]:
        """The changes that break a program, in drawn order: a hidden call fails, and one that may be shown."""
        problem = self._source.found(name)
        if problem is not None and problem.given:
            yield 0
        elif problem is not None:
            some = _faults(problem)
            for way in random.Random(f"{name}/{mark}").sample(range(len(some)), len(some)):
                if (name, way) not in self._broken:
                    failed = self._tried(some[way], problem)
                    hidden = {case.hidden for case, wrong in zip(problem.cases, failed, strict=True) if wrong}
                    self._broken[name, way] = hidden == {True, False}
                if self._broken[name, way]:
                    yield way


class Predicted(Broken):
    """Tasks of a source: what does this program return?"""

    def __init__(self, source: Source, tried: Tried) -> None:
        super().__init__(source, tried)
        self.name = "program-predict"

    def _ways(self, name: str, mark: float) -> Iterator[int]:
        problem = self._source.found(name)
        n = len(problem.cases) if problem else 0
        yield from random.Random(f"{name}/{mark}").sample(range(n), n)

    def _changed(self, name: str, way: int) -> Problem | None:
        problem = self._source.found(name)
        if problem is None or not 0 <= way < len(problem.cases):
            return None
        case = problem.cases[way]
        one = (replace(case, hidden=True),)
        asked = call(problem.function, case).rpartition(" == ")[0]
        source = normal(problem.source)
        return replace(problem, asked=asked, cases=one, source=repr(case.expected), given=source)

    def _task(self, name: str, way: int, split: str, seed: int) -> Task:
        task = super()._task(name, way, split, seed)
        problem = self.problem(task)
        assert problem is not None
        return replace(task, text=f"{problem.given}\nCall: {problem.asked}")


def _faults(problem: Problem) -> list[str]:
    return [mutant.source for mutant in mutants(normal(problem.source)) if mutant.what not in OBVIOUS]


def line_labels(problem: Problem, fails: Callable[[str], list[bool]]) -> list[tuple[str, int, bool]]:
    """Programs, the number of a line of each (empty ones not counted) and its label: does it behave with this line?

    The lines of the right program are right; a line that was changed, or written in another way, is right where the
    program with it passes all tests. Paper: PRLCoder. There a model is the teacher that changes a line; here the
    changes are those of ``sandbox.mutants``.

    Args:
        problem: with its right program.
        fails: a changed program → which of its calls fail.
    """
    source = normal(problem.source)
    filled = [i for i, line in enumerate(source.splitlines()) if line.strip()]
    rows = [(source, number, True) for number in range(len(filled))]
    for mutant in (*rewritten(source), *mutants(source)):
        rows.append((mutant.source, filled.index(mutant.line), not any(fails(mutant.source))))
    return rows


def fails_here(source: str, problem: Problem) -> list[bool]:
    """Which calls a program fails that is ours but for a line that we changed; a loop without end is left."""
    space: dict[str, Any] = {}
    exec(source, space)
    return [_other(space[problem.function], case) for case in problem.cases]


def _other(function: Callable[..., Any], case: Case) -> bool:
    """Whether a function of ours does not give the answer, within a number of lines."""
    left = _MOST_LINES

    def count(_frame: Any, _event: str, _value: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise TimeoutError("too many lines")
        return count

    inputs, before = copy.deepcopy(case.inputs), sys.gettrace()
    try:
        sys.settrace(count)
        try:
            result = function(*inputs)
        finally:
            sys.settrace(before)
        return not same(result, case.expected)
    except (ArithmeticError, LookupError, TypeError, ValueError, NameError, TimeoutError, AttributeError):
        return True
