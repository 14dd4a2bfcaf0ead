"""A user's reward function: how it is called, for how long, and what counts as a reward.

    def reward(completion, prompt, **rest): ...            # an answer; the other keys of the row, and calls of tools
    def reward(prompts, completions, **rest): ...          # as trainers of TRL call it, with lists; returns a list

Either may be ``async def``. A function of the second form is recognised by its parameter ``completions``; it gets lists
of one, since attempts end one by one. Where a prompt is messages, so is a completion of the second form, as in TRL.

    REWARDS = {"format": f, "right": g}                     # several, each of either form
    WEIGHTS = {"format": 0.2, "right": 1.0}                 # 1 where there is none; 0 = only logged

The reward of the task is their weighted sum; each is also recorded, and logged as ``reward_NAME_mean``.
"""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import ModuleType
from typing import Any

from evolvent.core.calls import Overdue, call_with_time_limit
from evolvent.core.errors import BadInput, EnvError, closest
from evolvent.core.rounding import inside
from evolvent.envs.text._rows import Row


@dataclass(frozen=True)
class Grade:
    """A reward function, its range, and the seconds that it may take."""

    function: Callable[..., Any]
    low: float
    high: float
    timeout_s: float

    def __call__(self, completion: str, row: Row, where: str, **more: Any) -> float:
        """The reward of an answer to a row.

        Raises:
            EnvError: the function failed, took too long, or returned something that is no number in the range.
        """
        args, named = _arguments(self._lists, completion, row, more)
        try:
            value = call_with_time_limit(lambda: self.function(*args, **named), self.timeout_s)
        except Overdue as error:
            got = f"nothing within {self.timeout_s:g} s"
            do = "give it a limit of its own, or set REWARD_TIMEOUT_S in its file"
            raise EnvError("the reward function took too long", got=got, where=where, do=do) from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit, a cancelled coroutine, what pytest raises: none of them ends the run
            got = f"{type(error).__name__}: {error}"
            do = "let it return 0 for an answer that it cannot read"
            raise EnvError("the reward function failed", got=got, where=where, do=do) from error
        earned = inside(_number(value, self._lists), self.low, self.high)
        if math.isnan(earned):
            expected = f"a number from {self.low:g} to {self.high:g}"
            expected = f"a list with {expected} for each completion" if self._lists else expected
            do = "mend the function, or set REWARD_RANGE in its file"
            raise EnvError("not a reward", got=repr(value), expected=expected, where=where, do=do)
        return earned

    @property
    def _lists(self) -> bool:
        return takes_lists(self.function)

    def check_takes(self, rows: Sequence[Row], where: str, *, calls: bool) -> None:
        """The function takes the keys of every row, and the calls where there are tools.

        Raises:
            BadInput: it does not, or a key of a row has the name of something else that it gets.
        """
        given = dict.fromkeys(("prompts", "completions") if self._lists else (), "what is graded")
        for name, what in {**given, **({"calls": "the calls of tools"} if calls else {})}.items():
            if any(name in row for row in rows):
                raise BadInput(f"a row has a key that names {what}", got=name, where=where, do="rename it")
        known, more = inspect.signature(self.function), {"calls": []} if calls else {}
        for keys in {tuple(row) for row in rows}:
            args, given = _arguments(self._lists, "", {"prompt": "", **dict.fromkeys(keys)}, more)
            try:
                known.bind(*args, **given)
            except TypeError as error:
                what = "calls" if calls and "calls" in str(error) else "keys of a row"
                taken = ", ".join((*(("completion", "prompt") if args else ()), *given))
                raise BadInput(
                    f"the reward function does not take the {what}",
                    got=f"reward{known}: {error}",
                    where=where,
                    expected=f"def reward({taken})",
                    do="or let it take **rest",
                ) from error


@dataclass(frozen=True)
class Rewards:
    """The reward functions of a task by name ("" of the only one), their weights, and from which sum it is right."""

    grades: Mapping[str, Grade]
    weights: Mapping[str, float]
    success: float = math.inf

    @property
    def low(self) -> float:
        """The least that all can come to."""
        return self._sum({name: min((g.low, g.high), key=self._weighs(name)) for name, g in self.grades.items()})

    @property
    def high(self) -> float:
        """The most that all can come to."""
        return self._sum({name: max((g.low, g.high), key=self._weighs(name)) for name, g in self.grades.items()})

    def __call__(self, completion: str, row: Row, where: str, **more: Any) -> tuple[float, dict[str, float]]:
        """The reward of an answer to a row, and each by its name where they have names.

        Raises:
            EnvError: as of ``Grade``.
        """
        each = {
            name: grade(completion, row, f"{where}, {name}" if name else where, **more)
            for name, grade in self.grades.items()
        }
        return inside(self._sum(each), self.low, self.high), self._named(each)

    def lowest(self) -> tuple[float, dict[str, float]]:
        """The same of an attempt without an answer."""
        each = {name: min((g.low, g.high), key=self._weighs(name)) for name, g in self.grades.items()}
        return self.low, self._named(each)

    def _named(self, each: dict[str, float]) -> dict[str, float]:
        return {name: value for name, value in each.items() if name}

    def _weighs(self, name: str) -> Callable[[float], float]:
        return lambda value: self.weights[name] * value

    def _sum(self, each: Mapping[str, float]) -> float:
        return math.fsum(self.weights[name] * value for name, value in each.items())


def rewards_of(module: ModuleType, bounds: tuple[float, float], timeout_s: float, where: str) -> Rewards:
    """The reward functions of a file; ``bounds`` and ``timeout_s`` are those of each.

    Raises:
        BadInput: there is none, or a weight that is none or of no reward.
    """
    one, several = getattr(module, "reward", None), getattr(module, "REWARDS", None)
    if one is not None and several is not None:
        do = "put it into REWARDS under a name"
        raise BadInput("reward and REWARDS in one file", got="both", expected="one of them", where=where, do=do)
    if several is None:
        if not callable(one):
            expected = "def reward(completion, prompt, **rest), or REWARDS = {name: function}"
            raise BadInput("no reward function", got=repr(one)[:100], expected=expected, where=where)
        if hasattr(module, "WEIGHTS"):
            raise BadInput("weights of one reward", got=repr(module.WEIGHTS)[:100], expected="REWARDS", where=where)
        several = {"": one}
    elif not isinstance(several, Mapping) or not several or not all(_is_named(*item) for item in several.items()):
        expected = 'REWARDS = {"name": function, …}, names of letters, digits and _'
        raise BadInput("not rewards by name", got=repr(several)[:100], expected=expected, where=where)
    given = getattr(module, "WEIGHTS", {})
    if not isinstance(given, Mapping):
        raise BadInput("not weights by name", got=repr(given)[:100], expected="WEIGHTS = {name: number}", where=where)
    for name, weight in given.items():
        if name not in several:
            raise BadInput("a weight of no reward", got=name, expected=closest(str(name), list(several)), where=where)
        if isinstance(weight, bool) or not isinstance(weight, numbers.Real) or not math.isfinite(weight):
            raise BadInput("not a weight", got=repr(weight), expected="a finite number", where=f"{where}, {name}")
    weights = {name: float(given.get(name, 1.0)) for name in several}
    if not any(weights.values()):
        raise BadInput("all weights are 0", got=dict(given), expected="a reward to learn from", where=where)
    return Rewards({name: Grade(function, *bounds, timeout_s) for name, function in several.items()}, weights)


def _is_named(name: object, function: object) -> bool:
    return isinstance(name, str) and name.isidentifier() and callable(function)


def takes_lists(function: Callable[..., Any]) -> bool:
    """Whether it is written for trainers of TRL, which call it with lists by name."""
    known = inspect.signature(function).parameters
    by_name = bool(known) and all(one.kind is one.VAR_KEYWORD for one in known.values())
    return by_name or ("completions" in known and "completion" not in known)


def _arguments(lists: bool, completion: str, row: Row, more: Row) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the function is called with."""
    rest = {key: value for key, value in row.items() if key not in ("prompt", "split")} | dict(more)
    if not lists:
        return (completion, row["prompt"]), rest
    said = completion if isinstance(row["prompt"], str) else [{"role": "assistant", "content": completion}]
    return (), {
        "prompts": [row["prompt"]],
        "completions": [said],
        **{key: [value] for key, value in rest.items()},
    }


def _number(value: Any, lists: bool) -> float:
    """What was returned as a number, NaN where it is none; arrays and tensors of one number are one."""
    if lists:
        many = list(value) if isinstance(value, list | tuple) or getattr(value, "ndim", 0) == 1 else []
        value = many[0] if len(many) == 1 else None
    try:
        value = value.item() if hasattr(value, "item") else value
        return float(value) if isinstance(value, numbers.Real | Decimal) else math.nan
    except (TypeError, ValueError, RuntimeError):  # several numbers, or none
        return math.nan
