"""Your own prompts and your own reward function, from a Python file: one free answer each, graded.

The file defines

    PROMPTS = [{"prompt": "2 + 2 =", "answer": "4"}, ...]      # or a function prompts() that returns such a list
    def reward(completion, prompt, **rest): ...                 # a number; rest = the other keys of the row

and may define ``INSTRUCTIONS``, ``STOP`` (strings that end an answer), ``MAX_TOKENS``, ``REWARD_RANGE`` (0 to 1) and
``SUCCESS`` (the reward from which an answer counts as right; the top of the range by default). A row with
``"split": "heldout"`` is only used for evaluation; without such rows every fifth one is.
"""

from __future__ import annotations

import importlib.util
import json
import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Correction, Task, Turn
from evolvent.envs._text import check_request, playing

Row = Mapping[str, Any]


def make(variant: str) -> Graded:
    """Prompts and reward of a Python file.

    Args:
        variant: path of the file, e.g. ``graded:my_task.py``. The file is run: use only what you trust.

    Raises:
        BadInput: no such file, it does not run, or lacks prompts or reward.
    """
    path = Path(variant).expanduser()
    where = f"graded:{variant}"
    if not path.is_file():
        raise BadInput("no such file", got=str(path), expected="a Python file with PROMPTS and reward", where=where)
    module = _run_file(path, where)
    rows = module.prompts() if hasattr(module, "prompts") else getattr(module, "PROMPTS", None)
    grade = getattr(module, "reward", None)
    if not callable(grade):
        raise BadInput("no reward function", got=str(path), expected="def reward(completion, prompt, **rest)",
                       where=where)  # fmt: skip
    low, high = getattr(module, "REWARD_RANGE", (0.0, 1.0))
    return Graded(
        path.stem, _checked(rows, where), grade, instructions=getattr(module, "INSTRUCTIONS", ""),
        stop=tuple(getattr(module, "STOP", ("\n",))), max_tokens=int(getattr(module, "MAX_TOKENS", 64)),
        reward_range=(float(low), float(high)), success=float(getattr(module, "SUCCESS", high)),
    )  # fmt: skip


class Graded:
    """One question, one answer, one grade; see the module."""

    labels = ("Q", "A")

    def __init__(
        self, name: str, rows: list[Row], grade: Callable[..., Any], *, instructions: str, stop: tuple[str, ...],
        max_tokens: int, reward_range: tuple[float, float], success: float,
    ) -> None:  # fmt: skip
        self.name, self.instructions, self.stop, self.max_tokens = f"graded:{name}", instructions, stop, max_tokens
        self.reward_range, self._grade, self._success = reward_range, grade, success
        told = any("split" in row for row in rows)
        held = [i for i, row in enumerate(rows) if (row.get("split") == "heldout" if told else i % 5 == 4)]
        self._rows = rows
        self._split = {"heldout": held, "train": [i for i in range(len(rows)) if i not in set(held)]}
        self._turn: Turn | None = None
        self._task: Task | None = None

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """Rows of a split in an order drawn by ``seed``; again from the start where there are fewer than ``n``."""
        check_request(split, n, f"{self.name}.tasks")
        rows = list(self._split[split])
        if n and not rows:
            raise BadInput("no prompts in this split", got=split, where=self.name, do="give at least five prompts")
        random.Random(seed).shuffle(rows)
        return [self._as_task(rows[i % len(rows)], split, i // len(rows)) for i in range(n)]

    def _as_task(self, row: int, split: str, again: int) -> Task:
        name = f"{self.name}/{row}" + (f"/{again}" if again else "")
        return Task(name, self._rows[row]["prompt"], "graded", split, row, {"row": row})

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """The prompt."""
        self._task, self._turn = task, Turn(task.text)
        return self._turn

    def step(self, action: str) -> Turn:
        """Grade the answer.

        Raises:
            EnvError: the reward function failed, or returned something that is not a number in the range.
        """
        playing(self._turn, self.name)
        assert self._task is not None
        row = self._rows[int(self._task.meta["row"])]
        rest = {key: value for key, value in row.items() if key not in ("prompt", "split")}
        where = f"{self.name}, reward of {self._task.id}"
        try:
            value = self._grade(action, row["prompt"], **rest)
        except Exception as error:
            raise EnvError("the reward function failed", got=f"{type(error).__name__}: {error}", where=where,
                           do="let it return 0 for an answer that it cannot read") from error  # fmt: skip
        low, high = self.reward_range
        numeric = isinstance(value, int | float) and math.isfinite(value)
        if not numeric or not low <= value <= high:
            raise EnvError("not a reward", got=repr(value), expected=f"a number from {low:g} to {high:g}", where=where,
                           do="mend the function, or set REWARD_RANGE in its file")  # fmt: skip
        self._turn = Turn(self._task.text, reward=float(value), terminated=True, success=bool(value >= self._success))
        return self._turn

    def review(self, task: Task, seed: int) -> Correction | None:
        """Nobody reviews."""
        return None

    def advance(self, pass_number: int) -> None:
        """Nothing drifts."""

    def close(self) -> None:
        """Nothing to release."""


def _run_file(path: Path, where: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"graded_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadInput("the file does not run", got=f"{type(error).__name__}: {error}", where=where) from error
    return module


def _checked(rows: Any, where: str) -> list[Row]:
    if not isinstance(rows, list) or not rows:
        raise BadInput("no prompts", got=type(rows).__name__, expected='PROMPTS = [{"prompt": …}, …]', where=where)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or not isinstance(row.get("prompt"), str):
            raise BadInput("not a prompt", got=repr(row)[:100], expected='{"prompt": text, …}',
                           where=f"{where}, PROMPTS[{number}]")  # fmt: skip
        try:
            json.dumps(dict(row))
        except (TypeError, ValueError) as error:
            raise BadInput("a row is not plain data", got=str(error), where=f"{where}, PROMPTS[{number}]") from error
    return rows
