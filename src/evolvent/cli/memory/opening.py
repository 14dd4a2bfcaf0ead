"""The arguments of many commands about a memory, and where they write."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from tyro.conf import Positional, arg

from evolvent.core.errors import BadInput
from evolvent.memory.there import store_path

Where: TypeAlias = Annotated[str, Positional, arg(help="memory (file, or postgresql://…), or a run folder with one.")]
Id: TypeAlias = Annotated[str, Positional, arg(help="id of the memory (m3).")]
Ids: TypeAlias = Annotated[tuple[str, ...], Positional, arg(help="ids of memories (m3 m7).")]
Scope: TypeAlias = Annotated[str, arg(help="namespace within the store.")]
Reason: TypeAlias = Annotated[str, arg(help="text for the log.")]
DryRun: TypeAlias = Annotated[bool, arg(help="change nothing; report exactly what would change.")]
Json: TypeAlias = Annotated[bool, arg(help="print JSON.")]


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
