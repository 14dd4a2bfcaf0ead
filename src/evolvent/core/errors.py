"""Errors that speak: what was got, what was expected, where, and what to do about it."""

from __future__ import annotations

import difflib
import importlib
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_ALONE = ("vllm", "verifiers", "gguf")  # extras that pin packages of their own, and want an environment for themselves


class _Unsaid(str):
    """Empty text where nothing was said; ``None`` and ``""`` that were given are printed."""


_UNSAID = _Unsaid()


class EvolventError(Exception):
    """Base of every error that Evolvent raises on purpose.

    Args:
        what: one clause naming the problem, e.g. ``"reward is not finite"``.
        got: the offending value or a short description of it.
        expected: what would have been accepted.
        where: the place (function, file and line of a data file, database path).
        do: what the user can do next.
        code: a short name that stays the same across versions, for programs; "" where none was given.
    """

    def __init__(
        self, what: str, *, got: object = _UNSAID, expected: object = "", where: str = "", do: str = "", code: str = ""
    ) -> None:
        self.code = code
        self.what, self.got, self.expected, self.where, self.do = what, got, expected, where, do
        parts = [what] if isinstance(got, _Unsaid) else [what, f"  got: {_short(got)}"]
        for label, value in (("expected", expected), ("where", where), ("do", do)):
            if value is not None and not (isinstance(value, str) and value == ""):
                parts.append(f"  {label}: {_short(value)}")
        super().__init__("\n".join(parts))


class BadInput(EvolventError, ValueError):
    """A value, file or flag that cannot be used as given."""


class MissingExtra(EvolventError, ImportError):
    """An optional dependency is not installed; ``do`` names the extra that brings it."""


class StoreError(EvolventError, RuntimeError):
    """A memory store that cannot be opened, read or written as asked; what was stored is intact."""


class ModelError(EvolventError, RuntimeError):
    """A model that cannot be loaded or that failed to answer."""


class EnvError(EvolventError, RuntimeError):
    """An environment that cannot be started or that broke a rule of its protocol."""


def missing_extra(package: str, extra: str, where: str, otherwise: str = "") -> MissingExtra:
    """The error for an import that failed: names the package and the extra to install, and what does without it."""
    return MissingExtra(
        f"{package} is not installed",
        expected=f"the optional dependency group '{extra}'",
        where=where,
        do=install(extra) + (f"\n      or without it: {otherwise}" if otherwise else ""),
        code="missing_extra",
    )


def optional(module: str, extra: str, where: str) -> Any:
    """A module of an optional package.

    Raises:
        MissingExtra: the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing_extra(module.partition(".")[0], extra, where) from error


def install(extra: str) -> str:
    """The command that installs an optional dependency group, in the form that fits how this package was installed.

    From a checkout: there, with its constraints. From a wheel, an archive or a repository: from the same place again.
    Otherwise from an index, by name.
    """
    clone = Path(__file__).parents[3]
    if (clone / "constraints.txt").exists():
        constrained = "" if extra in _ALONE else "-c constraints.txt "
        return f"cd {shlex.quote(str(clone))} && pip install {constrained}-e '.[{extra}]'"
    origin = _origin()
    return f"pip install {shlex.quote(f'evolvent[{extra}]' + (f' @ {origin}' if origin else ''))}"


def _origin() -> str:
    """Where pip got this package from, as a requirement names it (PEP 610); "" = from an index."""
    import importlib.metadata
    import json

    try:
        record = json.loads(importlib.metadata.distribution("evolvent").read_text("direct_url.json") or "{}")
    except importlib.metadata.PackageNotFoundError:
        return ""
    if version := record.get("vcs_info"):
        return f"{version['vcs']}+{record['url']}@{version['commit_id']}"
    return str(record.get("url", ""))


def closest(name: str, known: Iterable[str]) -> str:
    """What to expect instead of ``name``: the nearest of the known names, and all of them (of a long list some)."""
    names = list(known)
    near = nearest(name, names, cutoff=0.5)
    shown = ", ".join(names) if len(names) <= 40 else f"{', '.join(names[:10])} and {len(names) - 10} more"
    return f"{f'did you mean {near!r}? ' if near else ''}known: {shown or 'none'}"


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that ``name`` is written most like, or the first that holds it, such as a family's; or none."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=cutoff)
    part = [one for one in names if len(name) > 2 and name in one]
    return (near or part or [None])[0]


def _short(value: object, limit: int = 300) -> str:
    try:
        text = value if isinstance(value, str) and value.strip() else repr(value)
    except Exception:  # noqa: BLE001  another's ``__repr__``, or nesting without end
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else text[: limit - 1] + "…"
