"""Any parallel environment of PettingZoo, or of a package that follows it, by the name of its module.

``pettingzoo:sisl.multiwalker_v9``, ``pettingzoo:butterfly.knights_archers_zombies_v11``, ``pettingzoo:package.module``.
The name is looked up inside PettingZoo, then as a module of its own; it must have a function ``parallel_env``.
Not every one is decided by its seed: in knights_archers_zombies_v11 an attempt depends on the one before.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import re
from types import ModuleType

from evolvent.core.errors import BadInput, EnvError, missing_extra
from evolvent.envs import closest
from evolvent.envs._parallel import ParallelSolo


def make_solo(variant: str, *, limit: int = 0, state: bool = False) -> ParallelSolo:
    """One copy.

    Args:
        variant: name of the module.
        limit: steps of an attempt (its ``max_cycles``); 0 = its own.
        state: show ``env.state()`` as the shared state.
    """
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws without a window
    if importlib.util.find_spec("pettingzoo") is None:
        raise missing_extra("pettingzoo", "marl", "envs.pettingzoo")
    module = _module(variant.removeprefix("pettingzoo."))
    if not hasattr(module, "parallel_env"):
        raise BadInput(
            "not a parallel environment", got=variant, expected="a module with parallel_env (agents act all at once)",
            where="pettingzoo", do="turn-based environments are not supported",
        )  # fmt: skip
    options = {"max_cycles": limit} if limit else {}
    try:
        env = module.parallel_env(render_mode="rgb_array", **options)
    except TypeError as err:
        raise BadInput("the environment refuses its options", got=str(err), where=f"pettingzoo:{variant}") from err
    own = getattr(env.unwrapped, "max_cycles", 0)
    if not env.possible_agents:
        raise EnvError("an environment without a fixed list of agents", where=f"pettingzoo:{variant}")
    return ParallelSolo(env, limit=limit or (own if isinstance(own, int) else 0), dies=True, state=state)


def _module(name: str) -> ModuleType:
    for full in (f"pettingzoo.{name}", name):
        try:
            return importlib.import_module(full)
        except ModuleNotFoundError as err:
            if not full.startswith(err.name or "-"):  # found, but something that it needs is missing
                do = f"pip install {err.name}, or the extra of pettingzoo that brings it"
                raise EnvError("a package is missing", got=err.name, where=f"pettingzoo:{name}", do=do) from err
    raise BadInput(
        "no such environment", got=name, expected=closest(name, _known()), where="pettingzoo",
        do="for one of your own: the name of a module that Python can import",
    )  # fmt: skip


def _known() -> list[str]:
    """``family.module_vN`` of PettingZoo itself; those of turn-based families are not listed."""
    found: list[str] = []
    for family in ("butterfly", "sisl"):
        package = importlib.util.find_spec(f"pettingzoo.{family}")
        places = (package.submodule_search_locations or []) if package else []
        found += [f"{family}.{m.name}" for m in pkgutil.iter_modules(list(places)) if re.search(r"_v\d+$", m.name)]
    return found
