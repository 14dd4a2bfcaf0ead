"""Environments: ``load("analyst:drift=0.5")`` makes one of tasks, ``load_team("spread:n=3", 32)`` copies of a team's.

Every module here with ``make`` is an environment of tasks; one with ``make_solo`` (one copy) or ``make_team`` (all
copies at once) is a team environment. Nothing is imported before it is asked for.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import functools
import importlib
import inspect
import pkgutil
import re
import traceback
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput, EnvError, EvolventError
from evolvent.core.protocols import Env
from evolvent.core.team import TeamEnv

TASKS, TEAM = "tasks", "team"
_MAKERS = {"make": TASKS, "make_solo": TEAM, "make_team": TEAM}


@dataclass(frozen=True)
class EnvRow:
    """One line of ``evolvent list envs``; ``kind`` is ``"tasks"`` (``load``) or ``"team"`` (``load_team``)."""

    name: str
    kind: str
    summary: str
    options: str


def load(spec: str) -> Env:
    """Make an environment of tasks from ``"name"`` or ``"name:VARIANT,key=value,key=value"``.

    A first part without ``=`` is the variant, e.g. ``"babyai:GoToObj,long=true"``, where the environment has one.
    Values take the type of the option: ``true``/``false``, integers, numbers, text (which may hold commas).

    Raises:
        BadInput: no such environment or option, or a value of another type; names the closest ones.
    """
    where = f"load({spec!r})"
    name, _, options = spec.partition(":")
    _check_kind(name, TASKS, where)
    make = importlib.import_module(f"{__name__}.{name}").make
    return make(**_parse(options, make, where))


def source(spec: str) -> Path | None:
    """The file that the tasks of an environment come from, absolute; ``None`` where they come from the package.

    Raises:
        BadInput: no such environment, option or file.
    """
    where = f"load({spec!r})"
    name, _, options = spec.partition(":")
    _check_kind(name, TASKS, where)
    module = importlib.import_module(f"{__name__}.{name}")
    return module.source(**_parse(options, module.make, where)) if hasattr(module, "source") else None


def load_team(spec: str, n_envs: int, *, workers: int | str = 0) -> TeamEnv:
    """Make ``n_envs`` copies of a team environment from ``"name:VARIANT,key=value,…"``.

    Args:
        spec: as for ``load``; a first part without ``=`` is the variant, e.g. ``"mamujoco:HalfCheetah-6x1,obsk=0"``.
        n_envs: B.
        workers: 0 = in this process; N = N processes over shared memory; ``"ray"`` or ``"ray:N"`` = Ray actors.
            The numbers do not depend on it. Environments that compute all copies at once take 0 only.

    Raises:
        BadInput: no such environment, variant or option; names the closest ones.
        MissingExtra: the package behind it is not installed.
        EnvError: it does not start.
    """
    from evolvent.envs._checked import Checked
    from evolvent.envs._vector import vector

    where = f"load_team({spec!r})"
    name, _, options = spec.partition(":")
    _check_kind(name, TEAM, where)
    if isinstance(n_envs, bool) or not isinstance(n_envs, int) or n_envs < 1:
        raise BadInput("number of copies", got=n_envs, expected="an integer of at least 1", where=where)
    kind, count = _workers(workers, n_envs, where)
    module = importlib.import_module(f"{__name__}.{name}")
    if hasattr(module, "make_solo"):
        solo = functools.partial(module.make_solo, **_parse(options, module.make_solo, where))
        with foreign("the environment does not start", where, "check its options"):
            return Checked(vector(solo, n_envs, kind, count), spec)
    if kind != "here":
        raise BadInput(
            "this environment computes all copies at once, in one process", got=f"workers={workers}",
            expected="workers=0", where=where, do="leave --workers out",
        )  # fmt: skip
    settings = _parse(options, module.make_team, where)
    with foreign("the environment does not start", where, "check its options"):
        return Checked(module.make_team(n_envs=n_envs, **settings), spec)


def available() -> list[EnvRow]:
    """The environments of this package with kind, first line and options; imports none of them."""
    rows = []
    for name, make in _makers().items():
        summary = (ast.get_docstring(_tree(name)) or "").partition("\n")[0]
        rows.append(EnvRow(name, _MAKERS[make.name], summary, _options(make)))
    return rows


def closest(name: str, names: Sequence[str]) -> str:
    """What to expect instead of ``name``: the nearest names, and all of them (of a long list some)."""
    near = difflib.get_close_matches(name, names, n=2, cutoff=0.5)
    known = ", ".join(names) if len(names) <= 40 else f"{', '.join(names[:10])} and {len(names) - 10} more"
    return f"{' or '.join(near)} (of {known})" if near else f"one of {known}"


@contextlib.contextmanager
def foreign(what: str, where: str, do: str = "") -> Iterator[None]:
    """Whatever an environment that is not ours throws becomes an error that names it and keeps its traceback."""
    try:
        yield
    except EvolventError:
        raise
    except Exception as error:
        text = "".join(traceback.format_exception(error)).rstrip()
        raise EnvError(f"{what}\n{text}", where=where, do=do) from error


def _check_kind(name: str, kind: str, where: str) -> None:
    known = {name: _MAKERS[make.name] for name, make in _makers().items()}
    fitting = [other for other, its in known.items() if its == kind]
    if name not in known:
        raise BadInput("unknown environment", got=name, expected=closest(name, fitting), where=where)
    if known[name] != kind:
        words = {TASKS: "an environment of tasks for one agent", TEAM: "a team environment"}
        do = {TASKS: "run it with memlift or another memory method", TEAM: "run it with mat or another team method"}
        raise BadInput(
            f"{name} is {words[known[name]]}", expected=f"{words[kind]}: {', '.join(fitting)}", where=where,
            do=f"{do[known[name]]}; see `evolvent list envs`",
        )  # fmt: skip


def _workers(workers: int | str, n_envs: int, where: str) -> tuple[str, int]:
    """Where the copies live and in how many groups: ``("here", 1)``, ``("processes", N)``, ``("ray", N or 0)``."""
    place, _, count = str(workers).partition(":")
    number = count if place == "ray" else place
    if (number.isdecimal() or (place == "ray" and not count)) and int(number or 0) <= n_envs:
        if place == "ray":
            return "ray", int(number or 0)
        return ("processes", int(number)) if int(number) else ("here", 1)
    raise BadInput("workers", got=workers, expected=f"0 to {n_envs} (one copy each), ray or ray:N", where=where)


@functools.cache
def _makers() -> dict[str, ast.FunctionDef]:
    found = {m.name: _make(_tree(m.name)) for m in pkgutil.iter_modules([str(Path(__file__).parent)])}
    return {name: make for name, make in found.items() if make is not None and name[0] != "_"}


def _tree(name: str) -> ast.Module:
    return ast.parse((Path(__file__).parent / f"{name}.py").read_text("utf-8"))


def _make(tree: ast.Module) -> ast.FunctionDef | None:
    return next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in _MAKERS), None)


def _options(make: ast.FunctionDef) -> str:
    args = (*make.args.args, *make.args.kwonlyargs)
    defaults: list[ast.expr | None] = [*make.args.defaults, *make.args.kw_defaults]
    defaults = [None] * (len(args) - len(defaults)) + defaults
    words = []
    for arg, default in zip(args, defaults, strict=True):
        if arg.arg == "variant":
            words.append("VARIANT" if default is None else f"VARIANT={ast.unparse(default)}")
        elif arg.arg != "n_envs":
            words.append(f"{arg.arg}={ast.unparse(default) if default else '…'}")
    return ", ".join(words)


def _parse(options: str, make: Callable[..., Any], where: str) -> dict[str, Any]:
    types = {name: kind for name, kind in typing.get_type_hints(make).items() if name not in ("return", "n_envs")}
    known = inspect.signature(make).parameters
    values: dict[str, Any] = {}
    # A comma separates options only where "key=" follows, so that a folder's name may hold commas.
    for number, pair in enumerate(filter(None, re.split(r",(?=\s*\w+\s*=)", options))):
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals and number == 0 and "variant" in types:
            key, text = "variant", pair.strip()
        elif not equals:
            raise BadInput("an option without a value", got=pair, expected="key=value", where=where)
        if key not in types:
            raise BadInput("unknown option", got=key, expected=closest(key, list(types) or ["none"]), where=where)
        if key in values:
            raise BadInput("an option given twice", got=key, where=where)
        values[key] = _typed(text, types[key], f"{where}, option {key}")
    missing = [key for key in types if known[key].default is inspect.Parameter.empty and key not in values]
    if missing:
        do = "write NAME:VARIANT" if "variant" in missing else ""
        raise BadInput("an option is missing", expected=", ".join(missing), where=where, do=do)
    return values


def _typed(text: str, kind: Any, where: str) -> Any:
    choices = [choice for choice in (typing.get_args(kind) or (kind,)) if choice is not type(None)]
    if text.lower() == "none" and type(None) in typing.get_args(kind):
        return None
    for choice in choices:
        try:
            if choice is bool:
                return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[text.lower()]
            return choice(text)
        except (ValueError, KeyError):
            continue
    expected = " or ".join(getattr(choice, "__name__", str(choice)) for choice in choices)
    raise BadInput("a value of the wrong type", got=text, expected=expected, where=where)
