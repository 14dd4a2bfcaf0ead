"""What text environments share: what most of them are, splits, names that must be known, a step after the end."""

from __future__ import annotations

import importlib.util
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from evolvent.core.errors import BadInput, EnvError, closest, missing_extra
from evolvent.core.protocols import Correction, Task, Turn

T = TypeVar("T")
SPLITS = ("train", "heldout")
_FENCE = re.compile(r"(?:(```)|^[ \t]*~~~)[^`\n]*\n(.*?)(?:(?(1)```|^[ \t]*~~~)|\Z)", re.S | re.M)


class TextEnv:
    """What a text environment is unless it says otherwise; see ``core.protocols.Env``.

    ``tasks`` raises ``BadInput`` for an unknown split or a negative ``n``; ``reset``, and whatever else takes a task,
    for one of another environment. ``step`` raises ``EnvError`` where there was no reset or the attempt is over.
    """

    labels: tuple[str, str] = ("Situation", "Command")
    stop: tuple[str, ...] = ("\n",)
    max_tokens: int = 24
    reward_range: tuple[float, float] = (0.0, 1.0)
    _turn: Turn | None = None
    """What was shown last."""

    def review(self, task: Task, seed: int) -> Correction | None:
        """Nobody reviews here."""
        return None

    def advance(self, pass_number: int) -> None:
        """Passes change nothing here."""

    def close(self) -> None:
        """Nothing is held."""


def flat(text: str) -> str:
    """``text`` in one line, single blanks between words."""
    return " ".join(text.split())


def unix(answer: str) -> str:
    """An answer with plain ends of lines and without the mark of an encoding."""
    return answer.replace("\r\n", "\n").replace("\ufeff", "")


def unlabelled(answer: str, label: str) -> str:
    """An answer without the label before it: the worked examples have it, and models repeat it."""
    return answer.lstrip().removeprefix(f"{label}:") if answer.lstrip().startswith(f"{label}:") else answer


def is_done(command: str) -> bool:
    """Whether it is the word that ends an attempt, as people write it."""
    return command.strip().rstrip(".!;").lower() == "done"


def code_blocks(answer: str) -> list[str]:
    """What stands in the fenced blocks of an answer; the last may be open, a fence may end the last line of code."""
    return [block for _, block in _FENCE.findall(unix(answer))]


def known(value: str, names: Sequence[str], what: str, where: str) -> str:
    """``value`` if it is one of ``names``.

    Raises:
        BadInput: it is not; names the closest ones.
    """
    if value not in names:
        raise BadInput(f"unknown {what}", got=value, expected=closest(value, names), where=where)
    return value


def need(package: str, extra: str, world: str) -> None:
    """Refuse to start without a package, which is not imported.

    Raises:
        MissingExtra: it is not installed; names the extra.
    """
    if importlib.util.find_spec(package) is None:
        raise missing_extra(package.replace("_", "-"), extra, f"evolvent.envs.text.{world}")


def check_request(split: str, n: int, where: str) -> None:
    """Refuse a split that does not exist and a negative number of tasks.

    Raises:
        BadInput: either of them.
    """
    known(split, SPLITS, "split", where)
    if n < 0:
        raise BadInput("a negative number of tasks", got=n, expected="0 or more", where=where)


def check_limit(steps: int, least: int, where: str) -> int:
    """``steps`` if an attempt can be solved in them.

    Raises:
        BadInput: fewer than ``least``.
    """
    if steps < least:
        raise BadInput("the step limit is too small", got=steps, expected=f"{least} or more", where=where)
    return steps


def drawn(items: Sequence[T], n: int, draw: random.Random) -> list[T]:
    """``n`` items in drawn order; used up, they come again in another order."""
    return [item for _ in range(-(-n // len(items))) for item in draw.sample(items, len(items))][:n]


def named(tasks: Iterable[Task], size: int) -> list[Task]:
    """Tasks of which the first ``size`` are all there are: those behind them repeat one, and their names say so."""
    return [
        replace(task, id=f"{task.id}#{i // size + 1}", repeats=task.id) if i >= size else task
        for i, task in enumerate(tasks)
    ]


def numbered(name: str, text: str, kind: str, split: str, n: int) -> list[Task]:
    """``n`` times the one task of a world that is always the same: only names differ, and those of the splits."""
    check_request(split, n, f"{name}.tasks")
    first = f"{name}/{split}/0"
    return [Task(f"{name}/{split}/{i}", text, kind, split, seed=i, repeats=first if i else "") for i in range(n)]


def playing(turn: Turn | None, where: str) -> Turn:
    """The turn that a step answers.

    Raises:
        EnvError: there was no reset, or the attempt is over.
    """
    if turn is None or turn.done:
        raise EnvError("the attempt is over, or none was begun", where=f"{where}.step", do="call reset(task) first")
    return turn
