"""What an environment of tasks promises (``core.protocols.Env``), and how a broken promise is reported.

``testing.env.check_env`` tries all of them; ``envs.checked`` holds an environment of yours to those that show while it
runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from evolvent.core.errors import BadInput, EvolventError
from evolvent.core.outside import line_of
from evolvent.core.protocols import Correction, Env, Task, Turn, members
from evolvent.core.rounding import inside, reaches

T = TypeVar("T")
_TURN = {
    "observation": str,
    "terminated": bool,
    "truncated": bool,
    "success": bool,
    "valid": bool,
    "key": str,
    "follows": bool,
}

BROKEN = "the environment breaks its protocol"
"""How every error about a promise begins."""
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


class Promise:
    """Says what is wrong with an environment, ``who``: what was got, what was expected, where, what to do.

    ``home`` is its file or module, where that is known.
    """

    def __init__(self, who: str, home: str = "") -> None:
        self.who, self.home = who, home

    def holds(
        self, holds: object, what: str, got: object, expected: object = "", where: str = "", do: str = ""
    ) -> None:
        """Raise ``BadInput`` where it does not hold."""
        if not holds:
            place = f"{self.who}{f' of {self.home}' if self.home else ''}{', ' if where else ''}{where}"
            shown = "None" if got is None else got
            raise BadInput(f"{BROKEN}: {what}", got=shown, expected=expected, where=place, do=do)

    def text(self, name: str, text: str, where: str) -> None:
        """No zero byte and no lone surrogate: files and stores refuse them, hours later."""
        odd = _NO_TEXT.search(text)
        self.holds(
            odd is None,
            f"{name} holds {'a zero byte' if odd and odd[0] == chr(0) else 'half a character'}",
            ascii(text[max(0, odd.start() - 20) : odd.start() + 20]) if odd else "",
            "text that UTF-8 can hold",
            where,
            "bytes.decode(errors='replace'), and replace('\\0', '')",
        )

    def called(self, call: str, function: Callable[[], T]) -> T:
        """What the environment's ``function`` returns; what it raises becomes an error with its line, once."""
        try:
            return function()
        except BadInput as error:
            if error.what.startswith(BROKEN):
                raise
            raise self.failure(call, error, "no exception") from error
        except (Exception, SystemExit) as error:
            raise self.failure(call, error, "no exception") from error

    def failure(self, call: str, error: BaseException, expected: str, do: str = "") -> BadInput:
        """The error for an exception that should not have been, or should have been another."""
        got, place = str(error) or repr(error), line_of(error, self.home)
        if isinstance(error, EvolventError):  # it says itself where it arose
            got, place = ": ".join(filter(None, (error.what, str(error.got)))), error.where or place
            expected = str(error.expected) or expected
        return BadInput(
            f"{BROKEN}: {call} raises {type(error).__name__}",
            got=got,
            expected=expected,
            where=f"{self.who}, {place}",
            do=do or getattr(error, "do", ""),
        )


def promise_of(env: Env) -> Promise:
    """That of an environment, by its name, and by its ``home`` where it has one."""
    name = getattr(env, "name", None)
    named = name if isinstance(name, str) and name else type(env).__name__
    return Promise(f"environment {named}", getattr(env, "home", ""))


# ------------------------------------------------------------------------------------------------ what is promised
def check_members(env: Env, promise: Promise) -> None:
    """The attributes and methods are there and of the right kind."""
    missing = [m for m in members(Env) if not hasattr(env, m)]
    do = f"give the class {type(env).__name__} " + ", ".join(missing)
    promise.holds(not missing, "members of the protocol are missing", missing, ", ".join(members(Env)), do=do)
    for method in ("tasks", "reset", "step", "review", "advance", "close"):
        promise.holds(callable(getattr(env, method)), f"{method} is not a method", getattr(env, method), "a method")
    bounds = env.reward_range
    pair = isinstance(bounds, tuple | list) and len(bounds) == 2 and all(map(is_number, bounds))
    promise.holds(
        pair and bounds[0] < bounds[1], "reward_range", bounds, "two finite numbers, the smaller first: (0.0, 1.0)"
    )
    promise.holds(isinstance(env.name, str) and bool(env.name), "name", env.name, "a word")
    promise.holds(isinstance(env.instructions, str), "instructions", env.instructions, 'text, "" for none')
    promise.holds(_texts(env.labels) and len(env.labels) == 2, "labels are two words", env.labels, '("Q", "A")')
    promise.holds(_texts(env.stop) and not isinstance(env.stop, str), "stop", env.stop, 'a tuple of texts: ("\\n",)')
    tokens = env.max_tokens
    whole = isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0
    promise.holds(whole, "max_tokens", tokens, "a whole number above 0")


def check_tasks(tasks: Any, split: str, n: int, where: str, promise: Promise) -> None:
    """Tasks of the split, at least one and at most ``n``, each with an id of its own and a text."""
    do = "return [Task(id, text, split=split), …]"
    promise.holds(
        isinstance(tasks, list), f"{where} is no list", tasks, "a list of evolvent.core.protocols.Task", "", do
    )
    wrong = [task for task in tasks if not isinstance(task, Task)]
    promise.holds(not wrong, f"{where} holds something else than tasks", wrong[:1], "evolvent.core.protocols.Task")
    do = f"end with return tasks[:n], and raise BadInput where there is none of {split!r}"
    promise.holds(min(n, 1) <= len(tasks) <= n, f"{where} gives another number", len(tasks), f"1 to {n}", do=do)
    ids = [task.id for task in tasks]
    promise.holds(len(set(ids)) == len(ids), "task ids repeat", ids, "a name of its own for each task", where)
    for task in tasks:
        fits = task.split == split and isinstance(task.text, str) and bool(task.text)
        promise.holds(fits, "a task without its split or text", task, f"split={split!r} and a text", where)
        promise.text("the text of a task", task.text, where)


def check_splits(env: Env, train: Sequence[Task], heldout: Sequence[Task]) -> None:
    """No task is in both splits, under whatever id: what is held out would have been seen.

    Raises:
        BadInput: names some of them.
    """
    promise, ids, seen = promise_of(env), {task.id for task in train}, {task.text for task in train}
    do = "draw held-out tasks from others than those of training, whatever the seed, with other ids"
    both = [task.id for task in heldout if task.id in ids]
    if not both and len(seen) == len(train) > 1:  # texts tell tasks apart here
        known = [(task.text, task.seed, task.meta) for task in train]
        both = [task.id for task in heldout if task.text in seen and (task.text, task.seed, task.meta) in known]
    promise.holds(not both, "train and heldout share tasks", both[:3], "no task in both", "tasks", do)


def check_turn(turn: Any, where: str, promise: Promise) -> None:
    """A turn with values of the right types, which do not contradict one another."""
    do = "return Turn(text, reward=…, success=…, terminated=True), with what is wanted of it"
    promise.holds(isinstance(turn, Turn), "not a turn", turn, "evolvent.core.protocols.Turn(observation, …)", where, do)
    for name, kind in _TURN.items():
        value, is_one = getattr(turn, name), kind.__name__
        # bool of numpy is none: it cannot be written as JSON
        do = f"{is_one}(…)" if hasattr(value, "dtype") else ""
        promise.holds(isinstance(value, kind), f"{name} of a turn is no {is_one}", repr(value), is_one, where, do)
    do = "say what the agent sees; only the last turn of an attempt may say nothing"
    promise.holds(turn.done or turn.observation, "an empty observation", turn, "a text", where, do)
    do = "float(…); where nobody can judge, Turn(…, valid=False) or raise EnvError: that attempt does not count"
    promise.holds(is_number(turn.reward), "a reward", repr(turn.reward), "a finite number", where, do)
    both = turn.terminated and turn.truncated
    promise.holds(not both, "terminated and truncated at once", turn, "one of them", where)
    do, at_end = "set terminated=True too", turn.done or not turn.success
    promise.holds(at_end, "success of an attempt that goes on", turn, "success at the end", where, do)
    for name in ("observation", "key"):
        promise.text(f"{name} of a turn", getattr(turn, name), where)
    commands = turn.admissible
    if commands is not None:
        fits = isinstance(commands, tuple) and all(isinstance(c, str) and c for c in commands)
        promise.holds(fits, "admissible is no tuple of texts", repr(commands), "a tuple of texts, or None", where)
        some = "at least one command, or None where any text is an action"
        do = "end the attempt where nothing can be done"
        promise.holds(turn.done or commands, "admissible is empty", commands, some, where, do)
        once = len(set(commands)) == len(commands)
        promise.holds(once, "admissible repeats", commands, "each command once", where)


def check_begin(turn: Turn, where: str, promise: Promise) -> None:
    """An attempt goes on after ``reset``."""
    goes_on = not turn.done and not turn.success
    promise.holds(goes_on, "an attempt that has ended at reset", turn, "a turn that goes on", where)


def check_end(turn: Turn, total: float, bounds: Sequence[float], where: str, promise: Promise) -> None:
    """What an attempt earned in all lies in ``reward_range``, and ``success`` does not contradict it."""
    if not turn.valid:
        return
    low, high = bounds
    within, outside = not math.isnan(inside(total, low, high)), f"total reward outside {(low, high)}"
    sums = "a sum of the rewards of one attempt within reward_range"
    promise.holds(within, outside, total, sums, where, "widen reward_range")
    result = f"reward {total:g} in all, success={turn.success}"
    fits, right = turn.success or not reaches(total, high), "success=True where it is right"
    do = "return Turn(…, success=True), or widen reward_range where more can be earned"
    promise.holds(fits, "the highest reward, and no success", result, right, where, do)
    fits = not turn.success or not reaches(low, total)
    do = "return Turn(…, reward=…) where it is right: memories learn from rewards"
    promise.holds(fits, "a success with the lowest reward", result, f"more than {low:g}", where, do)


def check_correction(answer: Any, where: str, promise: Promise) -> None:
    """What a reviewer hands over is a ``Correction`` with a text, or ``None``."""
    if answer is None:
        return
    fits, do = isinstance(answer, Correction), "return Correction(text) for a text"
    promise.holds(fits, "the reviewer's answer is no Correction", repr(answer), "Correction or None", where, do)
    says = isinstance(answer.body, str) and bool(answer.body.strip())
    promise.holds(says, "a correction without body", answer, "a text, or None instead of a correction", where)
    promise.text("a correction", answer.body, where)


def is_number(value: object) -> bool:
    """A finite number of Python."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _texts(value: Any) -> bool:
    return isinstance(value, Iterable) and all(isinstance(word, str) and word for word in value)
