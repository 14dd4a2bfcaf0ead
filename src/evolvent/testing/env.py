"""``check_env``: an environment proves that it keeps the promises of ``evolvent.core.protocols.Env``."""

from __future__ import annotations

import functools
import json
import math
import warnings
from collections.abc import Callable
from typing import Any

from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Env, Task, Turn
from evolvent.envs import promises
from evolvent.envs.promises import Promise

Act = Callable[[Task, Turn], str]
Warn = Callable[[str], object]
MAX_STEPS = 200


def check_env(env: Env, *, n: int = 4, seed: int = 0, act: Act | None = None, warn: Warn = warnings.warn) -> list[str]:
    """Check an environment and return the names of the checks it passed. Leaves it open.

    Args:
        env: the environment.
        n: tasks of each split to look at.
        seed: of the tasks and of the attempts.
        act: chooses an action for a turn; default: the first admissible command, or the text "no answer".
        warn: called with what is seldom meant: a split that nobody knows is accepted, an attempt has no end.

    Checked: the attributes; tasks by split and seed (number, unique ids, the same again, JSON values, a longer list
    for a larger ``n``, disjoint splits); attempts (fresh at reset, admissible commands, one end,
    total reward within ``reward_range``, nothing after the end, the same again with the same actions); the reviewer
    (the same answer for the same seed, a body of text, which is tried where any text is an action); passes
    (``advance`` may be called at any time).

    Raises:
        BadInput: the first promise that is broken: what was got, what was expected, where, and what to do.
    """
    promise = promises.promise_of(env)
    done, once = list[str](), functools.cache(warn)
    for check in (_attributes, _tasks, _splits, _attempts, _reviewer, _passes):
        check(env, n, seed, act or _default_act, promise, once)
        done.append(check.__name__.strip("_"))
    return done


def _attributes(env: Env, n: int, seed: int, act: Act, promise: Promise, warn: Warn) -> None:
    promises.check_members(env, promise)


def _tasks(env: Env, n: int, seed: int, act: Act, promise: Promise, warn: Warn) -> None:
    for split in ("train", "heldout"):
        call = f"tasks({split!r}, {n}, {seed})"
        tasks = _asked(env, split, n, seed, promise)
        do = f"where there are no more: --n {len(tasks)}"
        promise.holds(len(tasks) == n, f"{call} gives another number", len(tasks), n, do=do)
        again = _asked(env, split, n, seed, promise)
        do = "draw tasks from numpy.random.default_rng(seed), not from a shared random state"
        promise.holds(tasks == again, "the same seed gives other tasks", split, "the same tasks", call, do)
        fewer = len(_asked(env, split, n - 1, seed, promise))
        promise.holds(fewer == n - 1, "a smaller n is not honoured", fewer, n - 1, call)
        for task in tasks:
            promise.holds(_is_json(task.meta), "meta is not JSON", task.meta, "JSON values", f"task {task.id}")
    try:
        env.tasks("no such split", n, seed)
    except BadInput:
        return
    except Exception as error:
        do = 'raise BadInput("unknown split", got=split)'
        raise promise.failure("tasks('no such split', …)", error, "BadInput", do) from error
    warn(f"{promise.who}: tasks('no such split', …) gives tasks; raise BadInput(\"unknown split\", got=split)")


def _asked(env: Env, split: str, n: int, seed: int, promise: Promise) -> list[Task]:
    call = f"tasks({split!r}, {n}, {seed})"
    tasks = promise.called(call, lambda: env.tasks(split, n, seed))
    promises.check_tasks(tasks, split, n, call, promise)
    return tasks


def _splits(env: Env, n: int, seed: int, act: Act, promise: Promise, warn: Warn) -> None:
    train, held = (
        [task for s in range(3) for task in _asked(env, split, n, seed + s, promise)] for split in ("train", "heldout")
    )
    promises.check_splits(env, list({task.id: task for task in train}.values()), held)


def _attempts(env: Env, n: int, seed: int, act: Act, promise: Promise, warn: Warn) -> None:
    for split in ("train", "heldout"):
        for task in env.tasks(split, n, seed):
            turns, actions = _play(env, task, seed, act, promise, warn)
            where = f"task {task.id}, {len(actions)} steps"
            again, _ = _play(env, task, seed, iter_act(actions), promise, warn)
            for t, (one, other) in enumerate(zip(turns, again, strict=False)):
                differs = [name for name in _ESSENCE if getattr(one, name) != getattr(other, name)]
                promise.holds(
                    not differs,
                    "not reproducible: the same task, seed and actions show something else",
                    {name: (getattr(one, name), getattr(other, name)) for name in differs},
                    "the same turn",
                    f"task {task.id}, turn {t}",
                    "set up everything in reset(task, seed)",
                )
            promise.holds(
                len(turns) == len(again), "not reproducible", (len(turns), len(again)), "as many turns", where
            )


_ESSENCE = ("observation", "admissible", "reward", "terminated", "truncated", "success", "key")


def _play(env: Env, task: Task, seed: int, act: Act, promise: Promise, warn: Warn) -> tuple[list[Turn], list[str]]:
    where = f"reset(task {task.id}, {seed})"
    turn = promise.called(where, lambda: env.reset(task, seed))
    promises.check_turn(turn, where, promise)
    promises.check_begin(turn, where, promise)
    turns, actions = [turn], list[str]()
    while not turn.done:
        if len(actions) == MAX_STEPS:
            warn(
                f"{promise.who}: an attempt has no end after {MAX_STEPS} steps; set terminated=True at the last turn, "
                "or truncated=True at a limit of steps; runs cut it off where nothing changes any more"
            )
            return turns, actions
        action = act(task, turn)
        actions.append(action)
        where = f"step({action!r}), step {len(actions)} of task {task.id}"
        turn = promise.called(where, lambda action=action: env.step(action))
        promises.check_turn(turn, where, promise)
        turns.append(turn)
    promises.check_end(turn, math.fsum(turn.reward for turn in turns), env.reward_range, where, promise)
    do = 'raise EnvError("the attempt has ended") when step is called after the end'
    try:
        env.step(actions[-1])
    except EnvError:
        return turns, actions
    except Exception as error:
        raise promise.failure("step after the end", error, "EnvError", do) from error
    promise.holds(False, "a step after the end is accepted", "a turn", "EnvError", f"task {task.id}", do)
    return turns, actions


def iter_act(actions: list[str]) -> Act:
    """An ``act`` that replays recorded actions."""
    rest = iter(actions)
    return lambda _task, _turn: next(rest, actions[-1] if actions else "")


def _reviewer(env: Env, n: int, seed: int, act: Act, promise: Promise, warn: Warn) -> None:
    for task in env.tasks("train", n, seed):
        where = f"review(task {task.id}, {seed})"
        first = promise.called(where, lambda task=task: env.review(task, seed))
        again = promise.called(where, lambda task=task: env.review(task, seed))
        promises.check_correction(first, where, promise)
        if first is not None and env.reset(task, seed).admissible is None:  # what is right pays, and is a success
            _play(env, task, seed, lambda _task, _turn, first=first: first.body, promise, warn)
        promise.holds(first == again, "the reviewer changes the answer for one seed", (first, again), "the same", where)


def _passes(env: Env, n: int, seed: int, act: Act, promise: Promise, warn: Warn) -> None:
    for number in (1, 2, 1):
        promise.called(f"advance({number})", lambda number=number: env.advance(number))


def _default_act(_task: Task, turn: Turn) -> str:
    return turn.admissible[0] if turn.admissible else "no answer"


def _is_json(value: Any) -> bool:
    try:
        return json.loads(json.dumps(dict(value), allow_nan=False)) == value
    except (TypeError, ValueError):
        return False
