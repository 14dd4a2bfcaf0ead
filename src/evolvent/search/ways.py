"""The ways to search, by name: each module of this package with a function ``run(search, config)`` is one.

A new one is a file here and nothing else. Its name is what ``--search`` takes, the first line of its docstring what
lists say of it, ``Config`` its settings; of those that a run has it gets the ones that it names (``paths``,
``parallel``, ``simulations``, ``c``, ``keep``, ``seed``). What else it may hold:

    PAPER = "arXiv 2309.17179"
    AGGREGATE = "majority"      how one answer is made of its paths (``aggregate``); "last_max" where it does not say
    DRAWS = True                it draws paths until the budget is spent, unless --paths says how many
    WIDER = "--widths"          flags that let it spend more, where it came to nothing new before the budget was spent
    PARALLEL, TEMPERATURE, UNIT fixed, whatever the settings of the run are
    world(env, config)          the environment that it searches, made of a copy of the run's
    check(env, task)            raises ``BadInput`` where that environment cannot be searched, before anything is
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

from evolvent.core.errors import BadInput, closest

_PACKAGE = __name__.rpartition(".")[0]


@functools.cache
def _at(places: tuple[str, ...]) -> dict[str, Path]:
    every = [(Path(place), m) for place in places for m in pkgutil.iter_modules([place])]
    found = {m.name: place / (f"{m.name}/__init__.py" if m.ispkg else f"{m.name}.py") for place, m in every}
    return {name: file for name, file in sorted(found.items()) if "\ndef run(" in file.read_text(encoding="utf-8")}


def ways() -> dict[str, Path]:
    """Every way to search with its file, by name; read from the files, without importing them."""
    return _at(tuple(importlib.import_module(_PACKAGE).__path__))


def way(name: str) -> ModuleType:
    """The module of a way to search.

    Raises:
        BadInput: there is none of that name; names the closest.
    """
    if name not in ways():
        raise BadInput("no such search", got=name, expected=closest(name, ways()), where="--search")
    return importlib.import_module(f"{_PACKAGE}.{name}")
