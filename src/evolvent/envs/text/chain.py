"""Arithmetic chains: a sum of several short numbers, one line a step; every line can be checked by itself.

The question is ``34+72-07+25``; an answer carries the total on, modulo 100, so that all lines are equally long:

    34+72=06
    06-07=99
    99+25=24

Where a model is right in nine of ten lines it is right in half of the chains of six, and a wrong line spoils all that
follows: what a process reward model has to find is known. ``worked`` writes the solution.
"""

from __future__ import annotations

import random
import re
import zlib

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Task, Turn
from evolvent.envs.text._text import TextEnv, check_request, playing

_NUMBER = re.compile(r"[+-]?\d+")


def make(steps: int = 6, shots: int = 0, digits: int = 2) -> Chain:
    """Chains of ``steps`` lines.

    Args:
        steps: lines of an answer.
        shots: solved chains in front of the question, never tasks.
        digits: of every number; with 1 a small model learns them in minutes.

    Raises:
        BadInput: a number outside 1 to 20, of examples outside 0 to 8, of digits outside 1 to 3.
    """
    if not 1 <= steps <= 20 or not 0 <= shots <= 8 or not 1 <= digits <= 3:
        expected, where = "1 to 20, 0 to 8, 1 to 3", "envs.chain.make"
        raise BadInput("steps, examples or digits", got=(steps, shots, digits), expected=expected, where=where)
    return Chain(steps, shots, digits)


class Chain(TextEnv):
    """One chain, one answer of several lines; reward 1 where all of them are right."""

    name, labels, stop = "chain", ("Sum", "Steps"), ("\n\n",)

    def __init__(self, steps: int, shots: int, digits: int) -> None:
        self.steps, self.digits, self.max_tokens = steps, digits, (3 * digits + 4) * steps + 4
        examples = [_drawn(steps, digits, random.Random(f"chain/example/{i}")) for i in range(shots)]
        self.instructions = "".join(f"Sum: {one}\nSteps: {worked(one)}\n\n" for one in examples)

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` chains, no two alike; those of the splits differ."""
        check_request(split, n, f"{self.name}.tasks")
        draw, found = random.Random(f"chain/{split}/{seed}"), dict[str, Task]()
        for _ in range(50 * n):
            text = _drawn(self.steps, self.digits, draw)
            if len(found) < n and (zlib.crc32(text.encode()) % 4 == 0) == (split == "heldout"):
                found.setdefault(text, Task(f"{self.name}/{text}", text, f"{self.steps} steps", split))
        return list(found.values())

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Show the chain; ``seed`` changes nothing."""
        self._question = task.text
        self._turn = Turn(task.text)
        return self._turn

    def step(self, action: str) -> Turn:
        """Take the answer; ``info["action"]`` is its last total, ``info["legal"]`` how many lines were right."""
        playing(self._turn, self.name)
        lines = action.split()
        right = first_wrong(self._question, lines)
        success = right == self.steps == len(lines)
        info = {"action": lines[-1].rpartition("=")[2] if lines else "", "legal": right, "rewards": {"lines": right}}
        self._turn = Turn(
            f"{right} of {self.steps} lines", reward=float(success), terminated=True, success=success, info=info
        )
        return self._turn

    def line_labels(self, task: Task) -> list[tuple[str, int, bool]]:
        """Answers, the number of a line of each and its label: is it right where all lines before it are?

        Wrong lines differ from the right one in their result: one more, one less, the other sign. What a process reward
        model (``openr --labels mutants``) and a critic of steps (``spc``) learn from.
        """
        lines = worked(task.text).split()
        rows = [("\n".join(lines), number, True) for number in range(len(lines))]
        for number, line in enumerate(lines):
            for wrong in _wrong(line, self.digits):
                rows.append(("\n".join([*lines[:number], wrong, *lines[number + 1 :]]), number, False))
        return rows


def worked(question: str) -> str:
    """The lines of a chain."""
    first, *rest = _NUMBER.findall(question)
    total, lines, digits = int(first), list[str](), len(first)
    for term in rest:
        after = (total + int(term)) % 10**digits
        lines.append(f"{total:0{digits}d}{term}={after:0{digits}d}")
        total = after
    return "\n".join(lines)


def first_wrong(question: str, lines: list[str]) -> int:
    """Lines that are right before the first that is not: what a process reward model has to find."""
    for i, (said, want) in enumerate(zip(lines, worked(question).split(), strict=False)):
        if said != want:
            return i
    return min(len(lines), len(worked(question).split()))


def _wrong(line: str, digits: int) -> list[str]:
    """A right line with other results."""
    asked, _, result = line.partition("=")
    first, second = (int(number) for number in _NUMBER.findall(asked))
    others = {total % 10**digits for total in (int(result) + 1, int(result) - 1, first - second)} - {int(result)}
    return [f"{asked}={other:0{digits}d}" for other in sorted(others)]


def _drawn(steps: int, digits: int, draw: random.Random) -> str:
    below = 10**digits
    rest = (f"{draw.choice('+-')}{draw.randrange(below):0{digits}d}" for _ in range(steps))
    return f"{draw.randrange(below):0{digits}d}" + "".join(rest)
