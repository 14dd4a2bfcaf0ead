"""Which tasks a run attempts: as many as there are, and those again where there are too few."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, islice

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Env, Task, distinct
from evolvent.core.seeding import seed_tree
from evolvent.envs.promises import check_splits
from evolvent.runs.language.config import LanguageConfig
from evolvent.runs.language.curriculum import POOL, check_kinds


def some_tasks(env: Env, split: str, n: int, seed: int) -> list[Task]:
    """``n`` tasks; where the environment has fewer, at least half of those it has.

    Raises:
        BadInput: not even one.
    """
    try:
        return env.tasks(split, n, seed)
    except BadInput:
        if n < 2:
            raise
        return some_tasks(env, split, n // 2, seed)


def drawn(env: Env, n: int, seed: int) -> list[Task]:
    """``n`` training tasks, some of them several times where there are too few."""
    return list(islice(cycle(some_tasks(env, "train", n, seed)), n))


def heldout_tasks(env: Env, config: LanguageConfig, note: Callable[[str], None]) -> list[Task]:
    """The tasks of evaluations, no two of them alike; ``note`` is called where there are fewer than asked for."""
    asked = config.plan.eval_tasks
    heldout = distinct(some_tasks(env, "heldout", asked, config.seed))
    if len(heldout) < asked:
        some = f"evaluations attempt {len(heldout)}, with sampled answers {len(repeated(heldout, asked))} times in all"
        note(f"{config.env} has fewer than {asked} held-out tasks: {some}")
    return heldout


def run_tasks(env: Env, config: LanguageConfig, note: Callable[[str], None]) -> tuple[list[Task], list[Task]]:
    """The tasks of all updates, in order, or those that a curriculum draws from, and those that are held out, no two of
    them alike.

    ``note`` is called where there are fewer than asked for: training tasks repeat, held-out ones do not.

    Raises:
        BadInput: there is none, or some are in both.
    """
    wanted, seed = config.updates * config.prompts, seed_tree(config.seed, "tasks") % 2**31
    if config.plan.curriculum == "none":
        train = drawn(env, wanted, seed)
    else:
        wanted, train = 0, distinct(some_tasks(env, "train", POOL, seed))
        check_kinds(config, train)
    if (different := len(distinct(train))) < wanted:
        note(f"{config.env} has fewer than {wanted} different training tasks: {different}, which come again and again")
    heldout = heldout_tasks(env, config, note)
    check_splits(env, distinct(train), heldout)
    return train, heldout


def repeated(tasks: list[Task], n: int) -> list[Task]:
    """All tasks equally often: about ``n`` in all, each at least once."""
    return tasks * max(1, n // len(tasks))
