"""What stands outside the package: a Python file, a name in a module, what an installed package brings.

``file.py``, ``file.py:name`` and ``package.module:name`` point at it, each with options after a comma where those are
taken (``file.py:make,size=3``). An installed package brings things by entry points of the groups ``evolvent.algos``,
``evolvent.envs``, ``evolvent.credit`` and ``evolvent.kinds``. A file is run when it is loaded: use only what you trust.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import re
import sys
import traceback
import zlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from evolvent.core.errors import BadInput, EvolventError, closest

_FILE = re.compile(r"(?P<home>(?:(?!=\[)[^:])+\.py)(?::(?P<name>\w*))?(?:,(?P<options>.*))?", re.S)
_MODULE = re.compile(r"(?P<home>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+):(?P<name>[A-Za-z_]\w*)(?:,(?P<options>.*))?", re.S)


@dataclass(frozen=True)
class Pointer:
    """``home`` is a file or a module; ``name`` what is meant in it, ``""`` where that is not said."""

    home: str
    name: str
    options: str

    @property
    def file(self) -> Path | None:
        """The file, absolute; ``None`` for a module."""
        return Path(self.home).expanduser().resolve() if self.home.endswith(".py") else None


def pointer(text: str) -> Pointer | None:
    """What ``text`` points at, where it is written like something outside the package."""
    found = _FILE.fullmatch(text) or _MODULE.fullmatch(text)
    return Pointer(found["home"], found["name"] or "", found["options"] or "") if found else None


def load(at: Pointer, what: str, names: Sequence[str]) -> tuple[ModuleType, str, Any]:
    """The module, the name and the object that a pointer means.

    ``what`` it is, for errors ("a credit rule"); ``names`` are looked for in order where the pointer names nothing.

    Raises:
        BadInput: no such file, module or name, or the file does not run.
    """
    module = module_of(at, f"a Python file with {what}")
    name = at.name or next((name for name in names if hasattr(module, name)), "")
    if not name or not hasattr(module, name):
        own = own_names(module)
        raise BadInput(
            f"the name of {what} is not in the file" if name else f"the file has nothing that is {what} by its name",
            got=name or f"{at.home} with {', '.join(own) or 'nothing'}",
            expected=closest(name, own) if name else " or ".join(names),
            where=at.home,
            do=f"define it, or name what is there: {at.home}:NAME",
        )
    return module, name, getattr(module, name)


@functools.lru_cache(maxsize=8)
def run_file(path: Path, version: tuple[int, int]) -> ModuleType:
    """Load a file as a module; it runs again only when its ``version`` has changed: copies share what it builds.

    Whoever asks for it gets the same module. It may import what stands beside it, as a script may; what is installed
    comes first.

    Raises:
        BadInput: it does not run; says on which of its lines.
    """
    name = re.sub(r"\W", "_", f"outside_{path.stem}_{zlib.crc32(bytes(path)):08x}")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        with own_faults(str(path), "the file does not run"):
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(spec.name, None)
        raise
    return module


@contextlib.contextmanager
def own_faults(
    home: str, what: str, *, where: str = "", do: str = "", but: tuple[type[Exception], ...] = ()
) -> Generator[None]:
    """Turn an exception of the user's code into an error with its text, file and line, and ``where``.

    Exceptions of the kinds ``but``, and this package's own errors, pass through.
    """
    try:
        yield
    except (EvolventError, *but):
        raise
    except (Exception, SystemExit) as error:  # ``sys.exit`` in it is no wish of who started the run
        place = line_of(error, home) + (f"; {where}" if where else "")
        raise BadInput(what, got=f"{type(error).__name__}: {error}", where=place, do=do) from error


def stamp(path: Path) -> tuple[int, int]:
    """What changes when a file does: time and size."""
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


# -------------------------------------------------------------------------------------------- installed packages
@dataclass(frozen=True)
class Brought:
    """Something that an installed package brings: its name here, the package, and where it stands."""

    name: str
    package: str
    entry: importlib.metadata.EntryPoint

    def load(self, what: str) -> Any:
        """The object.

        Raises:
            BadInput: it does not load; names the package and the exception.
        """
        try:
            return self.entry.load()
        except EvolventError:
            raise
        except Exception as error:
            raise BadInput(
                f"{what} of an installed package does not load",
                got=f"{type(error).__name__}: {error}",
                where=f"{self.name} of {self.package} ({self.entry.value}): {line_of(error)}",
                do=f"repair or remove the package {self.package}",
            ) from error


def brought(group: str) -> dict[str, Brought]:
    """What installed packages bring under ``evolvent.<group>``, by name; the first of two with one name."""
    found: dict[str, Brought] = {}
    for entry in importlib.metadata.entry_points(group=f"evolvent.{group}"):
        package = entry.dist.name if entry.dist else "an unknown package"
        found.setdefault(entry.name, Brought(entry.name, package, entry))
    return dict(sorted(found.items()))


def module_of(at: Pointer, expected: str) -> ModuleType:
    """The module that a pointer names; a file is run. ``expected`` is for errors: "a Python file with a credit rule".

    Raises:
        BadInput: no such file or module, or it does not run.
    """
    path = at.file
    if path is not None:
        if not path.is_file():
            raise BadInput("no such file", got=at.home, expected=expected, where=str(path.parent))
        return run_file(path, stamp(path))
    try:
        with own_faults(at.home, "the module does not run"):
            return importlib.import_module(at.home)
    except BadInput as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and cause.name and at.home.startswith(cause.name):
            do = "install it, or put its folder on PYTHONPATH"
            raise BadInput("no such module", got=cause.name, expected=expected, where=at.home, do=do) from cause
        raise


def own_names(module: ModuleType) -> list[str]:
    """The public functions and classes that a module defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if name[0] != "_"
        and (inspect.isfunction(value) or inspect.isclass(value))
        and getattr(value, "__module__", None) == module.__name__
    ]


def line_of(error: BaseException, home: str = "") -> str:
    """File and line of an exception: the innermost in the file ``home``, or else outside this package."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    ours = str(Path(__file__).parents[1])
    inside = [frame for frame in frames if frame.filename == home]
    others = [frame for frame in frames if not frame.filename.startswith((ours, "<"))]
    inside = inside or [frame for frame in others if "site-packages" not in frame.filename] or others or frames[-1:]
    if not inside:
        return home
    last = inside[-1]
    return f"{last.filename}, line {last.lineno}, in {last.name}" + (f": {last.line}" if last.line else "")
