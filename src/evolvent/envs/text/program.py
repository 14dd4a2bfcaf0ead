"""Small Python functions that are run: tests in the sandbox say whether a program is right, and nobody has to be asked.

One attempt is one program. Two calls with their answers stand in the question; a program is right when it also answers
three further calls, whose failures are told to it, and eight that nobody is told (``sandbox.judge``: answers are
compared out here, hidden inputs go to a process of their own, the program knows no right answer).

``house``: what the questions mean is the house's own convention ("late" begins on day four *here*). No model can know
it, and the calls that are shown do not give it away; what failed tells it, a case at a time, and a memory can keep it.
``told`` says the convention in the question: what is left is the model's own ability. ``easy``: functions of a line
that mean what they say, for a model that is trained.

Reward 1 for a right program, else 0. Kinds of reward (``core.reward_kinds``): ``compiles``, ``runs`` (every call that
was made gave a value), ``correct``, ``share`` of the tests passed, and ``test:0`` … for each of them.
"""

from __future__ import annotations

import random
import re
import threading
import weakref
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Correction, Task, Turn
from evolvent.envs.text._text import TextEnv, check_request, flat, known, playing
from evolvent.envs.text.program_tasks import BY_NAME, EASY, HOUSE, Kind
from evolvent.sandbox import Case, Limits, Sandbox, Verdict, judge
from evolvent.sandbox.mechanisms import choose

VARIANTS = ("house", "told", "easy")
SHOWN, OPEN, HIDDEN = 2, 3, 8
"""Calls in the question, further ones that are told when they fail, and ones that are never told."""
INSTRUCTIONS = """Write short Python functions.

Task: double(x): twice x
double(4) == 8
double(-1) == -2
Program: def double(x):
    return 2 * x

Task: is_short(text): whether the text has at most 5 letters
is_short('tree') == True
is_short('cherries') == False
Program: def is_short(text):
    return len(text) <= 5

"""
WORKED = ("plus", "above", "first", "sum_plus", "all_plus")
"""Kinds of ``easy`` that the instructions show, with the constant 1, which no task has: a small model imitates."""
_LIMITS = Limits(wall=3.0, cpu=0.5, memory=256 << 20, output=1 << 16, disk=1 << 20)
_BEGIN = re.compile(r"^(def |import |from |class |@)", re.M)
_FENCE = re.compile(r"```[^`\n]*\n(.*?)(?:```|\Z)", re.S)
_BROKEN = ("SyntaxError", "IndentationError", "TabError")
_MOST_CHARS = 8000


class _Place:
    """The sandbox that all worlds of this process share, closed when the last of them is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: weakref.WeakSet[Program] = weakref.WeakSet()
        self._sandbox: Sandbox | None = None

    def enter(self, user: Program) -> Sandbox:
        with self._lock:
            self._users.add(user)
            if self._sandbox is None:
                self._sandbox = Sandbox()
            return self._sandbox

    def leave(self, user: Program) -> None:
        with self._lock:
            self._users.discard(user)
            if not self._users and self._sandbox is not None:
                self._sandbox.close()
                self._sandbox = None


_PLACE = _Place()


class Program(TextEnv):
    """The world; ``make`` has the options."""

    name, labels, stop, max_tokens = "program", ("Task", "Program"), ("\n\n", "\nTask:"), 120
    instructions = INSTRUCTIONS

    def __init__(self, variant: str, kinds: Sequence[Kind], reviewer: str) -> None:
        self.name = f"program-{variant}"
        if variant == "easy":
            self.instructions = _worked(WORKED)
        self.kinds, self._variant, self._reviewer = tuple(kinds), variant, reviewer
        self._turn: Turn | None = None
        self._failed = ("", "")

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` functions: every kind once in shuffled order, then again with other constants; used up, they repeat.

        A kind with a constant is in one split for ever, in all wordings.
        """
        check_request(split, n, "program.tasks")
        draw = random.Random(f"program/{self._variant}/{split}/{seed}")
        rows = [self._row(kind, split, draw) for kind in self.kinds]
        found = [row[i] for i in range(max(map(len, rows))) for row in draw.sample(rows, len(rows)) if i < len(row)]
        tasks: list[Task] = []
        for number in range(n):
            again, at = divmod(number, len(found))
            kind, constant, wording = found[at]
            first = f"{self.name}/{kind.name}-{constant}-{wording}"
            text = f"{self._asked(kind, constant, wording)}\n{_examples(kind, constant)}"
            mark, meta = (f"#{again + 1}" if again else ""), {"n": constant, "wording": wording}
            tasks.append(Task(first + mark, text, kind.name, split, seed, meta, repeats=first if mark else ""))
        return tasks

    def _row(self, kind: Kind, split: str, draw: random.Random) -> list[tuple[Kind, int, int]]:
        """Constants of a kind in a split in a drawn order, each in one of its wordings; then in the next one."""
        mine = [n for n in kind.constants if split_of(kind, n) == split]
        draw.shuffle(mine)
        first = [draw.randrange(len(kind.asks)) for _ in mine]
        ways = range(len(kind.asks))
        return [(kind, n, (at + way) % len(ways)) for way in ways for n, at in zip(mine, first, strict=True)]

    def _asked(self, kind: Kind, n: int, wording: int) -> str:
        rule = f" ({kind.rule})" if self._variant == "told" else ""
        return f"{kind.head}: {kind.asks[wording].replace('{n}', str(n))}{rule}"

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Ask for the function; its key for a memory is the question without the calls. ``seed`` changes nothing.

        Raises:
            BadInput: a task of another environment.
        """
        kind = next((kind for kind in self.kinds if kind.name == task.kind), None)
        if kind is None or not {"n", "wording"} <= set(task.meta):
            raise BadInput("not a task of this world", got=task.id, expected="one of env.tasks(…)", where=self.name)
        self._task, self._kind, self._n = task, kind, int(task.meta["n"])
        self._turn = Turn(task.text, key=self._asked(kind, self._n, int(task.meta["wording"])))
        return self._turn

    def step(self, action: str) -> Turn:
        """Run the program that stands in ``action``. ``info``: ``action`` (as it was run), ``words``, ``rewards``.

        Raises:
            EnvError: there was no reset, or the attempt is over.
            NoSandbox: nothing here confines a program.
        """
        key = playing(self._turn, self.name).key
        source = extract(action)
        verdict = self._judged(source) if source else None
        n_tests = SHOWN + OPEN + HIDDEN
        passed = [outcome.passed for outcome in verdict.outcomes] if verdict else []
        right, broken = len(passed) == n_tests and all(passed), verdict is None or _broken(verdict)
        runs = verdict is not None and all(outcome.status in ("right", "wrong") for outcome in verdict.outcomes)
        words = "right" if right else _words(verdict)
        rewards = {"compiles": float(not broken), "runs": float(runs), "correct": float(right)}
        rewards["share"] = sum(passed) / n_tests
        rewards |= {f"test:{i}": float(i < len(passed) and passed[i]) for i in range(n_tests)}
        self._failed = self._task.id, "" if right or verdict is None else _told(verdict, self._kind.name)
        self._turn = Turn(
            words, reward=float(right), terminated=True, success=right, valid=verdict is None or verdict.valid, key=key,
            info={"action": source, "words": words, "rewards": rewards},
        )  # fmt: skip
        return self._turn

    def _judged(self, source: str) -> Verdict:
        """The verdict on all cases; the hidden ones are left out where a limit has ended the program before."""
        cases, place = tests(self._kind.name, self._n), _PLACE.enter(self)
        found = judge(
            source, [c for c in cases if not c.hidden], function=self._kind.name, sandbox=place, limits=_LIMITS
        )
        if not all(outcome.status in ("right", "wrong", "raised", "value") for outcome in found.outcomes):
            return found
        rest = judge(source, [c for c in cases if c.hidden], function=self._kind.name, sandbox=place, limits=_LIMITS)
        return Verdict(found.outcomes + rest.outcomes, found.mechanism)

    def review(self, task: Task, seed: int) -> Correction | None:
        """After a failure at ``task``: calls that went wrong with their answers, or the right program."""
        if self._reviewer == "house":
            return Correction(BY_NAME[task.kind].source(int(task.meta["n"])))
        of, body = self._failed
        return Correction(body, source="tests") if self._reviewer == "tests" and body and of == task.id else None

    def close(self) -> None:
        """Let go of the sandbox."""
        _PLACE.leave(self)


def make(variant: str = "house", *, kinds: int = 0, reviewer: str = "tests") -> Program:
    """Small Python functions to write, judged by hidden tests.

    Args:
        variant: "house", "told" or "easy".
        kinds: so many kinds of function, the first ones; 0 = all.
        reviewer: what is handed over after a failure: "tests" calls that went wrong with their right answers, "house"
            the right program, "none" nothing.

    Raises:
        BadInput: no such variant or reviewer, or more kinds than there are.
        NoSandbox: nothing on this machine confines a program.
    """
    where = "envs.program.make"
    known(variant, VARIANTS, "variant", where)
    known(reviewer, ("tests", "house", "none"), "reviewer", where)
    all_ = EASY if variant == "easy" else HOUSE
    if not 0 <= kinds <= len(all_):
        raise BadInput("not a number of kinds", got=kinds, expected=f"0 to {len(all_)}", where=where)
    choose("auto", "python")
    return Program(variant, all_[: kinds or len(all_)], reviewer)


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
    return (*shown, *open_, *(Case(case.inputs, case.expected, hidden=True) for case in hidden))


def extract(answer: str) -> str:
    """The program in an answer: its first code block that has one, or from its first definition or import on."""
    answer = answer.replace("\r\n", "\n").lstrip("\ufeff")
    blocks = [block for block in _FENCE.findall(answer) if _BEGIN.search(block.lstrip())]
    text = blocks[0] if blocks else answer
    begin = _BEGIN.search(text.lstrip())
    return text.lstrip()[begin.start() : _MOST_CHARS].rstrip() if begin else ""


def _worked(names: Sequence[str]) -> str:
    """Worked examples in place of those of ``INSTRUCTIONS``."""
    asked = {name: f"{BY_NAME[name].head}: {BY_NAME[name].asks[0].replace('{n}', '1')}" for name in names}
    shown = [
        f"Task: {asked[name]}\n{_examples(BY_NAME[name], 1)}\nProgram: {BY_NAME[name].source(1)}\n\n" for name in names
    ]
    return INSTRUCTIONS.partition("Task:")[0] + "".join(shown)


def _varied(cases: Sequence[Case]) -> bool:
    """Whether the answers of the shown cases differ."""
    return len({repr(case.expected) for case in cases}) == len(cases)


def _examples(kind: Kind, n: int) -> str:
    return "\n".join(_call(kind.name, case) for case in tests(kind.name, n)[:SHOWN])


def _call(name: str, case: Case) -> str:
    return f"{name}({', '.join(map(repr, case.inputs))}) == {case.expected!r}"


def _broken(verdict: Verdict) -> bool:
    """Whether the program could not be read: the error of its import, as its process tells it."""
    first: Any = verdict.outcomes[0]
    return first.status == "raised" and first.detail.strip().rpartition("\n")[2].startswith(_BROKEN)


def _told(verdict: Verdict, name: str) -> str:
    """What a failure teaches, as comments: calls that went wrong and may be told, those of the question last.

    The failed program is not among it: a small model copies it, comments and all.
    """
    outcomes = [*verdict.outcomes[SHOWN : SHOWN + OPEN], *verdict.outcomes[:SHOWN]]
    return "\n".join(f"# {_call(name, one.case)}" for one in [o for o in outcomes if not o.passed][:OPEN])


def _words(verdict: Verdict | None) -> str:
    if verdict is None:
        return "there is no program in the answer"
    return flat(verdict.feedback(1)) or "the calls that may be told are right, a hidden one is not"
