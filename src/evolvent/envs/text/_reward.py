"""A user's reward function: how it is called, for how long, and what counts as a reward.

    def reward(completion, prompt, **rest): ...            # an answer; the other keys of the row, and calls of tools
    def reward(prompts, completions, **rest): ...          # as trainers of TRL call it, with lists; returns a list

Either may be ``async def``. A function of the second form is recognised by its parameter ``completions``; it gets lists
of one, since attempts end one by one. Where a prompt is messages, so is a completion of the second form, as in TRL.
"""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from evolvent.core.calls import Overdue, call_with_time_limit
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.rounding import inside
from evolvent.envs.text._rows import Row


@dataclass(frozen=True)
class Grade:
    """The reward function, its range, the reward from which an answer is right, and the seconds that it may take."""

    function: Callable[..., Any]
    low: float
    high: float
    success: float
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
