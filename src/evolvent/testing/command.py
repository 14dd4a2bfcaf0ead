"""`evolvent check`: whether your environment or credit rule keeps its contract."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from types import SimpleNamespace
from typing import Annotated

from tyro.conf import Positional

from evolvent import catalogue, envs
from evolvent.core.errors import BadInput, closest
from evolvent.core.words import parsed
from evolvent.evaluate.live import Live
from evolvent.testing.credit import check_credit
from evolvent.testing.env import check_env
from evolvent.testing.parallel import oddities
from evolvent.testing.team_env import check_team_env

_WHERE, _STEP_S = "evolvent check", 30.0


def check(
    kind: Annotated[str, Positional],
    name: Annotated[str, Positional],
    *,
    n: int = 4,
    seed: int = 0,
    plain: bool = False,
) -> None:
    """Test whether an environment or a credit rule keeps its contract; reports the first violation.

    Args:
        kind: env or credit.
        name: as for --env or --rule: a name, or file.py[:NAME], with options after it.
        n: tasks to try from each split, or copies of a team environment.
        seed: random seed of tasks and attempts.
        plain: plain text output even on a terminal.
    """
    if kind not in ("env", "credit"):
        hint = closest(kind, ["env", "credit"])
        raise BadInput("nothing of that kind to check", got=kind, expected=hint, where=_WHERE)
    with Live(plain=True if plain else None) as live:
        live.status(f"checking {name}")
        done = _env(name, n, seed, lambda text: live.note(f"! {text}")) if kind == "env" else _credit(name)
        live.note(f"{name} keeps its promises: {', '.join(done)}")


def _env(name: str, n: int, seed: int, warn: Callable[[str], None]) -> list[str]:
    if envs.kind_of(name, _WHERE) == envs.TEAM:
        done = check_team_env(
            lambda copies: envs.load_team(name, copies, step_s=_STEP_S), n_envs=n, seed=seed, ends=False
        )
        with closing(envs.load_team(name, 1, step_s=_STEP_S)) as team:
            for odd in oddities(team, seed=seed):
                warn(odd)
        return done
    with closing(envs.load(name)) as env:
        return check_env(env, n=n, seed=seed, warn=warn)


def _credit(name: str) -> list[str]:
    rule, config = catalogue.rule_with_settings(name)
    source = rule.source
    if not hasattr(source, "assign"):  # a function that says its level itself
        told = {key: getattr(rule, key) for key in ("LEVEL", "UNBIASED", "RECORD")}
        told |= {} if rule.Config is None else {"Config": rule.Config}
        source = SimpleNamespace(assign=source, __doc__=source.__doc__, __name__=rule.name, **told)
    default = rule.Config is None or config == rule.Config()
    return check_credit(source, None if default else config)


COMMANDS = {"check": lambda words: parsed(check, words, "evolvent check")}
