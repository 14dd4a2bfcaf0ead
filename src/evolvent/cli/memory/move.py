"""`evolvent memory export|import|migrate|digest`: a whole memory as a file, in another file or in another engine."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional

from evolvent.cli.memory.opening import open_memory, store_path
from evolvent.core.errors import BadInput, StoreError
from evolvent.core.jsonfile import dump, mask_secrets, write_atomic
from evolvent.evaluate.live import Live

if TYPE_CHECKING:
    from evolvent.memory.maintenance.transfer import Moved
    from evolvent.memory.store.engine import Store


def export(
    store: Annotated[str, Positional],
    *,
    out: Path | None = None,
    items: bool = False,
    scope: str = "default",
    status: str = "active",
) -> None:
    """A whole memory as JSON lines, with all its history: what `import` reads. Or a readable list of its memories.

    Args:
        store: a memory (file, or postgresql://…), or a run folder that holds one.
        out: the file to write; standard output by default.
        items: only the memories, one object a line, with key, body and value; this cannot be imported.
        scope: which part of the store, for --items; an export is always whole.
        status: active, archived, … or all, for --items.
    """
    if items:
        _list(store, out, scope, status)
        return
    from evolvent.memory.maintenance import transfer

    with closing(_existing(store)) as opened:
        if out is None:
            transfer.export_jsonl(opened, sys.stdout.buffer)
            return
        done = transfer.export_jsonl(opened, out)
    _tell(done, f"{store} → {out}")


def import_(store: Annotated[str, Positional], file: Annotated[Path, Positional], *, dry_run: bool = False) -> None:
    """Read an export into a store that does not exist yet, or is empty: all of it, compared by digest, or nothing.

    Args:
        store: the memory to make (file, or postgresql://…).
        file: what `export` wrote.
        dry_run: make nothing; read it all into a temporary store, and tell.
    """
    from evolvent.memory.maintenance import transfer
    from evolvent.memory.store.opening import open_store

    if dry_run:
        _tell(_rehearsed(store, lambda target: _import(target, file)), f"{file} → {store}", dry_run=True)
        return
    if not file.is_file():  # before a store is made
        raise BadInput("there is no such file", got=str(file), where="evolvent memory import")
    with closing(open_store(store)) as opened:
        done = transfer.import_jsonl(opened, file)
    _tell(done, f"{file} → {store}")


def migrate(source: Annotated[str, Positional], target: Annotated[str, Positional], *, dry_run: bool = False) -> None:
    """Copy a memory into another file or engine (postgresql://…): all of it, compared by digest, or nothing.

    Args:
        source: the memory to copy; it stays as it is.
        target: a file or URL that does not exist yet, or is empty.
        dry_run: make nothing; copy it all into a temporary store, and tell.
    """
    from evolvent.memory.maintenance import transfer

    path = store_path(source)
    if dry_run:
        told = _rehearsed(target, lambda temporary: transfer.migrate(path, temporary))
        _tell(told, f"{source} → {target}", dry_run=True)
        return
    _tell(transfer.migrate(path, target), f"{source} → {target}")


def digest(store: Annotated[str, Positional]) -> None:
    """One line that is equal for equal memories, in whichever engine: the SHA-256 of its export.

    Args:
        store: a memory, or a run folder that holds one.
    """
    from evolvent.memory.maintenance import transfer

    with closing(_existing(store)) as opened, Live(plain=True) as live:
        live.note(transfer.digest(opened))


def _list(store: str, out: Path | None, scope: str, status: str) -> None:
    with closing(open_memory(store, scope)) as memory, Live(plain=True) as live:
        lines = [dump(dataclasses.asdict(item)) for item in memory.items(None if status == "all" else status)]
        if out is None:
            for line in lines:
                live.note(line)
        else:
            write_atomic(out, "".join(line + "\n" for line in lines))
            live.note(f"{len(lines)} memories → {out}")


def _existing(store: str) -> Store:
    from evolvent.memory.store.opening import open_store

    return open_store(store_path(store), create=False)


def _import(target: Path, file: Path) -> Moved:
    from evolvent.memory.maintenance import transfer
    from evolvent.memory.store.opening import open_store

    with closing(open_store(target)) as opened:
        return transfer.import_jsonl(opened, file)


def _rehearsed(target: str, run: Callable[[Path], Moved]) -> Moved:
    """What a copy into a temporary store gives, and the refusal that the real target would meet."""
    from evolvent.memory.store.engine import NoMemory
    from evolvent.memory.store.opening import open_store

    # a place that is still free is what is wanted
    with suppress(NoMemory), closing(open_store(target, create=False)) as opened:
        if n := opened.rows("SELECT count(*) FROM scope")[0][0]:
            do = "give a path or URL that does not exist yet"
            raise StoreError("the target is not empty", got=f"{n} scopes", where=opened.where, do=do)
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder) / "rehearsal.db")


def _tell(done: Moved, what: str, *, dry_run: bool = False) -> None:
    with Live(plain=True) as live:
        rows = [[table, count] for table, count in done.rows.items() if count]
        live.table(mask_secrets(what), ["table", "rows"], rows)  # a URL may hold a password
        live.note(f"\nsha256 {done.digest}")
        if dry_run:
            live.note("dry run: nothing was made")


COMMANDS = {"export": export, "import": import_, "migrate": migrate, "digest": digest}
