"""`evolvent memory export|import|migrate|reembed|digest`: a whole memory in a file, another engine or other vectors."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional

from evolvent.cli.memory.opening import Where, place
from evolvent.core.errors import StoreError
from evolvent.core.jsonfile import dump, mask_secrets, write_atomic
from evolvent.evaluate.live import Live, count
from evolvent.memory.there import open_memory, store_path

if TYPE_CHECKING:
    from evolvent.memory.maintenance.transfer import Moved
    from evolvent.memory.store.engine import Store


def export(
    store: Where,
    *,
    out: Path | None = None,
    items: bool = False,
    scope: str = "default",
    status: str = "active",
) -> None:
    """Export a memory with its whole history as JSON lines, for `import`; or only a readable list of its memories.

    Example: evolvent memory export agent.db --out agent.jsonl

    Args:
        out: file to write; default: standard output.
        items: only the memories, one JSON object per line with key, body and value; cannot be imported.
        scope: namespace within the store, for --items; otherwise everything is exported.
        status: active, archived, … or all, for --items.
    """
    if out is not None:
        out = place(out, store)
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
    """Import an export into a new or empty store. It is verified by its digest; on an error nothing is written.

    Example: evolvent memory import new.db agent.jsonl --dry-run

    Args:
        store: memory to create (file, or postgresql://…).
        file: file written by `export`.
        dry_run: import into a temporary store only, and report.
    """
    from evolvent.memory.maintenance import transfer

    _copy(store, lambda target: transfer.import_jsonl(target, file), f"{file} → {store}", dry_run)


def migrate(source: Annotated[str, Positional], target: Annotated[str, Positional], *, dry_run: bool = False) -> None:
    """Copy a memory to a new file or database (postgresql://…). Verified by its digest; on an error nothing is written.

    Example: evolvent memory migrate agent.db postgresql://localhost/agent

    Args:
        source: memory to copy; it is not changed.
        target: file or URL that does not exist yet, or is empty.
        dry_run: copy into a temporary store only, and report.
    """
    from evolvent.memory.maintenance import transfer

    path = store_path(source)
    _copy(target, lambda new: transfer.migrate(path, new), f"{source} → {target}", dry_run)


def reembed(store: Where, *, embedder: str) -> None:
    """Change the embedder of a memory. It can be stopped and started again, and stays usable meanwhile.

    Example: evolvent memory reembed agent.db --embedder hash:256

    Args:
        embedder: name of the new embedder (all-MiniLM-L6-v2, a sentence-transformers model, openai:MODEL@URL).
    """
    from evolvent.memory.maintenance import reembed as again

    with closing(_existing(store)) as opened, Live() as live:
        n = again.reembed(
            opened, embedder, progress=lambda done, total, _: live.progress(done / total, [f"{done} of {total} keys"])
        )
        live.note(f"{count(n, 'key')} embedded; the embedder is now {opened.meta_get('embedder')}")


def digest(store: Where) -> None:
    """SHA-256 of a memory's export: equal for equal memories, whatever the database.

    Example: evolvent memory digest agent.db
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
            live.note(f"{count(len(lines), 'memory', 'memories')} → {out}")


def _existing(store: str) -> Store:
    from evolvent.memory.store.opening import open_store

    return open_store(store_path(store), create=False)


def _copy(target: str, run: Callable[[str | Path], Moved], what: str, dry_run: bool) -> None:
    """Fill the target, or rehearse that, and tell."""
    _tell(_rehearsed(target, run) if dry_run else run(target), what, dry_run=dry_run)


def _rehearsed(target: str, run: Callable[[str | Path], Moved]) -> Moved:
    """What a copy into a temporary store gives, and the refusal that the real target would meet."""
    from evolvent.memory.store.engine import NoMemory
    from evolvent.memory.store.opening import open_store

    # a place that is still free is what is wanted
    with suppress(NoMemory), closing(open_store(target, create=False)) as opened:
        if n := opened.rows("SELECT count(*) FROM scope")[0][0]:
            do = "give a path or URL that does not exist yet"
            raise StoreError("the target is not empty", got=count(n, "scope"), where=opened.where, do=do)
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder) / "rehearsal.db")


def _tell(done: Moved, what: str, *, dry_run: bool = False) -> None:
    with Live(plain=True) as live:
        rows = [[table, count] for table, count in done.rows.items() if count]
        live.table(mask_secrets(what), ["table", "rows"], rows)  # a URL may hold a password
        live.note(f"\nsha256 {done.digest}")
        if dry_run:
            live.note("dry run: nothing was made")


COMMANDS = {"export": export, "import": import_, "migrate": migrate, "reembed": reembed, "digest": digest}
