"""What there is to run: algorithms and credit rules by module name, read from their source without importing them."""

from __future__ import annotations

import ast
import difflib
import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from evolvent.core.errors import BadInput, missing_extra


@dataclass(frozen=True)
class Entry:
    """One module: its name, the first line of its docstring, and its constants in capitals."""

    name: str
    summary: str
    constants: dict[str, Any]


def entries(package: str) -> list[Entry]:
    """The public modules of ``evolvent.<package>``, by name."""
    found = sorted(_modules(package).items())
    return [_read(name, path) for name, path in found]


def algorithm(name: str) -> ModuleType:
    """The module of an algorithm.

    Raises:
        BadInput: no such module; names the closest.
    """
    return _load("algos", name, "algorithm", "see `evolvent list algos`")


def benchmark(name: str) -> ModuleType:
    """The module of a benchmark; raises ``BadInput`` like ``algorithm``."""
    return _load("bench", name, "benchmark", "")


def credit_rule(name: str) -> ModuleType:
    """The module of a credit rule; raises ``BadInput`` like ``algorithm``."""
    return _load("credit", name, "credit rule", "see `evolvent list credit`")


def closest(name: str, known: Sequence[str]) -> str:
    """A hint for an error: the closest known name, or all of them."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known) or 'none'}"


def _load(package: str, name: str, what: str, do: str) -> ModuleType:
    known = sorted(_modules(package))
    if name not in known:
        raise BadInput(f"unknown {what}", got=name, expected=closest(name, known), where="evolvent", do=do)
    module = f"evolvent.{package}.{name}"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "evolvent":
            raise
        source = _modules(package)[name].read_text(encoding="utf-8")
        extra = "marl" if name == "marl" or "evolvent.rollout.team" in source else "train"
        raise missing_extra(error.name, extra, module) from error


def _modules(package: str) -> dict[str, Path]:
    places = importlib.import_module(f"evolvent.{package}").__path__
    names = [(m.name, Path(place)) for place in places for m in pkgutil.iter_modules([place]) if m.name[0] != "_"]
    return {name: place / f"{name}.py" for name, place in names}


def _read(name: str, path: Path) -> Entry:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper():
            try:
                constants[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:  # not a plain value: nothing for a table
                continue
    return Entry(name, (ast.get_docstring(tree) or "").partition("\n")[0].rstrip("."), constants)
