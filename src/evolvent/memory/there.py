"""A memory that is there already: by its file, by the run folder that holds it, or by its URL; never made new."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from evolvent.core.errors import BadInput

if TYPE_CHECKING:
    from evolvent.memory.memory import Memory
    from evolvent.memory.rule import Policy


def open_memory(
    store: str, scope: str | None = None, *, policy: str | Policy = "memlift", where: str = "evolvent memory"
) -> Memory:
    """The memory at a path, in a run folder or at a URL.

    Args:
        store: which one.
        scope: ``None`` = any scope that it has.
        policy: of its recalls.
        where: named in errors.

    Raises:
        BadInput: there is none, or it has no such scope.
    """
    # here and not above: a command line that only asks where a memory is loads no engine
    from evolvent.memory.memory import Memory
    from evolvent.memory.store.opening import open_store

    path = store_path(store, where)
    with closing(open_store(path, create=False)) as opened:
        names = [row[0] for row in opened.rows("SELECT name FROM scope ORDER BY scope_id")]
    chosen = scope if scope is not None else (names or ["default"])[0]
    if chosen not in names:
        flag = "--scope NAME" if where == "evolvent memory" else "scope=NAME"
        raise BadInput(
            "there is no such scope",
            got=chosen,
            expected=", ".join(names) or "none: the store is empty",
            where=store,
            code="unknown_scope",
            do=f"give one: {flag}",
        )
    return Memory(path, scope=chosen, policy=policy)


def store_path(store: str, where: str = "evolvent memory") -> str:
    """The path or URL of a memory, also of the one in a run folder.

    Raises:
        BadInput: there is none.
    """
    if "://" in store:
        return store
    path = str(Path(store).expanduser())
    path = str(Path(path) / "memory.db") if Path(path).is_dir() else path
    if not Path(path).is_file():
        expected = "a memory file, or a run folder that holds one"
        raise BadInput("there is no memory", got=store, expected=expected, where=where, code="not_a_path")
    return path
