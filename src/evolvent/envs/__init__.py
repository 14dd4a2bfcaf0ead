"""Environments: ``load("analyst:drift=0.5")`` makes one of tasks, ``load_team("spread:n=3", 32)`` copies of a team's,
``load_game("kuhn", 32)`` copies of a game in turns.

A module of ``text/`` or ``team/`` with ``make`` is an environment of tasks; one with ``make_solo`` (one copy) or
``make_team`` (all copies at once) is a team environment; one of ``games/`` with ``make_game`` is a game in turns. One
of your own is ``file.py``, ``file.py:NAME,key=value`` or ``package.module:NAME`` (``envs.own`` says what may stand
there), and an installed package may bring some (entry points ``evolvent.envs``). Nothing is imported before it is asked
for.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from evolvent.core import outside
from evolvent.core.errors import BadInput, closest
from evolvent.core.protocols import Env, members
from evolvent.core.team import TeamEnv
from evolvent.core.turns import GameEnv
from evolvent.envs import own
from evolvent.envs.checked import CheckedEnv
from evolvent.envs.runners.solo import Solo, foreign

TASKS, TEAM, GAME = "tasks", "team", "game"
_HERE, _ROOMS = Path(__file__).parent, ("text", "team", "games")
_GIVEN = ("self", "n_envs", "load_inner", "in_test")
"""Parameters of makers that are no options."""
_MAKERS = {"make": TASKS, "make_solo": TEAM, "make_team": TEAM, "make_game": GAME}


@dataclass(frozen=True)
class EnvRow:
    """One line of ``evolvent list envs``; ``kind`` is ``"tasks"`` (``load``), ``"team"`` (``load_team``) or ``"game"``
    (``load_game``).
    """

    name: str
    kind: str
    summary: str
    options: str
    package: str = ""
    """The installed package that brings it; ``""`` = this one."""


@dataclass(frozen=True)
class Found:
    """Where an environment is made; ``shape`` is the name of such a function here, ``""`` where that is not known."""

    make: Callable[..., Any]
    shape: str
    options: str
    module: Any
    outside: str
    """The file or module of one that is not of this package; ``""`` otherwise."""

    @property
    def open(self) -> bool:
        """Whether what it makes shows only when it is called."""
        return bool(self.outside) and self.shape in ("", "make")

    def given(self, where: str) -> dict[str, Any]:
        """The options of the spec by name, typed."""
        return _parse(self.options, self.make, where)


def find(spec: str, where: str) -> Found:
    """The maker of an environment; a file is run, nothing is made.

    Raises:
        BadInput: no such environment (names the closest), or a file that does not run.
    """
    at, kind = own.pointer(spec)
    if at is not None:
        shape, make, module, home = own.look(at, kind)
        return Found(make, shape, at.options, module, home)
    name, _, options = spec.partition(":")
    ours = _makers()
    if name in ours:
        module = importlib.import_module(f"{__name__}.{_place(name)}.{name}")
        return Found(getattr(module, ours[name].name), ours[name].name, options, module, "")
    others = outside.brought("envs")
    if name not in others:
        raise BadInput(
            "unknown environment",
            got=name,
            expected=closest(name, [*ours, *others]),
            where=where,
            do=f"write {name}.py{options and ':'}{options}"
            if Path(f"{name}.py").is_file()
            else "see `evolvent list envs`, or give file.py",
        )
    make = others[name].load("an environment")
    if isinstance(make, ModuleType):
        module, attribute = make, next((maker for maker in own.MAKERS if hasattr(make, maker)), "make")
        make = getattr(module, attribute, None)
    else:
        module, attribute = inspect.getmodule(make), others[name].entry.attr
    home = getattr(module, "__file__", None) or name
    shape, make = own.of_maker(attribute, make, home)
    return Found(make, shape, options, module, home)


def check(spec: str, kind: str, where: str) -> None:
    """Refuse what ``load`` or ``load_team`` would refuse by its name and options, without making anything.

    What a function ``make`` of yours returns is looked at by those two.

    Args:
        spec: as for ``load``.
        kind: ``TASKS``, ``TEAM``, ``GAME``, or "" for any.
        where: named in the error.

    Raises:
        BadInput: no such environment, variant or option, or one of another kind.
    """
    (_of_kind(spec, kind, where) if kind else find(spec, where)).given(where)


def kind_of(spec: str, where: str) -> str:
    """``TASKS``, ``TEAM`` or ``GAME``; what ``make`` or a function of another name returns is seen by calling it once.

    Raises:
        BadInput: as ``find``, or it does not start.
    """
    found = find(spec, where)
    given = found.given(where)
    if not found.open:
        return _MAKERS[found.shape]
    with outside.own_faults(found.outside, "the environment does not start"):
        env = found.make(**given)
        if callable(close := getattr(env, "close", None)):
            close()
    return TEAM if own.is_team(env) else TASKS


def load(spec: str) -> Env:
    """Make an environment of tasks from ``"name"`` or ``"name:VARIANT,key=value,key=value"``.

    A first part without ``=`` is the variant, e.g. ``"babyai:GoToObj,long=true"``, where the environment has one.
    Values take the type of the option: ``true``/``false``, integers, numbers, text (which may hold commas). ``[…]``
    around a value keeps options in it together: another spec, ``"NAME:[spread:n=3,limit=9],key=value"``, and so on.

    Raises:
        BadInput: no such environment or option, or a value of another type; names the closest ones.
    """
    where = f"load({spec!r})"
    found = _of_kind(spec, TASKS, where)
    given = found.given(where)
    if not found.outside:
        return found.make(**given)
    with outside.own_faults(found.outside, "the environment does not start"):
        env = found.make(**given)
    if own.is_team(env):
        raise _of_another(spec, TEAM, TASKS, where)
    _check_members(env, Env, "an environment of tasks (evolvent.core.protocols.Env)", found.outside)
    return cast("Env", CheckedEnv(env, found.outside))


def source(spec: str) -> Path | None:
    """The file that the tasks of an environment come from, absolute; ``None`` where they come from the package.

    Raises:
        BadInput: no such environment, option or file.
    """
    at, _ = own.pointer(spec)
    if at is not None and at.file is None:
        return None
    where = f"load({spec!r})"
    found = find(spec, where)
    if at is not None:
        return at.file
    return found.module.source(**found.given(where)) if hasattr(found.module, "source") else None


def with_source(spec: str, file: Path) -> str:
    """``spec`` with another path of the file that ``source`` named."""
    at, kind = own.pointer(spec)
    if at is None:
        name, _, options = spec.partition(":")
        others = [word for word in options.split(",") if re.match(r"\w+=", word) and not word.startswith("variant=")]
        return ",".join([f"{name}:variant={file}", *others])
    said = f"{kind}:variant=" if kind else ""
    return f"{said}{file}{':' if at.name else ''}{at.name}{',' if at.options else ''}{at.options}"


def is_own(spec: str) -> bool:
    """Whether it is none of this package's own environments: a file, a module, one that a package brings, PettingZoo's.

    Nothing is imported or run.
    """
    name = spec.partition(":")[0]
    return name == "pettingzoo" or name not in _makers()


def load_team(
    spec: str,
    n_envs: int,
    *,
    workers: int | str = 0,
    step_s: float = 0.0,
    testing: bool = False,
    around: tuple[Callable[[Solo], Solo], ...] = (),
) -> TeamEnv:
    """Make ``n_envs`` copies of a team environment from ``"name:VARIANT,key=value,…"``.

    Args:
        spec: as for ``load``; a first part without ``=`` is the variant, e.g. ``"mamujoco:HalfCheetah-6x1,obsk=0"``.
        n_envs: B.
        workers: 0 = in this process; N = N processes over shared memory; ``"ray"`` or ``"ray:N"`` = Ray actors.
            The numbers do not depend on it. Environments that compute all copies at once take 0 only.
        step_s: seconds that a step of all copies may take where the environment is one's own (``is_own``); 0 = for
            ever. What it can and cannot interrupt: ``runners.patience``.
        testing: nobody learns here; what an environment around another does may depend on it.
        around: put around every copy where it lives, the first innermost; can be pickled.

    Raises:
        BadInput: no such environment, variant or option; names the closest ones.
        MissingExtra: the package behind it is not installed.
        EnvError: it does not start.
    """
    from evolvent.envs.runners.checked import Checked
    from evolvent.envs.runners.vector import vector

    where = f"load_team({spec!r})"
    found = _of_kind(spec, TEAM, where)
    _check_copies(n_envs, where)
    kind, count = _workers(workers, n_envs, where)
    given, limit_s = found.given(where), step_s if is_own(spec) else 0.0
    if found.shape == "make_solo":
        # what is outside the package cannot be pickled by its name: each worker looks it up
        solo = functools.partial(_solo_of, spec) if found.outside else functools.partial(found.make, **given)
        solo = functools.partial(_around, around, solo) if around else solo
        with foreign("the environment does not start", where, "check its options"):
            return Checked(vector(solo, n_envs, kind, count), spec, limit_s)
    if "load_inner" in inspect.signature(found.make).parameters:  # one around another, which lives where it is told to
        told = functools.partial(load_team, n_envs=n_envs, workers=workers, step_s=step_s, testing=testing)
        given["load_inner"] = lambda spec, *mine: told(spec, around=(*mine, *around))
        return Checked(found.make(in_test=testing, **given), spec, limit_s)
    if around:
        raise BadInput("copies computed together, which cannot be changed each", where=where, do="leave dynamics out")
    if kind != "here":
        raise BadInput(
            "this environment computes all copies at once, in one process",
            got=f"workers={workers}",
            expected="workers=0",
            where=where,
            do="leave --workers out",
        )
    with foreign("the environment does not start", where, "check its options"):
        env = found.make(n_envs=n_envs, **given)
    if found.outside:
        _check_members(env, TeamEnv, "a team environment (evolvent.core.team.TeamEnv)", found.outside)
    return Checked(env, spec, limit_s)


def load_game(spec: str, n_envs: int) -> GameEnv:
    """Make ``n_envs`` copies of a game in turns from ``"name:VARIANT,key=value,…"``, e.g. ``"openspiel:leduc_poker"``.

    Raises:
        BadInput: no such game, variant or option; names the closest ones.
        MissingExtra: the package behind it is not installed.
    """
    where = f"load_game({spec!r})"
    found = _of_kind(spec, GAME, where)
    _check_copies(n_envs, where)
    given = found.given(where)
    with outside.own_faults(found.outside, "the game does not start"):
        env = found.make(n_envs=n_envs, **given)
    if found.outside:
        _check_members(env, GameEnv, "a game in turns (evolvent.core.turns.GameEnv)", found.outside)
    return env


def available() -> list[EnvRow]:
    """The environments of this package with kind, first line and options; imports none of them."""
    rows = []
    for name, make in _makers().items():
        summary = (ast.get_docstring(_tree(name)) or "").partition("\n")[0]
        rows.append(EnvRow(name, _MAKERS[make.name], summary, _options(make)))
    return rows


def brought() -> tuple[list[EnvRow], list[str]]:
    """The environments that installed packages bring, imported; and what is wrong with those that do not load."""
    rows: list[EnvRow] = []
    wrong: list[str] = []
    for name, one in outside.brought("envs").items():
        try:
            found = find(name, "evolvent list")
            doc = inspect.getdoc(found.module) or inspect.getdoc(found.make) or ""
            options = ", ".join(key for key in inspect.signature(found.make).parameters if key != "n_envs")
            kind = _MAKERS.get(found.shape, TASKS)
            rows.append(EnvRow(name, kind, doc.partition("\n")[0], options, one.package))
        except BadInput as error:
            wrong.append(f"{name} of {one.package}: {error.got or error.what}")
    return rows, wrong


def _solo_of(spec: str) -> Any:
    """One copy of a team environment outside the package."""
    where = f"load_team({spec!r})"
    found = find(spec, where)
    with outside.own_faults(found.outside, "the environment does not start"):
        made = found.make(**found.given(where))
        if not own.is_team(made) and not set(members(Env)) - set(dir(made)):
            raise _of_another(spec, TASKS, TEAM, where)
        return own.as_solo(made, found.outside)


def _around(around: Iterable[Callable[[Solo], Solo]], make: Callable[[], Solo]) -> Solo:
    return functools.reduce(lambda solo, one: one(solo), around, make())


def _check_copies(n_envs: int, where: str) -> None:
    if isinstance(n_envs, bool) or not isinstance(n_envs, int) or n_envs < 1:
        raise BadInput("number of copies", got=n_envs, expected="an integer of at least 1", where=where)


def _check_members(env: object, protocol: Any, what: str, home: str) -> None:
    names = members(protocol)
    if missing := [name for name in names if not hasattr(env, name)]:
        got = f"{type(env).__name__} without {', '.join(missing)}"
        do = "`evolvent check env` says what else is expected of it"
        raise BadInput(f"not {what}", got=got, expected=", ".join(names), where=home, do=do)


def _of_kind(spec: str, kind: str, where: str) -> Found:
    """The maker of an environment that must be of a kind; what it makes is looked at where only that can tell."""
    found = find(spec, where)
    if found.open and kind != GAME:
        return dataclasses.replace(found, shape="make" if kind == TASKS else "make_solo")
    if (its := _MAKERS.get(found.shape, TASKS)) != kind:
        raise _of_another(spec, its, kind, where)
    return found


def _of_another(spec: str, its: str, wanted: str, where: str) -> BadInput:
    """The error of an environment of kind ``its`` where one of kind ``wanted`` was asked for."""
    at, _ = own.pointer(spec)
    described = {TASKS: "an environment of tasks for one agent", TEAM: "a team environment", GAME: "a game in turns"}
    do = {
        TASKS: "run it with memlift, or grpo to train a model",
        TEAM: "run it with mat or another team method",
        GAME: "check it with `evolvent check game`",
    }
    fitting = [name for name, make in _makers().items() if _MAKERS[make.name] == wanted]
    return BadInput(
        f"{at.home if at else spec.partition(':')[0]} is {described[its]}",
        expected=f"{described[wanted]}: {', '.join(fitting)}",
        where=where,
        do=f"{do[its]}; see `evolvent list envs`",
    )


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
    names = sorted(m.name for m in pkgutil.iter_modules([str(_HERE / room) for room in _ROOMS]) if m.name[0] != "_")
    return {name: make for name in names if (make := _make(_tree(name))) is not None}


def _place(name: str) -> str:
    return next(room for room in _ROOMS if (_HERE / room / f"{name}.py").is_file())


def _tree(name: str) -> ast.Module:
    return ast.parse((_HERE / _place(name) / f"{name}.py").read_text("utf-8"))


def _make(tree: ast.Module) -> ast.FunctionDef | None:
    return next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in _MAKERS), None)


def _options(make: ast.FunctionDef) -> str:
    args = (*make.args.args, *make.args.kwonlyargs)
    defaults: list[ast.expr | None] = [*make.args.defaults, *make.args.kw_defaults]
    defaults = [None] * (len(args) - len(defaults)) + defaults
    shown = []
    for arg, default in zip(args, defaults, strict=True):
        if arg.arg == "variant":
            shown.append("VARIANT" if default is None else f"VARIANT={ast.unparse(default)}")
        elif arg.arg not in _GIVEN:
            shown.append(f"{arg.arg}={ast.unparse(default) if default else '…'}")
    shown += ["key=value"] if make.args.kwarg else []
    return ", ".join(shown)


def _parse(options: str, make: Callable[..., Any], where: str) -> dict[str, Any]:
    known = {name: one for name, one in inspect.signature(make).parameters.items() if name not in _GIVEN}
    hints = own.hints(make)
    types = {name: hints.get(name, _type_of(one.default)) for name, one in known.items() if one.kind not in own.REST}
    # what the rest may be is said by a union of types, as in `**options: int | str`
    rest = [hints[name] for name, one in known.items() if one.kind in own.REST and typing.get_args(hints.get(name))]
    values: dict[str, Any] = {}
    for number, pair in enumerate(_pairs(options, where)):
        key, equals, text = ("", "", pair) if pair[0] == "[" else (part.strip() for part in pair.partition("="))
        if number == 0 and "variant" in types and not (equals and key.isidentifier()):
            key, text = "variant", pair
        elif not equals:
            raise BadInput("an option without a value", got=pair, expected="key=value", where=where)
        if key not in types and not rest:
            raise BadInput("unknown option", got=key, expected=closest(key, list(types) or ["none"]), where=where)
        if key in values:
            raise BadInput("an option given twice", got=key, where=where)
        values[key] = _typed(_bare(text, where), types.get(key, *rest), f"{where}, option {key}")
    missing = [key for key in types if known[key].default is inspect.Parameter.empty and key not in values]
    if missing:
        do = "write NAME:VARIANT" if "variant" in missing else ""
        raise BadInput("an option is missing", expected=", ".join(missing), where=where, do=do)
    return values


def _pairs(options: str, where: str) -> list[str]:
    """Options apart, ``key=value`` or a first value alone.

    A comma separates them only where ``key=`` follows, so that a folder's name may hold commas, and never inside the
    brackets around a value.
    """
    pairs, start, at = list[str](), 0, 0
    while at < len(options):
        if options[at] == "[" and re.fullmatch(r"\s*(\w+\s*=\s*)?", options[start:at]):
            at = _closing(options, at, where)
        elif options[at] == "," and re.match(r"\s*\w+\s*=", options[at + 1 :]):
            pairs.append(options[start:at])
            start = at + 1
        at += 1
    return [pair.strip() for pair in (*pairs, options[start:]) if pair.strip()]


def _closing(options: str, at: int, where: str) -> int:
    """Where the bracket that opens at ``at`` closes: at the end of its value."""
    depth = 0
    for end in range(at, len(options)):
        depth += {"[": 1, "]": -1}.get(options[end], 0)
        if depth == 0:
            rest = options[end + 1 :]
            if rest.strip() and not re.match(r"\s*,\s*\w+\s*=", rest):
                expected = "the end, or ,key=value"
                raise BadInput("text behind a closing bracket", got=rest, expected=expected, where=where)
            return end
    raise _unbalanced(options[at:], where)


def _bare(text: str, where: str) -> str:
    """A value without the brackets around it."""
    if text[:1] == "[":
        return text[1:-1].strip()
    if text.endswith("]") and text.count("]") > text.count("["):
        raise _unbalanced(text, where)
    return text


def _unbalanced(text: str, where: str) -> BadInput:
    got = f"{text}: {text.count('[')} [ and {text.count(']')} ]"
    expected = "[ and ] around the whole value, as in NAME:[spread:n=3],key=value"
    return BadInput("brackets do not match", got=got, expected=expected, where=where)


def _type_of(default: object) -> Any:
    """The type of an option that is not annotated: its default's, or text."""
    return str if default is None or default is inspect.Parameter.empty else type(default)


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
