"""Small sums and comparisons as examples to continue: free text of at most four tokens, right or wrong."""

from __future__ import annotations

import itertools
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Correction, Task, Turn
from evolvent.envs.text._text import TextEnv, check_request, drawn, known, named, playing


@dataclass(frozen=True)
class Kind:
    """A variant: the words before question and answer, and every question with its answer."""

    labels: tuple[str, str]
    items: Callable[[], Iterator[tuple[str, str]]]


def _extreme(choose: Callable[[tuple[int, ...]], int]) -> Callable[[], Iterator[tuple[str, str]]]:
    return lambda: ((" ".join(map(str, d)), str(choose(d))) for d in itertools.permutations(range(10), 3))


def _sums(numbers: range) -> Callable[[], Iterator[tuple[str, str]]]:
    return lambda: ((f"{a} + {b}", str(a + b)) for a in numbers for b in numbers)


def _differences() -> Iterator[tuple[str, str]]:
    return ((f"{a} - {b}", str(a - b)) for a in range(20) for b in range(min(a, 9) + 1))


def _counts() -> Iterator[tuple[str, str]]:
    return (
        (f"{letter} in {' '.join(word)}", str(word.count(letter)))
        for letter in "abcd"
        for word in itertools.product("abcd", repeat=6)
    )


def _next_terms() -> Iterator[tuple[str, str]]:
    return (
        (" ".join(str(a + i * d) for i in range(4)), str(a + 4 * d)) for a in range(1, 31) for d in (1, 2, 3, 5, 10)
    )


def _parities() -> Iterator[tuple[str, str]]:
    return ((str(n), "odd" if n % 2 else "even") for n in range(10, 1000))


KINDS = {
    "largest": Kind(("Digits", "Largest"), _extreme(max)),
    "smallest": Kind(("Digits", "Smallest"), _extreme(min)),
    "addition": Kind(("Sum", "Result"), _sums(range(10))),
    "addition2": Kind(("Sum", "Result"), _sums(range(10, 100))),
    "subtraction": Kind(("Difference", "Result"), _differences),
    "count": Kind(("Count", "Number"), _counts),
    "next": Kind(("Row", "Next"), _next_terms),
    "parity": Kind(("Number", "Parity"), _parities),
}


def make(variant: str = "largest", shots: int = 4) -> Arithmetic:
    """Questions of one kind with verifiable answers, asked by continuing a list of worked examples.

    Args:
        variant: "largest" or "smallest" of three digits, "addition" of digits, "addition2" of two-digit numbers,
            "subtraction", "count" (a letter among six), "next" (of an arithmetic progression) or "parity".
        shots: worked examples before the question, always the same ones and never tasks.

    Raises:
        BadInput: no such variant, or a number of examples outside 0 to 8.
    """
    known(variant, tuple(KINDS), "variant", "envs.arithmetic.make")
    if not 0 <= shots <= 8:
        raise BadInput("number of examples", got=shots, expected="0 to 8", where="envs.arithmetic.make(shots=)")
    return Arithmetic(variant, shots)


class Arithmetic(TextEnv):
    """One question, one answer: reward 1 for the right one (the first line, without a closing full stop), else 0."""

    max_tokens = 5  # a blank, three digits and the end of the line

    def __init__(self, variant: str, shots: int) -> None:
        self.name, self.labels = f"arithmetic-{variant}", KINDS[variant].labels
        question, answer = self.labels
        self.instructions = "".join(f"{question}: {q}\n{answer}: {a}\n\n" for q, a in _examples(variant, shots))
        self._variant, self._answer = variant, ""

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` questions; a longer list begins like a shorter one. Used up, they come again in another order."""
        check_request(split, n, f"{self.name}.tasks")
        questions = _questions(self._variant)[split]
        order = drawn(questions, n, random.Random(f"arithmetic/{self._variant}/{split}/{seed}"))
        tasks = (Task(f"{self.name}/{q}", q, self._variant, split, seed, {"answer": a}) for q, a in order)
        return named(tasks, len(questions))

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Ask the question of ``task``; ``seed`` changes nothing."""
        if "answer" not in task.meta:
            raise BadInput("not a task of this world", got=task.id, expected="one of env.tasks(…)", where=self.name)
        self._answer = str(task.meta["answer"])
        self._turn = Turn(task.text)
        return self._turn

    def step(self, action: str) -> Turn:
        """Take the answer; ``info`` holds it as read (``action``) and the right one (``answer``).

        ``info["rewards"]["format"]`` is 1 for an answer of the right form: digits, or one of the two words.
        """
        playing(self._turn, self.name)
        given = action.strip().partition("\n")[0].strip().removesuffix(".")
        right = given == self._answer
        formed = given in ("odd", "even") if self._variant == "parity" else given.isdecimal()
        self._turn = Turn(
            "Right." if right else f"Wrong: it is {self._answer}.",
            reward=float(right),
            terminated=True,
            success=right,
            info={"action": given, "answer": self._answer, "rewards": {"format": float(formed)}},
        )
        return self._turn

    def review(self, task: Task, seed: int) -> Correction | None:
        """The right answer."""
        return Correction(str(task.meta["answer"]))


@cache
def _questions(variant: str) -> dict[str, list[tuple[str, str]]]:
    """The questions of a variant by split, with those kept back as examples; distinguished by hash, so for ever.

    The hash is that of the sorted words: what differs in order only ("3 + 4", "4 + 3") is in one split.
    """
    found: dict[str, list[tuple[str, str]]] = {"train": [], "heldout": [], "example": []}
    for question, answer in KINDS[variant].items():
        part = zlib.crc32(f"{variant}:{sorted(question.split())}".encode()) % 10
        found["example" if part == 0 else "heldout" if part <= 4 else "train"].append((question, answer))
    return found


def _examples(variant: str, shots: int) -> list[tuple[str, str]]:
    """Examples with as many different answers as possible, so that copying one of them is of little use."""
    items = list(_questions(variant)["example"])
    random.Random(f"arithmetic/{variant}/examples").shuffle(items)
    seen: Counter[str] = Counter()
    ranked = []
    for item in items:
        ranked.append((seen[item[1]], item))
        seen[item[1]] += 1
    return [item for _, item in sorted(ranked, key=lambda pair: pair[0])[:shots]]
