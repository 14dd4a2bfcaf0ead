"""Verdicts that the judged program cannot write: it sees inputs, and we compare what it answers.

Expected answers and the comparison stay out here. What a program does inside (its exit code, patched built-ins, what it
prints about success, an object that equals everything) decides nothing.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.visible import visible
from evolvent.sandbox.calls import Guest, GuestError, request
from evolvent.sandbox.jail.values import BadValue, dumps, loads, same
from evolvent.sandbox.result import Limits
from evolvent.sandbox.sandbox import Sandbox

_DEFAULT = Limits()
_SHOWN = 200
_NUMBER = re.compile(r"[+-]?(\d{1,99}(\.\d{0,99})?|\.\d{1,99})([eE][+-]?\d{1,2})?", re.ASCII)


@dataclass(frozen=True)
class Case:
    """One input and the answer that is expected."""

    inputs: tuple[Any, ...]
    """Arguments of the function; for a whole program one text, its standard input."""
    expected: Any
    """The value, or the text on standard output; or a function out here that says whether an answer is right."""
    hidden: bool = False
    """Not to be shown to whoever writes the program; ``Verdict.feedback`` leaves it out."""
    tolerance: float | None = None
    """Of this answer, in place of that of all."""


def near(case: Case, tolerance: float) -> float:
    """The tolerance of a case, where all have ``tolerance``."""
    return tolerance if case.tolerance is None else case.tolerance


@dataclass(frozen=True)
class Outcome:
    """What became of one case."""

    case: Case
    passed: bool
    status: str
    """``right``, ``wrong``, or why there was no answer: ``GuestError.kind``, ``Result.status``."""
    got: Any = None
    """The answer; its text is the program's word."""
    detail: str = ""
    """What the program or the sandbox said of an error."""
    unread: bool = False
    """Whether the program could not be compiled, so that nothing of it ran (of calls; of whole programs not known)."""


@dataclass(frozen=True)
class Verdict:
    """Outcomes of all cases, in their order."""

    outcomes: tuple[Outcome, ...]
    mechanism: str

    @property
    def passed(self) -> bool:
        """Whether every case is right. False where there are none."""
        return bool(self.outcomes) and all(outcome.passed for outcome in self.outcomes)

    @property
    def share(self) -> float:
        """Right cases of all, 0 to 1."""
        return sum(outcome.passed for outcome in self.outcomes) / max(1, len(self.outcomes))

    @property
    def valid(self) -> bool:
        """False where the sandbox itself failed: nothing can be learned from it."""
        return not any(outcome.status == "harness" for outcome in self.outcomes)

    def feedback(self, most: int = 3) -> str:
        """What may be shown to whoever wrote the program: the first failures among the shown cases.

        What the program chose stands in it, so that characters that do not print are written as escapes.
        """
        lines = []
        for outcome in self.outcomes:
            if not outcome.passed and not outcome.case.hidden and len(lines) < most:
                what = f"got {_short(outcome.got)}" if outcome.status == "wrong" else outcome.status
                wanted = "" if callable(outcome.case.expected) else f", expected {_short(outcome.case.expected)}"
                lines.append(f"input {_short(outcome.case.inputs)}: {what}{wanted} {outcome.detail[-_SHOWN:]}".rstrip())
        return visible("\n".join(lines))


def judge(
    program: str | Mapping[str, str | bytes],
    cases: Sequence[Case | tuple[Any, Any]],
    *,
    function: str | None = None,
    sandbox: Sandbox | None = None,
    limits: Limits = _DEFAULT,
    tolerance: float = 0.0,
    module: str = "solution",
    patient: bool = True,
) -> Verdict:
    """Run a program on every case, and compare out here.

    With ``function`` each case calls it with ``inputs``; values and types must be equal (``1``, ``1.0`` and ``True``
    are three), floats within ``tolerance`` × max(1, |expected|). A call that ends the process gets a new one for the
    next case. Without ``function`` each case is a run of the whole program with ``inputs`` (a text) as standard input;
    its output is compared word by word (numbers among them within ``tolerance``), and it must exit with 0.

    Args:
        program: source, or several files; the module to call or run is ``module``.
        cases: ``Case`` or pairs (inputs, expected); inputs that are no tuple are one argument.
        function: name in the module.
        sandbox: one to use (profile ``python``); default: a new one.
        limits: of a call, or of a run.
        tolerance: of floats; of numbers in the output of a whole program, 0 compares their digits.
        module: name of the file without ``.py``.
        patient: false: a call that gives no answer in time speaks for those after it, which are not made.

    Raises:
        BadInput: inputs or expected values that cannot cross: not plain, nested too deep, more than 1 MB.
        NoSandbox: nothing here confines a program.
    """
    if not isinstance(program, str | bytes | Mapping):
        raise BadInput("no program", got=type(program).__name__, expected="source, or files by name", where="judge")
    files = dict(program) if isinstance(program, Mapping) else {f"{module}.py": program}
    if f"{module}.py" not in files:
        raise BadInput("no such module", got=sorted(files), expected=f"{module}.py", where="judge")
    checked = [_case(case, function) for case in cases]
    if wrong := [t for t in (near(case, tolerance) for case in [Case((), 0), *checked]) if not 0 <= t < math.inf]:
        raise BadInput("no tolerance", got=wrong[0], expected="a number from 0 on", where="judge")
    with contextlib.ExitStack() as stack:
        used = sandbox or stack.enter_context(Sandbox(warm=0))
        if function is None:
            outcomes = [_run(used, files, case, limits, module, near(case, tolerance)) for case in checked]
        else:

            def asked(some: list[Case]) -> Iterator[Outcome]:
                return iter(_called(lambda: used.open(files, module, limits), function, some, tolerance, patient))

            # hidden inputs go to a process of their own: what an answer to a shown case tells cannot hold them
            by_kind = {hidden: asked([case for case in checked if case.hidden == hidden]) for hidden in (False, True)}
            outcomes = [next(by_kind[case.hidden]) for case in checked]
    return Verdict(tuple(outcomes), used.mechanism.name)


def _called(
    start: Callable[[], Guest], function: str, cases: Sequence[Case], tolerance: float, patient: bool
) -> list[Outcome]:
    """Calls of one program, in a new process after one that has ended."""
    guest: Guest | None = None
    outcomes: list[Outcome] = []
    try:
        for case in cases:
            try:
                if guest is None or guest.over:
                    guest = None
                    guest = start()
                got = guest.call(function, *case.inputs)
            except GuestError as error:
                if guest is None or (error.kind == "time" and not patient):  # the other cases will do no better
                    return outcomes + [_failed(other, error) for other in cases[len(outcomes) :]]
                outcomes.append(_failed(case, error))
            else:
                outcomes.append(_compared(case, got, lambda a, b, case=case: same(a, b, near(case, tolerance))))
    finally:
        if guest is not None:
            guest.close()
    return outcomes


def _run(
    sandbox: Sandbox, files: Mapping[str, str | bytes], case: Case, limits: Limits, module: str, tolerance: float
) -> Outcome:
    result = sandbox.run(files, ["python", f"{module}.py"], limits, stdin=case.inputs[0])
    if not result.ok:
        return Outcome(case, False, result.status, result.stdout, result.error or result.stderr)
    return _compared(case, result.stdout, lambda a, b: _same_words(a.split(), b.split(), tolerance))


def _same_words(got: Sequence[str], expected: Sequence[str], tolerance: float) -> bool:
    def number(word: str) -> float | None:
        return float(word) if _NUMBER.fullmatch(word) else None

    def equal(a: str, b: str) -> bool:
        x, y = (number(a), number(b)) if tolerance else (None, None)
        return a == b or (x is not None and y is not None and same(x, y, tolerance))

    return len(got) == len(expected) and all(map(equal, got, expected))


def _case(given: Case | tuple[Any, Any], function: str | None) -> Case:
    if not isinstance(given, Case):
        if not isinstance(given, tuple) or len(given) != 2:
            raise BadInput("no case", got=given, expected="Case(inputs, expected) or a pair of them", where="judge")
        given = Case(*given)
    inputs = given.inputs if isinstance(given.inputs, tuple) else (given.inputs,)
    expected = given.expected
    try:
        if function is not None:
            # whole messages, there and back: what cannot cross is found before anything runs
            loads(request("0" * 16, function, inputs, {}))
            loads(dumps({"id": "0" * 16, "value": None if callable(expected) else expected}))
        elif (
            len(inputs) != 1 or not isinstance(inputs[0], str) or not (callable(expected) or isinstance(expected, str))
        ):
            raise BadValue("a whole program takes one text, its standard input, and gives one")
    except BadValue as error:
        where = f"judge, inputs {_short(inputs)}"
        raise BadInput("a case that is not made of plain values", got=str(error), where=where) from error
    return replace(given, inputs=inputs)


def _failed(case: Case, error: GuestError) -> Outcome:
    return Outcome(case, False, error.kind, detail=str(error.got), unread=error.unread)


def _compared(case: Case, got: Any, equal: Callable[[Any, Any], bool]) -> Outcome:
    if not callable(case.expected):
        right, detail = equal(got, case.expected), ""
    else:
        try:
            said, detail = case.expected(got), ""
        except Exception as error:  # noqa: BLE001 - a checker that cannot read an answer: the answer is wrong
            said, detail = False, f"the checker raised {type(error).__name__}: {error}"
        if type(said).__name__ not in ("bool", "bool_"):  # NaN and a distance are true as well; numpy has its own
            raise BadInput(
                "a checker says whether an answer is right",
                got=repr(said)[:100],
                expected="True or False",
                where="judge",
                do="compare in it: lambda got: abs(got - 2) < .1",
            )
        right = bool(said)
    return Outcome(case, right, "right" if right else "wrong", got, detail)


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # of a very long integer
        return f"a {type(value).__name__} that is too long to write"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
