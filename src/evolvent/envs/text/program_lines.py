"""What a change of a line does to a program: tried call by call, and labels of lines made of it (PRLCoder)."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

from evolvent.envs.text.program_problems import Problem
from evolvent.sandbox import Case
from evolvent.sandbox.jail.values import same
from evolvent.sandbox.mutants import mutants, normal, rewritten

_MOST_LINES = 20_000


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
