"""`evolvent memory`: what a memory holds, what earned its place, what does harm; the ledger of one item; export."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import Positional

from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.evaluate.live import Live

if TYPE_CHECKING:
    from evolvent.memory.items import Item
    from evolvent.memory.memory import Memory

_TEXT_LIMIT = 60


def audit(store: Annotated[Path, Positional], *, top: int = 5, scope: str = "default", plain: bool = False) -> None:
    """Health of a memory, its most and least valuable items, and what was never tried.

    Args:
        store: a memory file, or a run folder that holds one.
        top: rows in each table.
        scope: which part of the store.
        plain: plain lines even on a terminal.
    """
    with closing(_open(store, scope)) as memory, Live(plain=True if plain else None) as live:
        health = memory.health()
        plain_numbers = [[name.replace("_", " "), value] for name, value in health.items() if not _nested(value)]
        live.table("Health", ["", "value"], plain_numbers)
        for name, value in health.items():
            if isinstance(value, dict) and value:
                live.table(name.replace("_", " "), ["", "value"], [[key, _flat(item)] for key, item in value.items()])
        items = memory.items()
        tried = sorted((item for item in items if item.n > 0), key=_worth, reverse=True)
        _table(live, "Most valuable", tried[:top])
        _table(live, "Least valuable", sorted(tried[top:], key=lambda item: (item.value, -item.n))[:top])
        untried = [item for item in items if item.n == 0]
        _table(live, f"Without any outcome yet: {len(untried)} of {len(items)}", untried[-top:])


def explain(
    store: Annotated[Path, Positional],
    subject: Annotated[str, Positional],
    *,
    scope: str = "default",
    json: bool = False,
) -> None:
    """The ledger of a memory (m3) or of a receipt (r7): who paid, when, and why.

    Args:
        store: a memory file, or a run folder that holds one.
        subject: id of a memory or of a receipt.
        scope: which part of the store.
        json: as JSON.
    """
    with closing(_open(store, scope)) as memory, Live(plain=True) as live:
        found = memory.explain(subject)
        live.note(dump(found.to_dict(), indent=2) if json else str(found))


def export(
    store: Annotated[Path, Positional], *, out: Path | None = None, scope: str = "default", status: str = "active"
) -> None:
    """Every memory as one JSON object a line.

    Args:
        store: a memory file, or a run folder that holds one.
        out: the file to write; standard output by default.
        scope: which part of the store.
        status: active, archived, …, or all.
    """
    with closing(_open(store, scope)) as memory, Live(plain=True) as live:
        items = memory.items(None if status == "all" else status)
        lines = [dump(dataclasses.asdict(item)) for item in items]
        if out is None:
            for line in lines:
                live.note(line)
        else:
            write_atomic(out, "".join(line + "\n" for line in lines))
            live.note(f"{len(lines)} memories → {out}")


def _open(store: Path, scope: str) -> Memory:
    from evolvent.memory.memory import Memory

    path = store / "memory.db" if store.is_dir() else store
    if not path.is_file():  # opening would create it
        expected = "a memory file, or a run folder that holds one"
        raise BadInput("there is no memory", got=str(store), expected=expected, where="evolvent memory")
    return Memory(path, scope=scope)


def _worth(item: Item) -> tuple[float, int]:
    """The value, less where few outcomes speak for it: the order of the report."""
    return (item.value * item.n / (item.n + 2.0), item.n)


def _table(live: Live, title: str, items: Sequence[Item]) -> None:
    if not items:
        return
    rows = [
        [item.id, item.value, item.lift, item.n, item.kind, item.source, _short(item.key), _short(item.body)]
        for item in items
    ]
    live.table(title, ["id", "value", "lift", "outcomes", "kind", "source", "when", "what"], rows)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _TEXT_LIMIT else text[: _TEXT_LIMIT - 1] + "…"


def _nested(value: Any) -> bool:
    return isinstance(value, dict | list)


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_flat(item)}" for key, item in value.items())
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _main(words: list[str]) -> None:
    commands = {"audit": audit, "explain": explain, "export": export}
    tyro.extras.subcommand_cli_from_dict(commands, args=words, prog="evolvent memory")


COMMANDS = {"memory": _main}
