"""``check_env``: an environment proves that it keeps the promises of ``evolvent.core.protocols.Env``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Correction, Env, Task, Turn, members

Act = Callable[[Task, Turn], str]
MAX_STEPS = 200


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
        BadInput: the first promise that is broken, with what was seen.
    """
    done: list[str] = []
    for check in (_attributes, _tasks, _splits, _attempts, _reviewer, _passes):
        check(env, n, seed, act or _default_act)
        done.append(check.__name__.strip("_"))
    return done


def _attributes(env: Env, n: int, seed: int, act: Act) -> None:
    _check(
        env,
        isinstance(env, Env),
        "members of the protocol are missing",
        [m for m in members(Env) if not hasattr(env, m)],
    )
    low, high = env.reward_range
    _check(env, math.isfinite(low) and math.isfinite(high) and low < high, "reward_range", env.reward_range)
    _check(
        env, bool(env.name) and isinstance(env.instructions, str), "name or instructions", (env.name, env.instructions)
    )
    _check(env, len(env.labels) == 2 and all(env.labels), "labels are two words", env.labels)
    _check(env, env.max_tokens > 0 and all(env.stop), "stop or max_tokens", (env.stop, env.max_tokens))


def _tasks(env: Env, n: int, seed: int, act: Act) -> None:
    for split in ("train", "heldout"):
        tasks = env.tasks(split, n, seed)
        _check(env, len(tasks) == n, f"tasks({split!r}, {n}) gives another number", len(tasks))
        _check(env, len({task.id for task in tasks}) == n, "task ids repeat", [task.id for task in tasks])
        _check(env, tasks == env.tasks(split, n, seed), "the same seed gives other tasks", split)
        _check(env, len(env.tasks(split, n - 1, seed)) == n - 1, "a smaller n is not honoured", n - 1)
        for task in tasks:
            _check(env, task.split == split and bool(task.text), "a task without its split or text", task)
            _check(env, _is_json(dict(task.meta)), "meta is not JSON", task.meta)
    try:
        env.tasks("no such split", n, seed)
    except BadInput:
        return
    _check(env, False, "an unknown split is accepted", "no such split")


def _splits(env: Env, n: int, seed: int, act: Act) -> None:
    train = {task.id for s in range(3) for task in env.tasks("train", n, seed + s)}
    held = {task.id for s in range(3) for task in env.tasks("heldout", n, seed + s)}
    _check(env, not train & held, "train and heldout share tasks", sorted(train & held)[:3])


def _attempts(env: Env, n: int, seed: int, act: Act) -> None:
    low, high = env.reward_range
    for split in ("train", "heldout"):
        for task in env.tasks(split, n, seed):
            turns, actions = _play(env, task, seed, act)
            total = sum(turn.reward for turn in turns)
            _check(env, low - 1e-9 <= total <= high + 1e-9, f"total reward outside {env.reward_range}", total)
            again, _ = _play(env, task, seed, iter_act(actions))
            _check(env, [_essence(t) for t in turns] == [_essence(t) for t in again], "not reproducible", task.id)


def _play(env: Env, task: Task, seed: int, act: Act) -> tuple[list[Turn], list[str]]:
    turn = env.reset(task, seed)
    _check(env, not turn.done and not turn.success, "an attempt that has ended at reset", task.id)
    turns, actions = [turn], []
    while not turn.done:
        _check(env, len(actions) < MAX_STEPS, f"no end after {MAX_STEPS} steps", task.id)
        commands = turn.admissible
        _check(env, commands is None or len(set(commands)) == len(commands) > 0, "admissible", commands)
        actions.append(act(task, turn))
        turn = env.step(actions[-1])
        _check(env, math.isfinite(turn.reward) and bool(turn.observation), "a reward or observation", turn)
        turns.append(turn)
    try:
        env.step(actions[-1])
    except EnvError:
        return turns, actions
    _check(env, False, "a step after the end is accepted (an EnvError is expected)", task.id)
    return turns, actions


def iter_act(actions: list[str]) -> Act:
    """An ``act`` that replays recorded actions."""
    rest = iter(actions)
    return lambda _task, _turn: next(rest)


def _reviewer(env: Env, n: int, seed: int, act: Act) -> None:
    for task in env.tasks("train", n, seed):
        first = env.review(task, seed)
        _check(env, first == env.review(task, seed), "the reviewer changes the answer for one seed", first)
        if first is not None:
            _check(env, isinstance(first, Correction) and bool(first.body.strip()), "a correction without body", first)


def _passes(env: Env, n: int, seed: int, act: Act) -> None:
    for number in (1, 2, 1):
        env.advance(number)


def _default_act(_task: Task, turn: Turn) -> str:
    return turn.admissible[0] if turn.admissible else "no answer"


def _essence(turn: Turn) -> tuple[Any, ...]:
    return (turn.observation, turn.admissible, turn.reward, turn.terminated, turn.truncated, turn.success, turn.key)


def _is_json(value: object) -> bool:
    try:
        return json.loads(json.dumps(value, allow_nan=False)) == value
    except (TypeError, ValueError):
        return False


def _check(env: Env, holds: bool, what: str, got: object) -> None:
    if not holds:
        raise BadInput(f"the environment breaks its protocol: {what}", got=got, where=getattr(env, "name", repr(env)))
