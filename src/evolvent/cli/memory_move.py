"""`evolvent memory export`: a memory as JSON lines, whole or as a readable list."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from evolvent.core.jsonfile import dump, write_atomic
from evolvent.evaluate.live import Live


def export(
    store: Annotated[str, Positional], *, out: Path | None = None, scope: str = "default", status: str = "active"
) -> None:
    """Every memory as one JSON object a line.

    Args:
        store: a memory file, or a run folder that holds one.
        out: the file to write; standard output by default.
        scope: which part of the store.
        status: active, archived, …, or all.
    """
    from evolvent.cli.memory import open_memory

    with closing(open_memory(store, scope)) as memory, Live(plain=True) as live:
        items = memory.items(None if status == "all" else status)
        lines = [dump(dataclasses.asdict(item)) for item in items]
        if out is None:
            for line in lines:
                live.note(line)
        else:
            write_atomic(out, "".join(line + "\n" for line in lines))
            live.note(f"{len(lines)} memories → {out}")


COMMANDS = {"export": export}
