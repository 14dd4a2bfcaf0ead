"""Environments: ``load("analyst:drift=0.5,drift_at=2")`` makes one; every module here with ``make`` is one."""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import pkgutil
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Env


@dataclass(frozen=True)
class EnvRow:
    """One line of ``evolvent list envs``."""

    name: str
    summary: str
    options: str


def load(spec: str) -> Env:
    """Make an environment from ``"name"`` or ``"name:key=value,key=value"``.

    Values take the type of the option: ``true``/``false``, integers, numbers, text (which may hold commas).

    Raises:
        BadInput: no such environment or option, or a value of another type; names the closest ones.
    """
    name, _, options = spec.partition(":")
    if name not in _names():
        raise BadInput("unknown environment", got=name, expected=_closest(name, _names()), where=f"load({spec!r})")
    make = importlib.import_module(f"{__name__}.{name}").make
    return make(**_parse(options, make, spec))


def available() -> list[EnvRow]:
    """The environments of this package with their first line and options; imports none of them."""
    rows = []
    for name in _names():
        tree = _tree(name)
        summary = (ast.get_docstring(tree) or "").partition("\n")[0]
        rows.append(EnvRow(name, summary, _options(_make(tree))))
    return rows


def _names() -> list[str]:
    return [m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if _make(_tree(m.name)) is not None]


def _tree(name: str) -> ast.Module:
    return ast.parse((Path(__file__).parent / f"{name}.py").read_text("utf-8"))


def _make(tree: ast.Module) -> ast.FunctionDef | None:
    return next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "make"), None)


def _options(make: ast.FunctionDef | None) -> str:
    if make is None:
        return ""
    names = [arg.arg for arg in (*make.args.args, *make.args.kwonlyargs)]
    defaults: list[ast.expr | None] = [*make.args.defaults, *make.args.kw_defaults]
    defaults = [None] * (len(names) - len(defaults)) + defaults
    return ", ".join(f"{name}={ast.unparse(d) if d else '…'}" for name, d in zip(names, defaults, strict=True))


def _parse(options: str, make: Callable[..., Env], spec: str) -> dict[str, Any]:
    where = f"load({spec!r})"
    types = {name: kind for name, kind in typing.get_type_hints(make).items() if name != "return"}
    values: dict[str, Any] = {}
    # A comma separates options only where "key=" follows, so that a folder's name may hold commas.
    for pair in filter(None, re.split(r",(?=\s*\w+\s*=)", options)):
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals:
            raise BadInput("an option without a value", got=pair, expected="key=value", where=where)
        if key not in inspect.signature(make).parameters:
            raise BadInput("unknown option", got=key, expected=_closest(key, list(types)), where=where)
        if key in values:
            raise BadInput("an option given twice", got=key, where=where)
        values[key] = _typed(text, types[key], f"{where}, option {key}")
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


def _closest(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=2, cutoff=0.5)
    return f"{' or '.join(near)} (of {', '.join(names)})" if near else f"one of {', '.join(names)}"
