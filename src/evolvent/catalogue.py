"""What there is to run: algorithms and credit rules by module name, read from their source without importing them."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from evolvent.core import outside
from evolvent.core.credit_rule import CreditRule, rule_of
from evolvent.core.errors import BadInput, missing_extra
from evolvent.core.outside import closest


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


def credit_rule(name: str) -> CreditRule:
    """The rule called ``name``.

    Args:
        name: a module of ``credit/``, also without its level where that is unambiguous (``group_std``); ``file.py`` or
            ``file.py:assign``; ``package.module:assign``; or what an installed package brings (``evolvent.credit``).

    Raises:
        BadInput: no such rule (names the closest), it does not load (with the file's own error), or declares no level.
    """
    at = outside.pointer(name)
    if at is not None:
        module, attribute, found = outside.load(at, "a credit rule", ("assign",))
        return rule_of(name, found, module, str(at.file or at.home), whole=attribute == "assign")
    own = sorted(_modules("credit"))
    if name in own:
        module = importlib.import_module(f"evolvent.credit.{name}")
        return rule_of(name, module.assign, module, "", whole=True)
    if short := [rule for rule in own if rule.partition("_")[2] == name]:
        if len(short) == 1:
            return credit_rule(short[0])
        raise BadInput("several credit rules have that name", got=name, expected=" or ".join(short), where="--rule")
    others = outside.brought("credit")
    if name not in others:
        hint = outside.closest(name, [*own, *others])
        raise BadInput(
            "unknown credit rule",
            got=name,
            expected=hint,
            where="--rule",
            do="see `evolvent list credit`, or give file.py",
        )
    found = others[name].load("a credit rule")
    module = found if isinstance(found, ModuleType) else inspect.getmodule(found)
    function = getattr(found, "assign", found)
    return rule_of(name, function, module, getattr(module, "__file__", "") or name, whole=found is module)


def systems_of(rule: str) -> list[str]:
    """The systems that are made with a credit rule: those whose file imports it."""
    named = re.compile(rf"^from evolvent\.credit import .*\b{re.escape(rule)}\b", re.M)
    return sorted(name for name, path in _modules("algos").items() if named.search(path.read_text(encoding="utf-8")))


def rule_with_settings(text: str) -> tuple[CreditRule, Any]:
    """A rule and its configuration from ``NAME:key=value,key=value`` or ``file.py:assign,key=value``.

    Raises:
        BadInput: as ``credit_rule``, or a setting that the rule does not have.
    """
    at = outside.pointer(text)
    if at is None:
        name, _, settings = text.partition(":")
    else:
        name, settings = (f"{at.home}:{at.name}" if at.name else at.home), at.options
    rule = credit_rule(name)
    # a comma separates settings only where "key=" follows
    return rule, rule.settings(filter(None, re.split(r",(?=\s*\w+\s*=)", settings)))


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
