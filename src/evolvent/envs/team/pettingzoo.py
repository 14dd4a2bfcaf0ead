"""Any parallel environment of PettingZoo, of a package that follows it, or of your own file.

``pettingzoo:sisl.multiwalker_v9``, ``pettingzoo:butterfly.knights_archers_zombies_v11``, ``pettingzoo:package.module``.
A name is looked up inside PettingZoo, then as a module of its own. It must have ``parallel_env``: a function, or a
class, that makes a ``pettingzoo.ParallelEnv``. Of the options ``render_mode`` and ``max_cycles`` it is given those that
it takes. A file of your own needs no more than a subclass of ``pettingzoo.ParallelEnv``: ``my_env.py``, or
``my_env.py:NAME`` where it has several (``envs.own``; ``pettingzoo:my_env.py`` is the same).
Not every one is decided by its seed: in knights_archers_zombies_v11 an attempt depends on the one before.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from evolvent.core.errors import BadInput, EnvError, closest, missing_extra
from evolvent.envs.team._parallel import ParallelSolo


def make_solo(variant: str, *, limit: int = 0, state: bool = False) -> ParallelSolo:
    """One copy.

    Args:
        variant: name of the module.
        limit: steps of an attempt (its ``max_cycles``); 0 = its own.
        state: show ``env.state()`` as the shared state.
    """
    if importlib.util.find_spec("pettingzoo") is None:
        raise missing_extra("pettingzoo", "marl", "envs.pettingzoo")
    where = f"pettingzoo:{variant}"
    make = getattr(module := _module(variant.removeprefix("pettingzoo.")), "parallel_env", None)
    if not callable(make):
        has = [name for name in ("env", "raw_env") if hasattr(module, name)]
        raise BadInput(
            "not a parallel environment",
            got=f"a module with {has[0]}, for turns" if has else variant,
            expected="a module with parallel_env (agents act all at once)",
            where=where,
            do="turn-based environments are not supported" if has else "define parallel_env(), which returns one copy",
        )
    return made(make, where, limit=limit, state=state)


def made(
    make: Callable[..., Any],
    where: str,
    options: Mapping[str, Any] = MappingProxyType({}),
    *,
    limit: int = 0,
    state: bool = False,
) -> ParallelSolo:
    """One copy of what ``make`` returns, given its options, and ``render_mode`` and ``max_cycles`` if it takes them.

    Raises:
        BadInput: it refuses them, or returns something else than a ``pettingzoo.ParallelEnv``.
    """
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws without a window
    offered = {"render_mode": "rgb_array"} | ({"max_cycles": limit} if limit else {})
    return solo(_made(functools.partial(make, **options), offered, where), where, limit=limit, state=state)


def solo(env: Any, where: str, *, limit: int = 0, state: bool = False) -> ParallelSolo:
    """One copy, of a ``pettingzoo.ParallelEnv``.

    Raises:
        BadInput: it is something else.
    """
    _check(env, where)
    own = getattr(getattr(env, "unwrapped", env), "max_cycles", 0)
    return ParallelSolo(env, limit=limit or (own if isinstance(own, int) else 0), foreign=True, state=state)


def _made(make: Callable[..., Any], options: Mapping[str, Any], where: str) -> Any:
    """One copy; who takes no ``render_mode`` draws as it likes, but a limit must be taken."""
    try:
        known = inspect.signature(make).parameters.values()
    except ValueError:  # of something built in
        known = ()
    whatever = any(of.kind is of.VAR_KEYWORD for of in known)
    taken = {name: value for name, value in options.items() if whatever or name in {of.name for of in known}}
    if lost := [name for name in options if name not in taken and name != "render_mode"]:
        raise BadInput("the environment refuses its options", got=lost[0], where=where, do="leave limit out")
    try:
        return make(**taken)
    except TypeError as err:
        if not re.search("unexpected keyword argument|takes no arguments", str(err)):
            raise
        if "render_mode" in taken and whatever:
            return _made(make, {name: value for name, value in taken.items() if name != "render_mode"}, where)
        raise BadInput("the environment refuses its options", got=str(err), where=where) from err


def _check(env: Any, where: str) -> None:
    """It must look like ``pettingzoo.ParallelEnv``; what is made for turns looks otherwise."""
    needed = ("possible_agents", "observation_space", "action_space", "reset", "step")
    missing = [name for name in needed if not hasattr(env, name)]
    turns = hasattr(env, "agent_iter")
    if missing or turns:
        raise BadInput(
            "not a parallel environment",
            got=f"{type(env).__name__}, which acts in turns" if turns else f"{type(env).__name__} without {missing[0]}",
            expected="a pettingzoo.ParallelEnv, returned by parallel_env()",
            where=where,
            do="pettingzoo.utils.conversions.aec_to_parallel makes one of an environment whose agents may act at once"
            if turns
            else "",
        )
    if not env.possible_agents:
        raise EnvError("an environment without a fixed list of agents", where=where)


def _module(name: str) -> ModuleType:
    for full in (f"pettingzoo.{name}", name):
        if not all(part.isidentifier() for part in name.split(".")):
            break
        try:
            return importlib.import_module(full)
        except ModuleNotFoundError as err:
            if not full.startswith(err.name or "-"):  # found, but something that it needs is missing
                do = f"pip install {err.name}, or the extra of pettingzoo that brings it"
                raise EnvError("a package is missing", got=err.name, where=f"pettingzoo:{name}", do=do) from err
    do = "for one of your own: the path of a .py file, or the name of a module that Python can import"
    raise BadInput("no such environment", got=name, expected=closest(name, _known()), where="pettingzoo", do=do)


def _known() -> list[str]:
    """``family.module_vN`` of PettingZoo itself; those of turn-based families are not listed."""
    found: list[str] = []
    for family in ("butterfly", "sisl"):
        package = importlib.util.find_spec(f"pettingzoo.{family}")
        places = (package.submodule_search_locations or []) if package else []
        found += [f"{family}.{m.name}" for m in pkgutil.iter_modules(list(places)) if re.search(r"_v\d+$", m.name)]
    return found
