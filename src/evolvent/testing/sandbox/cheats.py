"""Programs that want to be judged right without being it, and an honest one; and a judge that believes them."""

from __future__ import annotations

from pathlib import Path

from evolvent.sandbox import Limits, Result, Sandbox
from evolvent.sandbox.judge import Case, Verdict, judge
from evolvent.testing.sandbox.attempts import Attempt, attempts

CHEATS = attempts(Path(__file__).parent / "cheat_texts")
"""Group ``function``: ``solve(x)`` shall be x² + 1. Group ``program``: the same from standard input to output."""
CASES = [Case((x,), x * x + 1, hidden=x > 2) for x in (0, 1, 2, 7, 1000, 31337)]
HIDDEN = "hidden-answer-50"  # what those search for who search memory and files: 7² + 1
LIMITS = {"honest": Limits(), "cheat": Limits(wall=0.5, cpu=2.0)}  # who cheats is wrong also when it is slow


def judged(cheat: Attempt, sandbox: Sandbox) -> Verdict:
    """By us: outside."""
    if cheat.group == "function":
        return judge(cheat.code, CASES, function="solve", sandbox=sandbox, limits=LIMITS[cheat.sign])
    cases = [Case((f"{case.inputs[0]}\n",), f"{case.expected}\n") for case in CASES[:2]]
    return judge(cheat.code, cases, sandbox=sandbox, limits=LIMITS[cheat.sign])


def believed(cheat: Attempt, sandbox: Sandbox) -> Result:
    """As programs are often judged: tests behind the solution, in its process; its exit code is the verdict."""
    tests = "".join(f"assert solve({case.inputs[0]}) == {case.expected}\n" for case in CASES)
    return sandbox.run({"main.py": f"{cheat.code}\n{tests}# {HIDDEN}\n"}, ["python", "main.py"], LIMITS[cheat.sign])
