"""Kernels in C for small operators, against numpy: compiled, checked and timed in a jail; the outcome is a fact.

One attempt is one program. It passes four gates or stops at one, in the compiler's or the checker's words:

1. no tricks: only what a kernel needs may be included, imported or kept between calls;
2. it compiles (gcc or clang at -O3 -march=native, in the sandbox);
3. it is right: outputs full of NaN are filled rightly at the usual sizes and at others that nobody is shown, with usual
   numbers and with equal, huge, tiny ones, drawn by a secret seed a verdict, by a process that knows no right answer;
4. how fast it is beside a naive kernel in C with the same flags: two jailed processes in turns, fresh inputs, processor
   clocks read from outside; a gain counts from 1.15 on, and where fresh processes confirm it.

Reward: 0 before the last gate, then r²/(1+r²) of the ratio r to the naive kernel: 1/2 where they are equally fast.
Times are measured, so that equal programs do not get equal rewards to the last digit (``timed=false``: 1 for right).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core import outside
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Task, Turn
from evolvent.envs.text._text import TextEnv, check_request, drawn, known, named, playing
from evolvent.envs.text.kernels_build import Refused, compiled, extract, find_compiler, no_compiler, trick
from evolvent.envs.text.kernels_operator import Operator, check_operators
from evolvent.envs.text.kernels_run import GAIN, Speed, Wrong, check, measured, sets_for
from evolvent.envs.text.kernels_tasks import ALL, BY_NAME, HELDOUT
from evolvent.sandbox import Sandbox
from evolvent.sandbox.mechanisms import choose

GATES = ("text", "hack", "compile", "correct", "")
"""Where a program stopped, in their order; the last: nowhere."""
INSTRUCTIONS = """Write small, fast functions in C. One file that defines kernel(), without main().

Task: scale: out = a x
void kernel(const float* x, float a, float* out, int n)
def scale(x, a, n):
    return a * x
C:
```c
void kernel(const float* x, float a, float* out, int n) {
    for (int i = 0; i < n; i++) out[i] = a * x[i];
}
```

"""

_TRIED = "void kernel(float* x) {\n    x[0] = expf(x[0]);\n}\n"
"""What a compiler that works compiles."""


@dataclass(frozen=True)
class Verdict:
    """What became of a program."""

    source: str
    gate: str
    """Where it stopped, one of ``GATES``; ``harness``: the sandbox failed, nothing can be learned."""
    words: str
    """What may be shown to whoever wrote it."""
    speed: Speed | None = None

    @property
    def correct(self) -> bool:
        """Whether it passed the first three gates."""
        return self.gate == ""


class Bench:
    """Where programs are judged: the compiler, sandboxes, and the naive kernel of each operator, made once.

    Raises:
        EnvError: there is no compiler, or what it makes is no library (no headers of C, say).
        NoSandbox: nothing here confines a program.
    """

    def __init__(self, *, fast_math: bool = False) -> None:
        self.compiler, self.fast_math = find_compiler(), fast_math
        self._tools = Sandbox("tools", read=self.compiler.read)
        self._python = Sandbox("python")
        self._naive: dict[str, tuple[bytes, int]] = {}
        tried = self._once(_TRIED)
        if isinstance(tried, Refused):  # else every program would seem not to compile
            self.close()
            raise no_compiler(f"{' '.join(self.compiler.command)} says: {tried.words}")

    def judge(self, operator: Operator, answer: str, seed: int | None = None, *, timed: bool = True) -> Verdict:
        """All gates. ``seed`` draws the inputs and hidden sizes of the third; default: nobody can know them."""
        source = extract(answer)
        if not source:
            return Verdict("", "text", "there is no program in the answer")
        if why := trick(source):
            return Verdict(source, "hack", why)
        library = self._compiled(source)
        if isinstance(library, Refused):
            return Verdict(source, library.gate, library.words)
        try:
            check(self._python, library, operator, np.random.default_rng(seed))
            if not timed:
                return Verdict(source, "", "right")
            reference, sets = self._reference(operator)
            speed = measured(self._python, library, reference, operator, sets)
        except Wrong as wrong:
            return Verdict(source, "harness" if wrong.harness else "correct", wrong.words)
        return Verdict(source, "", f"right, {speed.ratio:.2f} times as fast as the naive kernel", speed)

    def close(self) -> None:
        """Close the sandboxes."""
        self._tools.close()
        self._python.close()

    def _compiled(self, source: str) -> bytes | Refused:
        """The library, or why there is none; where nothing compiles any more that is no fault of the program."""
        made = self._once(source)
        if isinstance(made, Refused) and made.doubtful and isinstance(tried := self._once(_TRIED), Refused):
            return Refused("harness", f"nothing compiles C any more: {tried.words}")
        return made

    def _once(self, source: str) -> bytes | Refused:
        return compiled(self._tools, self.compiler, source, fast_math=self.fast_math)

    def _reference(self, operator: Operator) -> tuple[bytes, int]:
        if operator.name not in self._naive:
            library = self._compiled(operator.source)
            where = f"operator {operator.name}"
            if isinstance(library, Refused):
                raise EnvError("the naive kernel does not compile", got=library.words, where=where)
            try:
                check(self._python, library, operator, np.random.default_rng())
            except Wrong as wrong:
                raise EnvError("the naive kernel is not right", got=wrong.words, where=where) from wrong
            self._naive[operator.name] = library, sets_for(self._python, library, operator)
        return self._naive[operator.name]


class Kernels(TextEnv):
    """The world. ``make`` has the options; ``judge`` is open to systems that want more than a turn tells."""

    name, labels, stop, max_tokens = "kernels", ("Task", "C"), ("\n```\n", "\nTask:"), 500
    instructions = INSTRUCTIONS

    def __init__(self, variant: str, own: Sequence[Operator], *, timed: bool, fast_math: bool) -> None:
        self.operators = {**BY_NAME, **{operator.name: operator for operator in own}}
        self._train = [o.name for o in own] or [o.name for o in ALL if o.name not in HELDOUT]
        self.variant, self.timed, self._fast_math = variant, timed, fast_math
        self._bench: Bench | None = None

    def start(self) -> Bench:
        """Where programs are judged; made at first use.

        Raises:
            EnvError, NoSandbox: they cannot be judged here.
        """
        if self._bench is None:
            self._bench = Bench(fast_math=self._fast_math)
        return self._bench

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` operators in shuffled order; used up, they come again."""
        check_request(split, n, "kernels.tasks")
        names, draw = list(HELDOUT) if split == "heldout" else self._train, random.Random(f"kernels/{split}/{seed}")
        start = {name: "" if self.variant == "write" else self.operators[name].source for name in names}
        order = drawn(names, n, draw)
        return named(
            (Task(f"kernels/{name}", self.asked(name, start[name]), name, split) for name in order), len(names)
        )

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Show the operator; ``seed`` changes nothing: what a program is checked with nobody can know before."""
        if task.kind not in self.operators:
            raise BadInput("not a task of this world", got=task.id, expected="one of env.tasks(…)", where="kernels")
        self._operator = self.operators[task.kind]
        self._turn = Turn(task.text)
        return self._turn

    def step(self, action: str) -> Turn:
        """Take the program. ``info``: ``action`` (as it was compiled), ``gate``, ``words``, ``ratio``, ``low``,
        ``high``, ``us`` (microseconds a call), and as kinds of reward whether it compiles and is right, and ``ratio``.
        """
        playing(self._turn, "kernels")
        found = self.start().judge(self._operator, action, timed=self.timed)
        speed, passed = found.speed, GATES.index(found.gate) if found.gate in GATES else 0
        ratio = 0.0 if speed is None else speed.ratio
        reward = float(found.correct) if not self.timed else ratio**2 / (1 + ratio**2)
        rewards = {"compiles": float(passed > 2), "correct": float(found.correct)} | (
            {"ratio": ratio} if self.timed else {}  # a rule that reads it fails at once, since nobody measures it
        )
        times = {} if speed is None else {"low": speed.low, "high": speed.high, "us": speed.microseconds}
        self._turn = Turn(
            found.words,
            reward=reward,
            terminated=True,
            success=found.correct if self.variant == "write" or not self.timed else ratio >= GAIN,
            valid=found.gate != "harness",
            info={
                "action": found.source,
                "gate": found.gate,
                "words": found.words,
                "ratio": ratio,
                **times,
                "rewards": rewards,
            },
        )
        return self._turn

    def asked(self, name: str, start: str = "") -> str:
        """The text of a task: an operator, and a kernel to begin with."""
        return faster(self.operators[name], start) if start else shown(self.operators[name])

    @staticmethod
    def advice(kind: str, key: str, body: str) -> str:
        """A remembered thing as a part of a task: a program as an example, anything else as advice."""
        if kind == "trace":
            return f"A good kernel for another task ({key}):\n```c\n{body.strip()}\n```"
        return f"{'A mistake to avoid' if kind == 'failure' else 'Advice'}: {body}"

    def close(self) -> None:
        """Close the sandboxes."""
        if self._bench is not None:
            self._bench.close()


def make(variant: str = "write", *, own: str = "", timed: bool = True, fast_math: bool = False) -> Kernels:
    """Operators to write kernels for.

    Args:
        variant: "write" shows the operator in numpy, success is a right kernel; "faster" shows a naive kernel, too, and
            success is a right one that is at least 1.15 times as fast.
        own: a Python file with ``OPERATORS``, a sequence of ``kernels_operator.Operator``: they are trained on instead.
        timed: false leaves the last gate out: reward 1 for a right kernel, and no measured number in it.
        fast_math: compile everything with -ffast-math, the naive kernel too: a control for what that alone brings.

    Raises:
        BadInput: an unknown variant, or a file that has no operators.
        EnvError: there is no C compiler.
        NoSandbox: nothing here confines a program.
    """
    known(variant, ("write", "faster"), "variant", "envs.kernels.make")
    find_compiler()
    choose("auto", "tools")
    at = outside.pointer(own)
    if own and at is None:
        raise BadInput("no Python file", got=own, expected="operators.py", where="kernels:own")
    mine = outside.load(at, "a sequence of operators", ("OPERATORS",))[2] if at else ()
    if at:
        check_operators(mine, own)
    if clash := [o.name for o in mine if o.name in HELDOUT]:
        raise BadInput("the name of a held-out operator", got=clash[0], expected="another one", where=own)
    return Kernels(variant, mine, timed=timed, fast_math=fast_math)


def shown(operator: Operator) -> str:
    """What is asked: the operator in a word, its prototype, and numpy."""
    return f"{operator.name}: {operator.words}\n{operator.prototype}\n{operator.numpy}"


def faster(operator: Operator, source: str) -> str:
    """What is asked where there is a kernel already."""
    return f"{operator.name}: {operator.words}\nThis is correct. Make it faster:\n```c\n{source.strip()}\n```"
