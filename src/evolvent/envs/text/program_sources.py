"""Programs of others to repair or to predict: CodeI/O from reasoning-gym's wheel, QuixBugs and Exercism from a folder.

None of them comes with this library. Nobody has read them, so they run in the sandbox only. Right answers are what the
right program returns there; one that gives others the second time, or values that are not plain, is left out. CodeI/O
(3,002 programs, wheel ``reasoning-gym``, Apache-2.0; the files that a model rewrote them from are not named) is cut to
programs of at most 800 characters that need the standard library alone, without chance, clock and sets.
"""

from __future__ import annotations

import ast
import json
import textwrap
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.envs.text._text import flat
from evolvent.envs.text.program_problems import BEGIN, HIDDEN, OPEN, SHOWN, Problem, divided, json_rows
from evolvent.sandbox import Case, Guest, GuestError, Limits, Sandbox
from evolvent.sandbox.jail.values import same
from evolvent.sandbox.mutants import normal

_MODULES = (
    "math collections itertools typing string re functools operator heapq bisect fractions decimal statistics copy "
    "dataclasses enum __future__"
)
_UNFIT = "set frozenset hash id input open print globals locals exec eval vars dir"
MODULES, UNFIT = frozenset(_MODULES.split()), frozenset(_UNFIT.split())
"""What a program of CodeI/O may import, and names that it may not use."""
LONGEST, WORDS, ANSWER = 800, 700, 120
"""Characters of a program, of its question, of inputs and of an answer."""
CLOSE = 1e-6
_DRAW = "{}\n\nfrom random import Random\n\n{}\n\n\ndef drawn(seed):\n    return generate_inputs(Random(seed))\n"
_GET = "git clone https://github.com/jkoppel/QuixBugs, or https://github.com/exercism/python (both MIT)"
Opened = Callable[[], Sandbox]
_FOUND: dict[str, dict[str, Problem | None]] = {}


class _Jailed:
    """Programs that nobody has read."""

    def __init__(self, path: Path, opened: Opened, limits: Limits) -> None:
        self._path, self._opened, self._limits, self.key = path, opened, limits, str(path.resolve())
        self._found = _FOUND.setdefault(self.key, {})

    def _answered(
        self, files: dict[str, str], function: str, inputs: Callable[[Guest], list[tuple[Any, ...]]]
    ) -> list[Case]:
        """The calls that a right program answers, with its answers; none where a second process gives others."""
        cases: list[Case] = []
        try:
            with self._opened().open(files, "solution", self._limits) as guest:
                for one in inputs(guest):
                    value = guest.call(function, *one)
                    if len(repr(value)) <= ANSWER and value is not None:
                        cases.append(Case(one, value))
            with self._opened().open(files, "solution", self._limits) as guest:
                again = [guest.call(function, *case.inputs) for case in reversed(cases)]
        except (GuestError, BadInput):
            return []
        return cases if all(same(a, c.expected) for a, c in zip(reversed(again), cases, strict=True)) else []


class CodeIO(_Jailed):
    """CodeI/O: a question, a program ``main_solution``, and a function that draws inputs.

    Args:
        path: ``codeio.jsonl.gz``.
        opened: the sandbox to run in.
        limits: of a program.
    """

    name = "codeio"

    @property
    def _rows(self) -> dict[str, dict[str, Any]]:
        return _rows(self._path)

    def names(self) -> list[str]:
        """Their places in the file."""
        return list(self._rows)

    def split(self, name: str) -> str:
        """One in three is held out, by its text."""
        return "heldout" if zlib.crc32(self._rows[name]["code_sample"].encode()) % 3 == 0 else "train"

    def found(self, name: str) -> Problem | None:
        """One of them, run for its answers the first time."""
        if name not in self._found:
            row = self._rows.get(name)
            self._found[name] = self._made(row) if row else None
        return self._found[name]

    def _made(self, row: dict[str, Any]) -> Problem | None:
        source = plain_source(row["code_sample"])
        asked = flat(f"{row['task_description']} {row['input_output_spec']}")
        if source is None or len(asked) > WORDS:
            return None
        names = parameters(source, "main_solution")
        if not names:
            return None

        def drawn(guest: Guest) -> list[tuple[Any, ...]]:
            given = [guest.call("drawn", seed) for seed in range(60)]
            fit = [tuple(one[n] for n in names) for one in given if isinstance(one, dict) and set(one) == set(names)]
            return _short(fit)[: SHOWN + OPEN + HIDDEN]

        drawing = _DRAW.format(source, row["input_generator"])
        cases = self._answered({"solution.py": drawing}, "main_solution", drawn)
        if len(cases) < SHOWN + OPEN + HIDDEN or len({repr(case.expected) for case in cases}) < 4:
            return None
        head = f"main_solution({', '.join(names)}): {asked}"
        return Problem("codeio", "main_solution", head, divided(cases, self.name), source, tolerance=CLOSE)


class Folder(_Jailed):
    """QuixBugs or Exercism's Python exercises, from a folder of yours.

    Args:
        path: the folder, as it was cloned.
        opened: the sandbox to run in.
        limits: of a program.

    Raises:
        BadInput: neither of them is there; says what to download.
    """

    name = "repair"

    def __init__(self, path: Path, opened: Opened, limits: Limits) -> None:
        super().__init__(path, opened, limits)
        quix, exercises = path / "json_testcases", path / "exercises" / "practice"
        self._read = self._quixbugs if quix.is_dir() else self._exercism
        where = quix if quix.is_dir() else exercises
        self._names = sorted(p.stem for p in where.iterdir() if p.suffix != ".md") if where.is_dir() else []
        if not self._names:
            raise BadInput(
                "no programs to repair in this folder",
                got=str(path),
                where="program:repair,folder=…",
                expected="QuixBugs (json_testcases/) or Exercism's Python track (exercises/practice/)",
                do=_GET,
            )

    def names(self) -> list[str]:
        """Of programs or exercises."""
        return self._names

    def split(self, name: str) -> str:
        """One in three is held out, by its name."""
        return "heldout" if zlib.crc32(name.encode()) % 3 == 0 else "train"

    def found(self, name: str) -> Problem | None:
        """One of them, run for its answers the first time."""
        if name in self._names and name not in self._found:
            try:
                self._found[name] = self._read(name)
            except (OSError, ValueError, BadInput):
                self._found[name] = None
        return self._found.get(name)

    def _quixbugs(self, name: str) -> Problem | None:
        right, broken = (
            (self._path / part / f"{name}.py").read_text("utf-8")
            for part in ("correct_python_programs", "python_programs")
        )
        lines = (self._path / "json_testcases" / f"{name}.json").read_text("utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
        inputs = [tuple(row[0]) if isinstance(row[0], list) else (row[0],) for row in rows]
        found = self._problem(name, name, _docs(broken) or _docs(right), (right, broken), inputs)
        if found is None or name != "sqrt":
            return found
        # right is what its second argument allows
        cases = [replace(c, tolerance=c.inputs[1] / max(1.0, abs(c.expected))) for c in found.cases]
        return replace(found, cases=tuple(cases))

    def _exercism(self, name: str) -> Problem | None:
        home = self._path / "exercises" / "practice" / name
        right = (home / ".meta" / "example.py").read_text("utf-8")
        text = (home / ".docs" / "instructions.md").read_text("utf-8")
        asked = list(calls_of((home / f"{name.replace('-', '_')}_test.py").read_text("utf-8")))
        if len({function for function, _, _ in asked}) != 1:
            return None
        wanted = [(args, value) for _, args, value in asked]
        problem = self._problem(name, asked[0][0], text, (right, ""), [args for args, _ in wanted])
        right_ones = problem is not None and all(
            any(case.inputs == args and same(case.expected, value, CLOSE) for args, value in wanted)
            for case in problem.cases
        )
        return problem if right_ones else None

    def _problem(
        self, name: str, function: str, task_text: str, programs: tuple[str, str], inputs: Sequence[tuple[Any, ...]]
    ) -> Problem | None:
        source, broken = (normal(text) if text else "" for text in programs)
        if len(source) > LONGEST:
            return None
        some = _short(inputs)[: SHOWN + OPEN + HIDDEN]
        cases = self._answered({"solution.py": source}, function, lambda _: some)
        asked = f"{function}({', '.join(parameters(source, function))}): {flat(task_text)[:WORDS]}"
        if len(cases) < SHOWN + 2 or not (BEGIN.match(source) and BEGIN.match(broken or source)):
            return None
        return Problem(name, function, asked, divided(cases, name), source, broken, tolerance=CLOSE)


@lru_cache(maxsize=4)
def _rows(path: Path) -> dict[str, dict[str, Any]]:
    with json_rows(path, "programs", "reasoning-gym") as rows:
        return {str(i): row for i, row in enumerate(rows) if len(row["code_sample"]) < 4 * LONGEST}


@lru_cache(maxsize=4096)
def plain_source(text: str) -> str | None:
    """A program in normal form without imports that it does not use; ``None`` where it is not fit to be asked for."""
    try:
        tree = ast.parse(normal(text))
    except BadInput:
        return None
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if used & UNFIT or any(isinstance(node, ast.Set | ast.SetComp) for node in ast.walk(tree)):
        return None
    body: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            statement.names = [a for a in statement.names if (a.asname or a.name.partition(".")[0]) in used]
            of = (
                [statement.module or ""] if isinstance(statement, ast.ImportFrom) else [a.name for a in statement.names]
            )
            if not statement.names:
                continue
            if not {name.partition(".")[0] for name in of} <= MODULES:
                return None
        body.append(statement)
    tree.body = body
    source = ast.unparse(tree)
    return source if len(source) <= LONGEST and BEGIN.match(source) else None


def parameters(source: str, function: str) -> list[str]:
    """Names of the plain parameters of a function of a program; none where it has others, or is not there."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            args = node.args
            fits = not (args.vararg or args.kwarg or args.kwonlyargs)
            return [arg.arg for arg in (*args.posonlyargs, *args.args)] if fits else []
    return []


def calls_of(tests: str) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    """The calls with plain arguments in ``self.assertEqual(f(1, 2), 3)`` of a test file: name, arguments, value."""
    for node in ast.walk(ast.parse(textwrap.dedent(tests))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "assertEqual":
            if len(node.args) < 2 or not isinstance(node.args[0], ast.Call):
                continue
            made, value = node.args[0], node.args[1]
            if isinstance(made.func, ast.Name) and not made.keywords:
                try:
                    yield made.func.id, tuple(map(ast.literal_eval, made.args)), ast.literal_eval(value)
                except ValueError:
                    continue


def _short(inputs: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [one for i, one in enumerate(inputs) if len(repr(one)) <= 2 * ANSWER and one not in inputs[:i]]


def _docs(source: str) -> str:
    """The last text that stands alone in a program. (QuixBugs writes other right programs into the right one.)"""
    found = [
        n.value.value for n in ast.parse(source).body if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
    ]
    texts = [text for text in found if isinstance(text, str)]
    return texts[-1] if texts else ""
