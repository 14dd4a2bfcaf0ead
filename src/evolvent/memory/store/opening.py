"""Open a store by its path or URL: the one place that knows both engines."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from evolvent.core.errors import BadInput, missing_extra
from evolvent.memory.store.engine import Store, Sync
from evolvent.memory.store.sqlite import SQLite
from evolvent.memory.text import among_words


def open_store(path: str | Path, *, sync: Sync = "full", create: bool = True) -> Store:
    """Open a store.

    Args:
        path: file, ``":memory:"``, or ``postgresql://…``.
        sync: "full" waits for the disk at each commit (nothing acknowledged is ever lost); "normal" may lose the last
            commits when the machine loses power, never when the process dies; the store stays consistent either way.
        create: make it when it is new.

    Raises:
        NoMemory: there is none, and it is not to be made.
        BadInput: not a path or URL of an engine.
        StoreError: the store cannot be opened, is damaged, or is not a memory of this version.
    """
    if not isinstance(path, str | Path) or not str(path):
        raise BadInput(
            "not a path",
            got=path,
            expected="a file, ':memory:' or postgresql://…",
            where="Memory(path)",
            code="not_a_path",
        )
    if not among_words(sync, ("full", "normal")):
        raise BadInput(
            "unknown sync level", got=sync, expected="'full' or 'normal'", where="open_store", code="unknown_option"
        )
    scheme = str(path).partition("://")[0] if "://" in str(path) else ""
    if scheme in ("postgresql", "postgres"):
        try:
            from evolvent.memory.store.postgres import Postgres
        except ImportError as error:
            raise missing_extra("psycopg", "postgres", "a memory at postgresql://…") from error
        return Postgres(str(path), sync=sync, create=create)
    if scheme:
        expected = "a file path, ':memory:' or postgresql://…"
        raise BadInput(
            "no engine for this URL", got=f"{scheme}://…", expected=expected, where="open_store", code="not_a_path"
        )
    _checked_path(str(path))
    return SQLite(path, sync=sync, create=create)


def _checked_path(path: str) -> None:
    """``BadInput`` for what the system cannot take for a path: other calls would say so in words of their own."""
    try:
        os.stat(path)
    except ValueError as error:
        raise BadInput(
            "not a path", got=ascii(path), expected="a file or ':memory:'", where="Memory(path)", code="not_a_path"
        ) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise BadInput(
                "the path is too long",
                got=f"{len(path)} characters",
                expected="what the file system takes",
                where="Memory(path)",
                code="not_a_path",
            ) from error
