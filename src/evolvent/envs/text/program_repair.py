"""Programs to repair: right ones of several sources, in which one line was changed so that tests fail.

A task is a program of a source and the number of a change (``sandbox.mutants``). A change counts where a hidden call
fails and one that may be shown. Programs that come broken (QuixBugs) are asked for as they are. Also programs to
predict: what does this one return?
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Task
from evolvent.envs.text._text import check_request
from evolvent.envs.text.program_problems import Problem, asked_for, call, split_of, tests
from evolvent.envs.text.program_sources import CodeIO, Folder
from evolvent.envs.text.program_tasks import BY_NAME, Kind
from evolvent.sandbox.mutants import mutants, normal

Tried = Callable[[str, Problem], list[bool]]
"""A changed program → which calls of the problem it fails."""
_BROKEN: dict[str, dict[tuple[str, int], bool]] = {}
"""By where programs lie and by change: whether it breaks them, kept for the whole process."""
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
        found: list[Task] = []
        for task in self._drawn(split, seed):
            if len(found) >= n:
                break
            found.append(task)
        if n and not found:
            raise BadInput("no program of this split can be used", got=split, where=self.name)
        for i in range(n - len(found)):
            first = found[i]
            again = 2 + int(first.id.partition("#")[2] or 1) - 1
            found.append(replace(first, id=f"{first.id.partition('#')[0]}#{again}", repeats=first.id.partition("#")[0]))
        return found

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
