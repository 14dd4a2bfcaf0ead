"""What there is to run: systems and credit rules by name, of the package, of your files, of installed packages.

Those of the package are listed from their source, without importing them.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from evolvent.core import outside, sources
from evolvent.core.credit_rule import CreditRule, rule_of
from evolvent.core.errors import BadInput, EvolventError, closest, missing_extra
from evolvent.core.folder import RunFolder
from evolvent.runs.kind import Kind
from evolvent.search.ways import ways

SYSTEM = "system"
"""Folder inside a run folder with the file of a system of your own."""
RECORDS = ("import", "worth")
"""What stands in place of a system's name in folders that none made: imported attempts, a study of parts."""


@dataclass(frozen=True)
class Entry:
    """One module: its name, the first line of its docstring, and its constants in capitals."""

    name: str
    summary: str
    constants: dict[str, Any]
    package: str = ""
    """The installed package that brings it; ``""`` = this one."""


_KINDS = ("memory", "language", "team", "search", "programs", "games", "agents", "population", "offline")
"""Folders of ``runs/`` with a kind of run, in the order of lists and docs."""


@functools.cache
def kinds() -> dict[str, Kind]:
    """The kinds of run by name: of the package, and what installed packages bring (``evolvent.kinds``).

    One that does not load is left out (``brought``): its runs have the plain page.
    """
    found: dict[str, Kind] = {name: importlib.import_module(f"evolvent.runs.{name}.kind").KIND for name in _KINDS}
    for one in outside.brought("kinds").values():
        with suppress(EvolventError):
            brought = _brought_kind(one)
            found.setdefault(brought.name, brought)
    return found


def _brought_kind(one: outside.Brought) -> Kind:
    found = one.load("a kind of run")
    if not isinstance(found, Kind):
        expected = "an object of evolvent.runs.kind.Kind"
        raise BadInput("not a kind of run", got=type(found).__name__, expected=expected, where=one.package)
    return found


def kind(name: str) -> Kind:
    """The kind of that name; the plain one, by that name, where nobody describes it."""
    from evolvent.runs.own.kind import KIND

    return kinds().get(name) or dataclasses.replace(KIND, name=name, title=name or KIND.title)


def kind_of(folder: RunFolder) -> Kind:
    """The kind of a run: ``config.json`` says it; of an earlier version's run its system does.

    The file of a system of your own is not executed for this.
    """
    manifest = folder.manifest()
    name = manifest.get("kind")
    if not name and sources.note(folder.path / SYSTEM) is None and manifest.get("algo") in _modules("algos"):
        name = getattr(settings_of(str(manifest["algo"])), "KIND", "")
    return kind(str(name or ""))


def by_kind(others: Sequence[Entry] = ()) -> dict[str, list[Entry]]:
    """The systems of the package and ``others``, under the title of their kind."""
    groups: dict[str, list[Entry]] = {one.title: [] for one in kinds().values()}
    for entry in [*entries("algos"), *others]:
        groups.setdefault(kind(getattr(settings_of(entry.name), "KIND", "")).title, []).append(entry)
    return {title: group for title, group in groups.items() if group}


def entries(package: str) -> list[Entry]:
    """The public modules of ``evolvent.<package>``, by name."""
    found = sorted(_modules(package).items())
    return [_read(name, path) for name, path in found]


@dataclass(frozen=True)
class System:
    """A published system, or one of your own, that ``evolvent run`` runs."""

    name: str
    """As its run folders call it."""
    asked: str
    """As it was asked for: its name, or its file."""
    module: ModuleType
    file: Path | None = None
    """The file of one of your own."""

    @property
    def Config(self) -> type[Any]:
        """Its settings."""
        return self.module.Config

    def settings(self) -> Any:
        """The settings that it has by default."""
        with self.faults():
            return self.module.Config()

    def faults(self) -> AbstractContextManager[None]:
        """What a file of your own raises becomes an error with the exception's words, file and line.

        Raises:
            BadInput: in place of it; its cause is the exception.
        """
        if self.file is None:
            return nullcontext()
        do = "EVOLVENT_TRACEBACK=1 before the command shows the whole traceback"
        return outside.own_faults(str(self.file), f"the system {self.asked} failed", do=do, but=(BrokenPipeError,))

    @property
    def kind(self) -> Kind:
        """Its kind of run: ``KIND`` beside its settings, or the one that these name."""
        own = getattr(self.module, "KIND", None)
        return own if isinstance(own, Kind) else kind(getattr(self.Config, "KIND", ""))

    def evaluate(self) -> Callable[..., Any] | None:
        """What ``evolvent eval`` calls: its own, or that of its kind; ``None`` = it cannot."""
        own = getattr(self.module, "evaluate", None)
        # a kind of its own may say nothing of it: what its settings are made for can
        of_kind = self.kind.evaluate or kind(getattr(self.Config, "KIND", "")).evaluate
        return own if own is not None or of_kind is None else functools.partial(of_kind, self.Config)


def system(name: str) -> System:
    """A system by name: of the package, of ``file.py``, or of an installed package (``evolvent.algos``).

    Raises:
        BadInput: no such system (names the closest), or its file does not run, or lacks ``Config`` or ``run``.
        MissingExtra: the package that its kind runs with is not installed.
    """
    at = outside.pointer(name) if not name.isidentifier() else None
    if at is not None and at.file is not None and not at.name and not at.options:
        file = at.file
        if not file.is_file():
            raise BadInput("no such file", got=name, expected="a Python file with Config and run()", where="evolvent")
        module = outside.run_file(file, outside.stamp(file))
        return _checked(System(file.stem, name, module, file))
    known, others = sorted(_modules("algos")), outside.brought("algos")
    if name in others and name not in known:
        module = others[name].load("a system")
        if not isinstance(module, ModuleType):
            expected = "a module with Config and run()"
            raise BadInput("not a system", got=type(module).__name__, expected=expected, where=others[name].package)
        return _checked(System(name, name, module))
    found = System(name, name, _load(name, list(others)))
    package, extra = found.kind.needs
    if package and importlib.util.find_spec(package) is None:
        raise missing_extra(package, extra, f"evolvent.algos.{name}")
    return found


def settings_of(name: str) -> type[Any]:
    """``Config`` of a system, for `--help`; those of the package have it where no extra is installed, too.

    Raises:
        BadInput: as ``system``.
    """
    return _import("algos", name).Config if name in _modules("algos") else system(name).Config


def defaults_of(name: str) -> Any:
    """The settings that a system has by default.

    Raises:
        BadInput: as ``system``; a file of your own whose settings raise, with its words, file and line.
    """
    return settings_of(name)() if name in _modules("algos") else system(name).settings()


def of_run(folder: RunFolder) -> System:
    """The system of a run folder: by its name, or the file that the folder keeps.

    Raises:
        BadInput: as ``system``, the folder is none of a system, or the file has changed since the run began.
    """
    place, algo = folder.path / SYSTEM, folder.manifest()["algo"]
    if algo in RECORDS:
        expected, do = "a folder of `evolvent run`", f"{folder.path}/report.html has what it came to"
        raise BadInput("no system made this folder", got=algo, expected=expected, where=str(folder.path), do=do)
    if sources.note(place) is None:
        return system(algo)
    return system(str(sources.original(place, "the file of the run's system")))


def _checked(found: System) -> System:
    """One from outside the package has what the command line needs."""
    config, run = getattr(found.module, "Config", None), getattr(found.module, "run", None)
    do = "see docs/your_own.md"
    if not (isinstance(config, type) and dataclasses.is_dataclass(config)):
        expected = "a frozen dataclass Config, a default for every field"
        raise BadInput("a system without settings", got=repr(config), expected=expected, where=found.asked, do=do)
    if not callable(run):
        expected = "def run(config, folder, live, *, resume=False)"
        raise BadInput("a system without run()", got=repr(run), expected=expected, where=found.asked, do=do)
    bare = [f.name for f in dataclasses.fields(config) if f.default is f.default_factory is dataclasses.MISSING]
    if bare:
        where = f"{found.asked}, Config"
        raise BadInput("settings without a default", got=", ".join(bare), expected="a default each", where=where, do=do)
    return found


def brought(package: str) -> tuple[list[Entry], list[str]]:
    """What installed packages bring to ``"algos"``, ``"credit"`` or ``"kinds"``, and what is wrong with the rest."""
    found: list[Entry] = []
    wrong: list[str] = []
    for name, one in outside.brought(package).items():
        try:
            if package == "algos":
                module = system(name).module
                constants = {key: value for key, value in vars(module).items() if key.isupper()}
                doc = inspect.getdoc(module) or ""
            elif package == "kinds":
                constants, doc = {}, _brought_kind(one).title
            else:
                rule = credit_rule(name)
                constants, doc = {"LEVEL": rule.LEVEL, "UNBIASED": rule.UNBIASED}, rule.summary
            found.append(Entry(name, doc.partition("\n")[0].rstrip("."), constants, one.package))
        except EvolventError as error:
            wrong.append(f"{name} of {one.package}: {error.got or error.what}")
    return found, wrong


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
        module = _import("credit", name)
        return rule_of(name, module.assign, module, "", whole=True)
    if short := [rule for rule in own if rule.partition("_")[2] == name]:
        if len(short) == 1:
            return credit_rule(short[0])
        raise BadInput("several credit rules have that name", got=name, expected=" or ".join(short), where="--rule")
    others = outside.brought("credit")
    if name not in others:
        hint = closest(name, [*own, *others])
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


def _load(name: str, others: Sequence[str]) -> ModuleType:
    known = sorted(_modules("algos"))
    if name not in known:
        hint = closest(name, [*known, *others])
        do = "see `evolvent list algos`"
        if name in ways():
            do = f"it is a way to search: evolvent run search --search {name}"
        raise BadInput("unknown algorithm", got=name, expected=hint, where="evolvent", do=do)
    try:
        return _import("algos", name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "evolvent":
            raise
        raise missing_extra(error.name, "train", f"evolvent.algos.{name}") from error


def _import(package: str, name: str) -> ModuleType:
    rule = package == "credit" and _modules(package)[name].parent.name == "rules"
    return importlib.import_module(f"evolvent.{'memory.rules' if rule else package}.{name}")


def _modules(package: str) -> dict[str, Path]:
    if package == "search":  # beside what they share
        return ways()
    return _modules_at(package, tuple(importlib.import_module(f"evolvent.{package}").__path__))


@functools.cache
def _modules_at(package: str, places: tuple[str, ...]) -> dict[str, Path]:
    every = [(Path(place), m) for place in places for m in pkgutil.iter_modules([place]) if m.name[0] != "_"]
    found = {m.name: place / (f"{m.name}/__init__.py" if m.ispkg else f"{m.name}.py") for place, m in every}
    if package == "credit":  # what settles a memory is a credit rule too
        rules = _modules("memory.rules").items()
        found |= {name: path for name, path in rules if "\nLEVEL = " in path.read_text(encoding="utf-8")}
    return found


@functools.cache
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
