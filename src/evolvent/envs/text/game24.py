"""Game of 24: four numbers, three lines of arithmetic, 24 in the end; written in lines, so that it can be searched.

The question is ``03080809``; an answer has a line a step, what is used, what comes of it and what is left:

    09-08=01;010308
    03*08=24;0124
    01*24=24

There are 1,334 puzzles of the numbers 1 to 13 that whole numbers up to 99 solve, generated here; two in three are for
training. A model has to have seen the form: ``worked`` writes solutions, as many as there are.
"""

from __future__ import annotations

import random
import re
import zlib
from functools import cache
from itertools import combinations_with_replacement

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Task, Turn
from evolvent.envs.text._text import TextEnv, check_request, drawn, named, playing

GOAL, MOST = 24, 99
_LINE = re.compile(r"(\d\d)([-+*/])(\d\d)=(\d\d)(?:;(?:\d\d)*)?$")
Numbers = tuple[int, ...]


def make(shots: int = 0) -> Game24:
    """Puzzles of four numbers.

    Args:
        shots: solved puzzles in front of the question, never tasks.

    Raises:
        BadInput: a number of examples outside 0 to 8.
    """
    if not 0 <= shots <= 8:
        raise BadInput("number of examples", got=shots, expected="0 to 8", where="envs.game24.make(shots=)")
    return Game24(shots)


class Game24(TextEnv):
    """One puzzle, one answer of three lines; reward 1 where they are legal and end in 24."""

    name, labels, stop, max_tokens = "game24", ("Numbers", "Steps"), ("\n\n",), 48

    def __init__(self, shots: int) -> None:
        examples = [worked(puzzle, random.Random(i)) for i, puzzle in enumerate(_split("example")[:shots])]
        self.instructions = "".join(f"Numbers: {puzzle}\nSteps: {steps}\n\n" for puzzle, steps in examples)

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` puzzles; used up, they come again."""
        check_request(split, n, f"{self.name}.tasks")
        puzzles = _split(split)
        texts = map(shown, drawn(puzzles, n, random.Random(f"game24/{split}/{seed}")))
        return named((Task(f"{self.name}/{text}", text, "24", split) for text in texts), len(puzzles))

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Show the numbers; ``seed`` changes nothing."""
        self._numbers = tuple(int(task.text[i : i + 2]) for i in range(0, len(task.text), 2))
        self._turn = Turn(task.text)
        return self._turn

    def step(self, action: str) -> Turn:
        """Take the answer; ``info["action"]`` holds its operations, ``info["legal"]`` how many lines were legal."""
        playing(self._turn, self.name)
        legal, left = read(self._numbers, action)
        right = legal == 3 and left == (GOAL,)
        info = {
            "action": "; ".join(line.partition(";")[0] for line in action.split()),
            "legal": legal,
            "rewards": {"lines": legal},
        }
        self._turn = Turn(f"{legal} of 3 lines", reward=float(right), terminated=True, success=right, info=info)
        return self._turn


def read(numbers: Numbers, answer: str) -> tuple[int, Numbers]:
    """How many lines of an answer are legal before the first that is not, and the numbers that are left after them."""
    left = tuple(sorted(numbers))
    for legal, line in enumerate(answer.split()):
        found = _LINE.match(line)
        after = found and _apply(left, int(found[1]), found[2], int(found[3]), int(found[4]))
        if not after:
            return legal, left
        left = after
    return len(answer.split()), left


def worked(numbers: Numbers, draw: random.Random) -> tuple[str, str]:
    """A puzzle as its question and a solution, one of all at random."""
    left, lines = tuple(sorted(numbers)), list[str]()
    while len(left) > 1:
        moves = [(text, after) for text, after in _moves(left) if _solvable(after)]
        text, left = draw.choice(moves)
        lines.append(text + (f";{shown(left)}" if len(left) > 1 else ""))
    return shown(numbers), "\n".join(lines)


def shown(numbers: Numbers) -> str:
    """Numbers as the puzzle writes them."""
    return "".join(f"{n:02d}" for n in sorted(numbers))


def _apply(left: Numbers, a: int, op: str, b: int, result: int) -> Numbers | None:
    return next((after for text, after in _moves(left) if text == f"{a:02d}{op}{b:02d}={result:02d}"), None)


@cache
def _moves(left: Numbers) -> list[tuple[str, Numbers]]:
    found: dict[str, Numbers] = {}
    for i, a in enumerate(left):
        for j, b in enumerate(left):
            if i == j:
                continue
            rest = [x for k, x in enumerate(left) if k not in (i, j)]
            results = {"+": a + b, "*": a * b, "-": a - b, "/": a // b if b and a % b == 0 else -1}
            for op, value in results.items():
                if 0 <= value <= MOST:
                    found[f"{a:02d}{op}{b:02d}={value:02d}"] = tuple(sorted([*rest, value]))
    return list(found.items())


@cache
def _solvable(left: Numbers) -> bool:
    return left == (GOAL,) if len(left) == 1 else any(_solvable(after) for _, after in _moves(left))


@cache
def _split(split: str) -> list[Numbers]:
    """The puzzles of a split, distinguished by what they say."""
    puzzles = [p for p in combinations_with_replacement(range(1, 14), 4) if _solvable(p)]
    part = {p: zlib.crc32(shown(p).encode()) % 100 for p in puzzles}
    low, high = {"train": (0, 66), "heldout": (66, 98), "example": (98, 100)}[split]
    return [p for p in puzzles if low <= part[p] < high]
