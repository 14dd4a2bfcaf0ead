"""Which memory a command speaks of: a file, a URL, or the one in a run folder; and the arguments of many commands."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from tyro.conf import Positional, arg

from evolvent.core.errors import BadInput

if TYPE_CHECKING:
    from evolvent.memory.memory import Memory

Where: TypeAlias = Annotated[str, Positional, arg(help="memory (file, or postgresql://…), or a run folder with one.")]
Id: TypeAlias = Annotated[str, Positional, arg(help="id of the memory (m3).")]
Ids: TypeAlias = Annotated[tuple[str, ...], Positional, arg(help="ids of memories (m3 m7).")]
Scope: TypeAlias = Annotated[str, arg(help="namespace within the store.")]
Reason: TypeAlias = Annotated[str, arg(help="text for the log.")]
DryRun: TypeAlias = Annotated[bool, arg(help="change nothing; report exactly what would change.")]
Json: TypeAlias = Annotated[bool, arg(help="print JSON.")]


def open_memory(store: str, scope: str | None) -> Memory:
    """The memory at a path, in a run folder or at a URL; never made new. ``None``: any scope that it has.

    Raises:
        BadInput: there is none, or it has no such scope.
    """
    from evolvent.memory.memory import Memory
    from evolvent.memory.store.opening import open_store

    path = store_path(store)
    with closing(open_store(path, create=False)) as opened:
        names = [row[0] for row in opened.rows("SELECT name FROM scope ORDER BY scope_id")]
    chosen = scope if scope is not None else (names or ["default"])[0]
    if chosen not in names:
        raise BadInput("there is no such scope", got=chosen, expected=", ".join(names) or "none: the store is empty",
                       where=store, do="give one with --scope")  # fmt: skip
    return Memory(path, scope=chosen)


def place(out: Path, store: str) -> Path:
    """Where a command writes a file: in a folder that is there, and not over the memory that it reads.

    Raises:
        BadInput: it cannot be written there.
    """
    path = store_path(store)
    if "://" not in path and out.exists() and out.samefile(path):
        raise BadInput("that file is the memory itself", got=str(out), expected="another file", where="evolvent memory")
    if not out.parent.is_dir():
        raise BadInput("there is no such folder", got=str(out.parent), where=str(out), do="create it, or give another")
    return out


def store_path(store: str) -> str:
    """The path or URL of a memory, also of the one in a run folder.

    Raises:
        BadInput: there is none.
    """
    if "://" in store:
        return store
    path = str(Path(store) / "memory.db") if Path(store).is_dir() else store
    if not Path(path).is_file():
        expected = "a memory file, or a run folder that holds one"
        raise BadInput("there is no memory", got=store, expected=expected, where="evolvent memory")
    return path
