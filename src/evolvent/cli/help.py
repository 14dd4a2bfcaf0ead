"""`evolvent run X --help`: an example, the settings of the system itself, and what is used most of the others."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from itertools import pairwise
from typing import Annotated, Any, get_type_hints

import tyro

from evolvent import catalogue
from evolvent.core import config as configs

MOST = 30
"""Flags that ``--help`` shows, itself among them; the opposite of a switch counts, too."""
_USED = ("minutes", "device", "eval_every", "memory", "workers", "threads", "dtype", "style")
"""Of a plan, what people set most, the most used first."""


def example(name: str, default: Any) -> str:
    """A command that works: the system's own (``EXAMPLE`` of its settings), the one that a newcomer is shown of the
    kind, or what of it fits this system, too.
    """
    if own := getattr(default, "EXAMPLE", ""):
        return own
    kind = catalogue.kind(getattr(default, "KIND", ""))
    runs = [choice for choice in kind.choices if choice.command.startswith("evolvent run ")]
    meant = [choice for choice in runs if name in choice.systems]
    for choice in [*meant, *(choice for choice in runs if not choice.systems)][:1]:
        _, _, other, *arguments = shlex.split(choice.command)
        if other == name:
            return choice.command
        there, here = (
            {configs.flag(path): value for path, value in configs.flat(one).items()}
            for one in (catalogue.defaults_of(other), default)
        )
        starts = [i for i, word in enumerate(arguments) if word.startswith("--")]
        given = [arguments[i:j] for i, j in pairwise([*starts, len(arguments)])]
        # a setting that begins elsewhere means something else, such as a world of another kind
        fits = [one for one in given if one[0] in here and here[one[0]] == there.get(one[0])]
        return shlex.join(["evolvent", "run", name, *(word for one in fits for word in one)])
    return shlex.join(["evolvent", "run", name])


def shown(default: Any, options: Any, most: int = MOST) -> set[str]:
    """Dotted names of the settings and options that ``--help`` shows, at most ``most`` flags.

    Where the run goes, then what the system itself has, then what is used most of the rest, as long as there is room.
    """
    flat = {**configs.flat(default), **dataclasses.asdict(options)}
    where = [field.name for field in dataclasses.fields(options)]
    own = [path for path in configs.flat(default) if "." not in path]
    nested = {path.rpartition(".")[2]: path for path in flat if "." in path}
    used = [nested[name] for name in _USED if name in nested]
    room, found = most - 1, set[str]()
    for path in dict.fromkeys(["out", "seeds", "resume", *own, *used, *where, *nested.values()]):
        room -= 2 if isinstance(flat[path], bool) else 1
        if room < 0:
            break
        found.add(path)
    return found


def with_shown(default: Any, names: set[str], prefix: str = "") -> type[Any]:
    """A class of the same settings with these defaults, of which the parser shows those with these dotted names."""
    kind = type(default)
    hints, columns = get_type_hints(kind, include_extras=True), list[tuple[str, Any, Any]]()
    for field in dataclasses.fields(kind):
        value, path, hint = getattr(default, field.name), f"{prefix}{field.name}", hints[field.name]
        make = functools.partial(getattr, default, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            hint = make = with_shown(value, names, f"{path}.")
        elif path not in names:
            hint = Annotated[hint, tyro.conf.Suppress]
        columns.append((field.name, hint, dataclasses.field(default_factory=make)))
    namespace = {"__doc__": kind.__doc__, "__module__": kind.__module__}
    frozen = kind.__dataclass_params__.frozen
    return dataclasses.make_dataclass(kind.__name__, columns, bases=(kind,), namespace=namespace, frozen=frozen)


def others(name: str, hidden: int) -> str:
    """The last line: how many settings are not shown, and what shows them."""
    more = f"{hidden} more {'setting' if hidden == 1 else 'settings'}" if hidden else "these are all settings"
    return f"{more}: evolvent run {shlex.quote(name)} --help-all" if hidden else more
