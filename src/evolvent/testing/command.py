"""`evolvent check`: whether your environment, game, credit rule or advantage function keeps its promises."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import numpy as np
from tyro.conf import OmitArgPrefixes, Positional

from evolvent import catalogue, envs
from evolvent.core import outside
from evolvent.core.arguments import parsed
from evolvent.core.errors import BadInput, closest
from evolvent.evaluate.live import Live
from evolvent.testing.advantage import AdvantageReport, Aggregation, Form, check_advantage
from evolvent.testing.credit import check_credit
from evolvent.testing.env import check_env
from evolvent.testing.functions import check_functions
from evolvent.testing.game import check_game
from evolvent.testing.parallel import oddities
from evolvent.testing.team_env import check_team_env

_WHERE, _STEP_S = "evolvent check", 30.0
_KINDS = ("env", "game", "credit", "advantage", "functions")


@dataclass(frozen=True)
class Trainer:
    """How an advantage function is called."""

    form: Form = "verl"
    """Arguments and return value of verl's, trl's or verifiers' (docs/advantage.md)."""
    aggregation: Aggregation = "constant"
    """How the trainer sums its loss."""
    torch: bool = False
    """Give it tensors, not arrays of numpy."""


def check(
    kind: Annotated[str, Positional],
    name: Annotated[str, Positional],
    *,
    n: int = 4,
    seed: int = 0,
    trainer: OmitArgPrefixes[Trainer] = Trainer(),
    baselines: bool = False,
    html: Path | None = None,
    plain: bool = False,
) -> None:
    """Test whether an environment, a game or a credit rule keeps its contract, an advantage function of any trainer
    is biased, or a data set of calls is sound; reports the first violation, or the smallest counterexample (exit
    status 1).

    Example: evolvent check advantage my_rule.py:my_advantage --form verl

    Args:
        kind: env, game, credit, advantage or functions.
        name: as for --env or --rule: a name, or file.py[:NAME], with options after it; of functions the folder.
        n: tasks to try from each split, or copies of a team environment or a game.
        seed: random seed of tasks and attempts.
        trainer: of an advantage function.
        baselines: of functions: what can be had without training, on the held-out rows.
        html: of functions: also write a page to this file, with more of what masking has changed.
        plain: plain text output even on a terminal.
    """
    if kind not in _KINDS:
        hint = closest(kind, _KINDS)
        raise BadInput("nothing of that kind to check", got=kind, expected=hint, where=_WHERE)
    with Live(plain=True if plain else None) as live:
        live.status(f"checking {name}")
        if kind == "functions":
            if not check_functions(Path(name), live, table=baselines, html=html):
                sys.exit(1)
            return
        if kind == "advantage":
            report = _advantage(name, trainer)
            live.note(f"{name}: {report}")
            if report.claim == "biased":
                sys.exit(1)
            return
        if kind == "env":
            done = _env(name, n, seed, lambda text: live.note(f"! {text}"))
        elif kind == "game":
            done = check_game(lambda copies: envs.load_game(name, copies), n_envs=n, seed=seed)
        else:
            done = _credit(name)
        live.note(f"{name} keeps its promises: {', '.join(done)}")


def _env(name: str, n: int, seed: int, warn: Callable[[str], None]) -> list[str]:
    if envs.kind_of(name, _WHERE) == envs.TEAM:
        done = check_team_env(
            lambda copies: envs.load_team(name, copies, step_s=_STEP_S),
            n_envs=n,
            seed=seed,
            ends=False,
            random_start=not envs.is_own(name),
        )
        if "other seed" not in done:  # a world without chance breaks no promise
            warn("every seed gives the same course: right where nothing is left to chance, else reset drops its seed")
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
        declared = {key: getattr(rule, key) for key in ("LEVEL", "UNBIASED", "RECORD")}
        declared |= {} if rule.Config is None else {"Config": rule.Config}
        source = SimpleNamespace(assign=source, __doc__=source.__doc__, __name__=rule.name, **declared)
    default = rule.Config is None or config == rule.Config()
    return check_credit(source, None if default else config)


def _advantage(name: str, trainer: Trainer) -> AdvantageReport:
    at = outside.pointer(name)
    if at is None:
        raise BadInput("no advantage function", got=name, expected="file.py:NAME or package.module:NAME", where=_WHERE)
    _, _, function = outside.load(at, "an advantage function", ("advantage", "compute_advantage"))
    arrays = importlib.import_module("torch").as_tensor if trainer.torch else np.asarray
    with outside.own_faults(at.home, "the advantage function failed"):
        return check_advantage(function, trainer.form, aggregation=trainer.aggregation, arrays=arrays)


COMMANDS = {"check": lambda arguments: parsed(check, arguments, "evolvent check")}
