"""``check_env``: an environment proves that it keeps the promises of ``evolvent.core.protocols.Env``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Correction, Env, Task, Turn, members
from evolvent.testing._broken import Promise

Act = Callable[[Task, Turn], str]
MAX_STEPS = 200
_TURN = {
    "observation": str, "terminated": bool, "truncated": bool, "success": bool, "valid": bool, "key": str,
    "follows": bool,
}  # fmt: skip


def check_env(env: Env, *, n: int = 4, seed: int = 0, act: Act | None = None) -> list[str]:
    """Check an environment and return the names of the checks it passed. Leaves it open.

    Args:
        env: the environment.
        n: tasks of each split to look at.
        seed: of the tasks and of the attempts.
        act: chooses an action for a turn; default: the first admissible command, or the text "no answer".

    Checked: the attributes; tasks by split and seed (number, unique ids, the same again, JSON values, a longer list
    for a larger ``n``, disjoint splits, unknown split refused); attempts (fresh at reset, admissible commands, one end,
    total reward within ``reward_range``, nothing after the end, the same again with the same actions); the reviewer
    (the same answer for the same seed, a body of text); passes (``advance`` may be called at any time).

    Raises:
        BadInput: the first promise that is broken: what was got, what was expected, where, and what to do.
    """
    name = getattr(env, "name", None)
    promise = Promise(f"environment {name if isinstance(name, str) and name else type(env).__name__}")
    done: list[str] = []
    for check in (_attributes, _tasks, _splits, _attempts, _reviewer, _passes):
        check(env, n, seed, act or _default_act, promise)
        done.append(check.__name__.strip("_"))
    return done


def _attributes(env: Env, n: int, seed: int, act: Act, promise: Promise) -> None:
    missing = [m for m in members(Env) if not hasattr(env, m)]
    do = f"give the class {type(env).__name__} " + ", ".join(missing)
    promise.holds(not missing, "members of the protocol are missing", missing, ", ".join(members(Env)), do=do)
    for method in ("tasks", "reset", "step", "review", "advance", "close"):
        promise.holds(callable(getattr(env, method)), f"{method} is not a method", getattr(env, method), "a method")
    bounds = env.reward_range
    pair = isinstance(bounds, tuple | list) and len(bounds) == 2 and all(map(_is_number, bounds))
    promise.holds(
        pair and bounds[0] < bounds[1], "reward_range", bounds, "two finite numbers, the smaller first: (0.0, 1.0)"
    )
    promise.holds(isinstance(env.name, str) and bool(env.name), "name", env.name, "a word")
    promise.holds(isinstance(env.instructions, str), "instructions", env.instructions, 'text, "" for none')
    promise.holds(_words(env.labels) and len(env.labels) == 2, "labels are two words", env.labels, '("Q", "A")')
    promise.holds(_words(env.stop) and not isinstance(env.stop, str), "stop", env.stop, 'a tuple of texts: ("\\n",)')
    tokens = env.max_tokens
    whole = isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0
    promise.holds(whole, "max_tokens", tokens, "a whole number above 0")


def _tasks(env: Env, n: int, seed: int, act: Act, promise: Promise) -> None:
    for split in ("train", "heldout"):
        call = f"tasks({split!r}, {n}, {seed})"
        tasks = _asked(env, split, n, seed, promise)
        promise.holds(len(tasks) == n, f"{call} gives another number", len(tasks), n)
        ids = [task.id for task in tasks]
        promise.holds(len(set(ids)) == n, "task ids repeat", ids, "a name of its own for each task", call)
        again = _asked(env, split, n, seed, promise)
        do = "draw tasks from numpy.random.default_rng(seed), not from a shared random state"
        promise.holds(tasks == again, "the same seed gives other tasks", split, "the same tasks", call, do)
        fewer = len(_asked(env, split, n - 1, seed, promise))
        promise.holds(fewer == n - 1, "a smaller n is not honoured", fewer, n - 1, call)
        for task in tasks:
            fits = task.split == split and isinstance(task.text, str) and bool(task.text)
            promise.holds(fits, "a task without its split or text", task, f"split={split!r} and a text", call)
            promise.holds(_is_json(task.meta), "meta is not JSON", task.meta, "JSON values", f"task {task.id}")
    try:
        env.tasks("no such split", n, seed)
    except BadInput:
        return
    except Exception as error:
        do = 'raise BadInput("unknown split", got=split)'
        raise promise.failure("tasks('no such split', …)", error, "BadInput", do) from error
    promise.holds(False, "an unknown split is accepted", "tasks", "BadInput", "tasks('no such split', …)",
                  'raise BadInput("unknown split", got=split)')  # fmt: skip


def _asked(env: Env, split: str, n: int, seed: int, promise: Promise) -> list[Task]:
    call = f"tasks({split!r}, {n}, {seed})"
    tasks = promise.called(call, lambda: env.tasks(split, n, seed))
    promise.holds(isinstance(tasks, list), f"{call} is no list", tasks, "a list of evolvent.core.protocols.Task")
    wrong = [task for task in tasks if not isinstance(task, Task)]
    promise.holds(not wrong, f"{call} holds something else than tasks", wrong[:1], "evolvent.core.protocols.Task")
    return tasks


def _splits(env: Env, n: int, seed: int, act: Act, promise: Promise) -> None:
    train, held = (
        {task.id for s in range(3) for task in _asked(env, split, n, seed + s, promise)}
        for split in ("train", "heldout")
    )
    promise.holds(
        not train & held, "train and heldout share tasks", sorted(train & held)[:3], "no task in both", "tasks",
        "draw held-out tasks from others than those of training, whatever the seed",
    )  # fmt: skip


def _attempts(env: Env, n: int, seed: int, act: Act, promise: Promise) -> None:
    low, high = env.reward_range
    for split in ("train", "heldout"):
        for task in env.tasks(split, n, seed):
            turns, actions = _play(env, task, seed, act, promise)
            total = math.fsum(turn.reward for turn in turns)
            where = f"task {task.id}, {len(actions)} steps"
            promise.holds(
                low - 1e-9 <= total <= high + 1e-9, f"total reward outside {env.reward_range}", total,
                "a sum of the rewards of one attempt within reward_range", where, "widen reward_range",
            )  # fmt: skip
            again, _ = _play(env, task, seed, iter_act(actions), promise)
            for t, (one, other) in enumerate(zip(turns, again, strict=False)):
                differs = [name for name in _ESSENCE if getattr(one, name) != getattr(other, name)]
                promise.holds(
                    not differs, "not reproducible: the same task, seed and actions show something else",
                    {name: (getattr(one, name), getattr(other, name)) for name in differs}, "the same turn",
                    f"task {task.id}, turn {t}", "set up everything in reset(task, seed)",
                )  # fmt: skip
            promise.holds(
                len(turns) == len(again), "not reproducible", (len(turns), len(again)), "as many turns", where
            )


_ESSENCE = ("observation", "admissible", "reward", "terminated", "truncated", "success", "key")


def _play(env: Env, task: Task, seed: int, act: Act, promise: Promise) -> tuple[list[Turn], list[str]]:
    where = f"reset(task {task.id}, {seed})"
    turn = _turn(promise.called(where, lambda: env.reset(task, seed)), where, promise)
    promise.holds(
        not turn.done and not turn.success, "an attempt that has ended at reset", turn, "a turn that goes on", where
    )
    turns, actions = [turn], list[str]()
    while not turn.done:
        promise.holds(
            len(actions) < MAX_STEPS, f"no end after {MAX_STEPS} steps", turn, "terminated or truncated", where,
            "set truncated=True at a limit of steps",
        )  # fmt: skip
        action = act(task, turn)
        actions.append(action)
        where = f"step({action!r}), step {len(actions)} of task {task.id}"
        turn = _turn(promise.called(where, lambda action=action: env.step(action)), where, promise)
        turns.append(turn)
    do = 'raise EnvError("the attempt has ended") when step is called after the end'
    try:
        env.step(actions[-1])
    except EnvError:
        return turns, actions
    except Exception as error:
        raise promise.failure("step after the end", error, "EnvError", do) from error
    promise.holds(False, "a step after the end is accepted", "a turn", "EnvError", f"task {task.id}", do)
    return turns, actions


def _turn(turn: Any, where: str, promise: Promise) -> Turn:
    """What was returned is a turn with values of the right types."""
    promise.holds(isinstance(turn, Turn), "not a turn", turn, "evolvent.core.protocols.Turn(observation, …)", where)
    for name, kind in _TURN.items():
        value = getattr(turn, name)
        # bool of numpy is none: it cannot be written as JSON
        promise.holds(isinstance(value, kind), f"{name} of a turn", repr(value), kind.__name__, where)
    promise.holds(bool(turn.observation), "an empty observation", turn, "a text", where)
    promise.holds(_is_number(turn.reward), "a reward", repr(turn.reward), "a finite number", where)
    promise.holds(
        not (turn.terminated and turn.truncated), "terminated and truncated at once", turn, "one of them", where
    )
    promise.holds(
        not turn.success or turn.done, "success of an attempt that goes on", turn, "success at the end", where
    )
    commands = turn.admissible
    fits = commands is None or (isinstance(commands, tuple) and all(isinstance(c, str) and c for c in commands))
    promise.holds(fits, "admissible", repr(commands), "a tuple of texts, or None", where)
    promise.holds(
        turn.done or commands is None or len(commands) > 0, "admissible is empty", commands,
        "at least one command, or None where any text is an action", where, "end the attempt where nothing can be done",
    )  # fmt: skip
    promise.holds(commands is None or len(set(commands)) == len(commands), "admissible repeats", commands,
                  "each command once", where)  # fmt: skip
    return turn


def iter_act(actions: list[str]) -> Act:
    """An ``act`` that replays recorded actions."""
    rest = iter(actions)
    return lambda _task, _turn: next(rest, actions[-1] if actions else "")


def _reviewer(env: Env, n: int, seed: int, act: Act, promise: Promise) -> None:
    for task in env.tasks("train", n, seed):
        where = f"review(task {task.id}, {seed})"
        first = promise.called(where, lambda task=task: env.review(task, seed))
        again = promise.called(where, lambda task=task: env.review(task, seed))
        promise.holds(
            first is None or isinstance(first, Correction),
            "the answer of the reviewer",
            first,
            "Correction or None",
            where,
        )
        promise.holds(first == again, "the reviewer changes the answer for one seed", (first, again), "the same", where)
        promise.holds(
            first is None or (isinstance(first.body, str) and bool(first.body.strip())), "a correction without body",
            first, "a text, or None instead of a correction", where,
        )  # fmt: skip


def _passes(env: Env, n: int, seed: int, act: Act, promise: Promise) -> None:
    for number in (1, 2, 1):
        promise.called(f"advance({number})", lambda number=number: env.advance(number))


def _default_act(_task: Task, turn: Turn) -> str:
    return turn.admissible[0] if turn.admissible else "no answer"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _words(value: Any) -> bool:
    return isinstance(value, Iterable) and all(isinstance(word, str) and word for word in value)


def _is_json(value: Any) -> bool:
    try:
        return json.loads(json.dumps(dict(value), allow_nan=False)) == value
    except (TypeError, ValueError):
        return False
