"""What a Python file of yours holds as an environment: one spelling, ``file.py[:NAME]``, recognised by what is there.

A function ``make``, ``make_solo``, ``make_team`` or ``make_game``; ``parallel_env`` or a subclass of
``pettingzoo.ParallelEnv``; or prompts and a reward (``PROMPTS`` or ``prompts``, and ``reward`` or ``REWARDS``; see
``envs.text.graded``). What a function of another name, or ``make``, returns shows when it is called. Of several the
name says which.
"""

from __future__ import annotations

import inspect
import re
import sys
import typing
from collections.abc import Callable
from types import ModuleType
from typing import Any

from evolvent.core import outside
from evolvent.core.errors import BadInput, closest
from evolvent.core.outside import Pointer

MAKERS = ("make", "make_solo", "make_team", "make_game", "parallel_env")
"""Functions that are looked for by name."""
_REWARDED = ("PROMPTS", "prompts", "reward", "REWARDS")
_SOLO = ("team", "gives", "columns", "reset", "step", "render", "close")
_ALIAS = re.compile(r"(graded|pettingzoo):(?:variant=)?(.*)", re.S)
_WHAT = {
    "": "an environment: a subclass of pettingzoo.ParallelEnv, a function make, make_solo, make_team, make_game or "
    "parallel_env, or PROMPTS and reward",
    "graded": "prompts and a reward: PROMPTS or prompts(), and reward(completion, prompt, **rest)",
    "pettingzoo": "a parallel environment: a subclass of pettingzoo.ParallelEnv, or parallel_env() (agents act all at "
    "once)",
}


def pointer(spec: str) -> tuple[Pointer | None, str]:
    """The file or module that a spec names, and the kind that it says: ``graded:my.py`` and ``pettingzoo:my.py``."""
    alias = _ALIAS.fullmatch(spec)
    at = outside.pointer(alias[2] if alias else spec)
    return at, alias[1] if alias and at else ""


def look(at: Pointer, kind: str) -> tuple[str, Callable[..., Any], Any, str]:
    """What a file holds: shape of the maker (``""``: what it returns will show), maker, module, and whose code it is.

    The last is the file or module; ``""`` for prompts and reward, which an environment of this package asks and grades.

    Args:
        at: the file, or module, and perhaps the name in it.
        kind: ``"graded"`` or ``"pettingzoo"``, where nothing else counts; ``""`` = any.

    Raises:
        BadInput: no such file or name, nothing in it is an environment, or several things are.
    """
    module = outside.module_of(at, f"a Python file with {_WHAT[kind]}")
    name = at.name or ("reward" if kind == "graded" else _only(module, at, kind))
    if kind != "graded" and not hasattr(module, name):
        known = outside.own_names(module)
        raise BadInput(
            "the name of an environment is not in the file",
            got=name,
            expected=closest(name, known),
            where=at.home,
            do=f"define it, or name what is there: {at.home}:NAME",
        )
    if kind == "graded" or (name in _REWARDED and _is_rewarded(module)):
        from evolvent.envs.text import graded

        return "make", _graded(at), graded, ""
    home = str(at.file or at.home)
    return *of_maker(name, getattr(module, name), home), module, home


def of_maker(name: str, make: Any, home: str) -> tuple[str, Callable[..., Any]]:
    """The shape of a maker by its name, or by what it is; and the maker."""
    if not callable(make):
        expected = "a function make(...) that returns an environment"
        raise BadInput(
            "not a maker of environments", got=f"{name}: {type(make).__name__}", expected=expected, where=home
        )
    if name == "parallel_env" or _is_parallel(make):
        return "make_solo", _parallel(make, home)
    if name in MAKERS:
        return name, make
    return "make_team" if "n_envs" in inspect.signature(make).parameters else "", make


def is_team(env: object) -> bool:
    """Whether a maker has returned a team environment: PettingZoo's, or one copy of a team (``envs.runners.solo``)."""
    return hasattr(env, "possible_agents") or hasattr(env, "agent_iter") or all(hasattr(env, n) for n in _SOLO[:3])


def as_solo(env: Any, home: str) -> Any:
    """One copy of a team, of what a maker has returned.

    Raises:
        BadInput: it is none.
    """
    if all(hasattr(env, name) for name in _SOLO):
        return env
    if is_team(env) and not hasattr(env, "gives"):
        from evolvent.envs.team.pettingzoo import solo

        return solo(env, home)
    missing = [name for name in _SOLO if not hasattr(env, name)]
    raise BadInput(
        "not one copy of a team environment",
        got=f"{type(env).__name__} without {', '.join(missing)}",
        expected=f"a pettingzoo.ParallelEnv, or evolvent.envs.runners.solo.Solo ({', '.join(_SOLO)})",
        where=home,
        do="`evolvent check env` says what else is expected of it",
    )


# ---------------------------------------------------------------------------------------------------------- inside
def _only(module: ModuleType, at: Pointer, kind: str) -> str:
    """The name of the one environment in a file."""
    made = [name for name in MAKERS if hasattr(module, name)]
    classes = [
        name
        for name, one in vars(module).items()
        if name[0] != "_" and _is_parallel(one) and one.__module__ == module.__name__
    ]
    rewarded = ["PROMPTS" if hasattr(module, "PROMPTS") else "prompts"] if _is_rewarded(module) else []
    if kind == "pettingzoo":
        found = ["parallel_env"] if "parallel_env" in made else classes or made
    else:
        found = [*(made or classes), *rewarded]  # classes beside a maker are what it makes
    if len(found) == 1:
        return found[0]
    if found:
        do = f"name it: {' or '.join(f'{at.home}:{name}' for name in found)}"
        got = f"{at.home} with {', '.join(found)}"
        expected = "one, or the name of one"
        raise BadInput("the file holds several environments", got=got, expected=expected, where=at.home, do=do)
    turns = next((name for name in ("env", "raw_env") if hasattr(module, name)), "")
    there = outside.own_names(module) + [name for name in _REWARDED[:1] if hasattr(module, name)]
    raise BadInput(
        "nothing in the file is an environment",
        got=f"{at.home} with {', '.join(there) or 'nothing'}",
        expected=_WHAT[kind].partition(": ")[2],
        where=at.home,
        do="turn-based environments are not supported: pettingzoo.utils.conversions.aec_to_parallel makes one whose "
        "agents act at once"
        if turns
        else f"define one of them, or name what is there: {at.home}:NAME",
    )


def _is_rewarded(module: ModuleType) -> bool:
    return (hasattr(module, "reward") or hasattr(module, "REWARDS")) and (
        hasattr(module, "PROMPTS") or hasattr(module, "prompts")
    )


def _is_parallel(one: object) -> bool:
    """Whether it is a subclass of PettingZoo's; a file that has one has imported that."""
    base = getattr(sys.modules.get("pettingzoo.utils.env"), "ParallelEnv", None)
    return base is not None and inspect.isclass(one) and issubclass(one, base) and one is not base


def _graded(at: Pointer) -> Callable[..., Any]:
    def make(*, split_seed: int = 0, by: str = "prompt") -> Any:
        from evolvent.envs.text import graded

        return graded.make(at.home, split_seed=split_seed, by=by)

    return make


def _parallel(make: Callable[..., Any], home: str) -> Callable[..., Any]:
    """The maker of one copy: takes the options of ``make``, and ``limit`` and ``state`` as all of PettingZoo do."""
    from evolvent.envs.team import pettingzoo

    theirs = {name: of for name, of in inspect.signature(make).parameters.items() if name != "render_mode"}
    ours = {
        name: of
        for name, of in inspect.signature(pettingzoo.made).parameters.items()
        if name in ("limit", "state") and name not in theirs
    }

    def one(**given: Any) -> Any:
        options = {name: given.pop(name) for name in ours if name in given}
        return pettingzoo.made(make, home, given, **options)

    both = [of.replace(kind=of.KEYWORD_ONLY) for of in (*theirs.values(), *ours.values()) if of.kind not in REST]
    one.__signature__ = inspect.Signature(both)  # pyright: ignore[reportFunctionMemberAccess]
    one.__annotations__ = {"limit": int, "state": bool} | hints(make)
    return one


REST = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
"""Parameters that take whatever is given: none of the options of a spec."""


def hints(make: Callable[..., Any]) -> dict[str, Any]:
    """The types of the options of a maker."""
    return typing.get_type_hints(make.__init__ if inspect.isclass(make) else make)
