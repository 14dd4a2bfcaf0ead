"""Your own prompts and reward function, and tools if there are any, from a Python file: ``--env my_task.py``.

The file defines

    PROMPTS = [{"prompt": "2 + 2 =", "answer": "4"}, ...]      # or a function prompts() that returns such a list
    def reward(completion, prompt, **rest): ...                 # a number; rest = the other keys of the row

(``envs.text._reward`` has the other forms of a reward function, and several by name; ``_rows`` those of a row:
messages, tools, a ``datasets.Dataset``) and may define ``INSTRUCTIONS``, ``STOP`` (strings that end an answer),
``MAX_TOKENS``, ``REWARD_RANGE`` (0 to 1), ``SUCCESS`` (the reward from which an answer counts as right; the top of the
range by default) and ``REWARD_TIMEOUT_S`` (60 seconds for each call of the reward). A row with ``"split": "heldout"``
is only used for evaluation; without such rows a fifth of the prompts is, drawn by a hash (by another one with
``graded:my_task.py,split_seed=1``).

With ``TOOLS = [f, g]``, plain or ``async def`` functions with type hints and a docstring, the model may call them
(``envs.text._tools`` says how a call is written). The instructions begin with a list of them; what a call came to is
the next thing that the model sees in the same conversation, after ``Result:`` or ``Error:``. The first answer that is
no call is graded by ``reward(completion, prompt, calls=[...], **rest)``, where a call is ``{"name", "arguments",
"result", "outcome"}``. ``MAX_TURNS`` (4) answers may be given in all; a call in the last one ends the attempt with the
lowest reward, stop reason "turns". ``TIMEOUT_S`` (10) bounds each call, ``MAX_RESULT`` (500) the characters that are
shown of its result. The file is run once for all attempts, and its tools are called from several of them at once.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import random
import threading
from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.outside import own_faults, run_file, stamp
from evolvent.core.protocols import Task, Turn
from evolvent.core.rounding import inside, reaches
from evolvent.envs.text._reward import Rewards, rewards_of
from evolvent.envs.text._rows import Row, chat_of, checked_rows, held_out, words_of
from evolvent.envs.text._text import TextEnv, check_request, known, playing
from evolvent.envs.text._tools import Call, Tools, tools


def make(variant: str, *, split_seed: int = 0, by: str = "prompt") -> Graded:
    """Prompts and reward of a Python file.

    Args:
        variant: path of the file, e.g. ``my_task.py``. The file is run: use only what you trust.
        split_seed: draws another fifth of the prompts to hold out.
        by: what is held out: a fifth of the prompts, or, as runs of earlier versions go on, every fifth row.

    Raises:
        BadInput: no such file, it does not run, or lacks prompts or reward.
    """
    known(by, ("prompt", "row"), "way to split", f"graded:{variant}")
    path, where = source(variant), f"graded:{variant}"
    module, rows = _run_file(path, stamp(path), where)
    bounds = _range(getattr(module, "REWARD_RANGE", (0.0, 1.0)), where)
    rewards = rewards_of(module, bounds, _seconds(getattr(module, "REWARD_TIMEOUT_S", 60.0), where), where)
    low, high = rewards.low, rewards.high
    rewards = replace(rewards, success=_success(getattr(module, "SUCCESS", high), low, high, where))
    its_tools = _its_tools(module, where)
    if its_tools and any("tools" in row for row in rows if not isinstance(row["prompt"], str)):
        do = "leave out TOOLS where calls are only to be judged, the rows' tools where they are to be carried out"
        raise BadInput("tools in the file and in its rows", got=str(path), expected="one of them", where=where, do=do)
    for name, grade in rewards.grades.items():
        grade.check_takes(rows, f"{where}, {name}" if name else where, calls=its_tools is not None)
    return Graded(
        path.stem,
        rows,
        rewards,
        held=held_out(rows, split_seed, by),
        instructions=getattr(module, "INSTRUCTIONS", ""),
        stop=_stops(getattr(module, "STOP", "\n"), where),
        max_tokens=_tokens(getattr(module, "MAX_TOKENS", 64), where),
        tools=its_tools,
    )


def source(variant: str, **options: Any) -> Path:
    """The file, absolute; ``options`` are the others of ``make``.

    Raises:
        BadInput: there is none.
    """
    path = Path(variant).expanduser()
    if not path.is_file():
        expected = "a Python file with PROMPTS and reward"
        raise BadInput("no such file", got=str(path), expected=expected, where=f"graded:{variant}")
    return path.resolve()


class Graded(TextEnv):
    """One question, calls of tools if there are any, one answer, one grade; see the module."""

    labels = ("Q", "A")

    def __init__(
        self,
        name: str,
        rows: list[Row],
        rewards: Rewards,
        *,
        held: Collection[int],
        instructions: str,
        stop: tuple[str, ...],
        max_tokens: int,
        tools: Tools | None = None,
    ) -> None:
        self.name, self.stop, self.max_tokens = f"graded:{name}", stop, max_tokens
        self.instructions = (tools.listing if tools else "") + instructions
        self.reward_range, self._rewards = (rewards.low, rewards.high), rewards
        waits = any(inspect.iscoroutinefunction(grade.function) for grade in rewards.grades.values())
        self.waits = tools is not None or waits
        self._tools, self._rows = tools, rows
        self._split = {"heldout": sorted(held), "train": [i for i in range(len(rows)) if i not in held]}
        self._task: Task | None = None
        self._calls: list[Call] = []

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """Rows of a split in an order drawn by ``seed``; again from the start where there are fewer than ``n``."""
        check_request(split, n, f"{self.name}.tasks")
        rows = list(self._split[split])
        if n and not rows:
            do = 'give at least five different prompts, or some rows "split": "heldout"'
            raise BadInput("no prompts in this split", got=split, where=self.name, do=do)
        random.Random(seed).shuffle(rows)
        return [self._as_task(rows[i % len(rows)], split, i // len(rows)) for i in range(n)]

    def _as_task(self, row: int, split: str, again: int) -> Task:
        first = f"{self.name}/{row}"
        name, repeats = (f"{first}/{again}", first) if again else (first, "")
        given = self._rows[row]
        return Task(name, words_of(given), str(given.get("kind", "graded")), split, row, {"row": row}, repeats)

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """The prompt."""
        self._calls = []
        info = {"tools": list(self._tools.known)} if self._tools else {}
        self._task = task
        self._turn = Turn(task.text, info=info, chat=chat_of(self._rows[int(task.meta["row"])]))
        return self._turn

    def step(self, action: str) -> Turn:
        """Call a tool and wait for it, or grade the answer.

        Raises:
            EnvError: the reward function failed, took too long, or returned no number in the range.
        """
        playing(self._turn, self.name)
        assert self._task is not None
        line = self._tools.asked(action) if self._tools else ""
        if self._tools and line and len(self._calls) < self._tools.max_turns - 1:
            call = self._tools.call(line)
            self._calls.append(call)
            self._turn = Turn(call.shown, follows=True, info={"call": asdict(call)})
        elif line:
            low, each = self._rewards.lowest()
            info = {"stop": "turns", "action": "", "rewards": each}
            self._turn = Turn("No answer.", reward=low, terminated=True, info=info)
        else:
            value, each = self._graded(action, self._task)
            right = reaches(value, self._rewards.success)
            self._turn = Turn(self._task.text, reward=value, terminated=True, success=right, info={"rewards": each})
        return self._turn

    def _graded(self, answer: str, task: Task) -> tuple[float, dict[str, float]]:
        row, where = self._rows[int(task.meta["row"])], f"{self.name}, reward of {task.id}"
        if not self._tools:
            return self._rewards(answer, row, where)
        return self._rewards(answer, row, where, calls=[asdict(call) for call in self._calls])


@functools.lru_cache(maxsize=8)
def _run_file(path: Path, version: tuple[int, int], where: str) -> tuple[ModuleType, list[Row]]:
    """The file as a module, and its rows; run anew only where it has changed: attempts share what it builds."""
    module = run_file(path, version)
    with own_faults(str(path), "the file does not run"):
        rows = module.prompts() if hasattr(module, "prompts") else getattr(module, "PROMPTS", None)
    return module, checked_rows(rows, where)


def _range(bounds: Any, where: str) -> tuple[float, float]:
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise BadInput("no range of rewards", got=repr(bounds), expected="REWARD_RANGE = (least, most)", where=where)
    return low, high


def _success(least: Any, low: float, high: float, where: str) -> float:
    """The reward from which an answer is right: more than the least there is, so that some can be wrong."""
    number = inside(float(least), low, high) if isinstance(least, numbers.Real) else math.nan
    if math.isnan(number) or reaches(low, number):
        got = f"SUCCESS = {least!r}"
        expected = f"a number above {low:g}, at most {high:g}"
        raise BadInput("no reward from which an answer is right", got=got, where=where, expected=expected)
    return number


def _seconds(limit: Any, where: str) -> float:
    if not isinstance(limit, numbers.Real) or not 0.0 < float(limit) < threading.TIMEOUT_MAX / 2:
        raise BadInput("no time limit", got=repr(limit), expected="REWARD_TIMEOUT_S = seconds, above 0", where=where)
    return float(limit)


def _stops(stop: Any, where: str) -> tuple[str, ...]:
    """One text that ends an answer, or several."""
    stops = (stop,) if isinstance(stop, str) else stop
    if not isinstance(stops, list | tuple) or not all(isinstance(one, str) and one for one in stops):
        expected = 'STOP = "text", or several texts, none of them empty'
        raise BadInput("nothing that ends an answer", got=repr(stop), where=where, expected=expected)
    return tuple(stops)


def _tokens(most: Any, where: str) -> int:
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise BadInput("no room for an answer", got=repr(most), expected="MAX_TOKENS >= 1", where=where)
    return most


def _its_tools(module: ModuleType, where: str) -> Tools | None:
    if not hasattr(module, "TOOLS"):
        return None
    limits = {"TIMEOUT_S": 10.0, "MAX_RESULT": 500, "MAX_TURNS": 4}
    timeout_s, characters, turns = (getattr(module, name, default) for name, default in limits.items())
    return tools(module.TOOLS, where, timeout_s=timeout_s, characters=characters, max_turns=turns)
