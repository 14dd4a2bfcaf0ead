"""`evolvent memory lift`: does the memory help, and which of its memories; on the terminal, as JSON, as a page."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from evolvent.cli.memory.opening import Json, Scope, Where, place
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.evaluate.blocks import Bars, Headline, Number, Table, Text
from evolvent.evaluate.live import Live
from evolvent.memory.effect_report import By
from evolvent.memory.text import counted
from evolvent.memory.there import open_memory

_MOST = 40  # rows in a picture


def lift(
    store: Where,
    *,
    by: Annotated[
        By | None, arg(help="also the lift of each: note (item), its source or kind, week, stage, scope.")
    ] = None,
    objective: str = "success",
    since: str = "",
    html: Path | None = None,
    scope: Scope = "default",
    json: Json = False,
) -> None:
    """Whether a memory helps, from attempts that chance held out (Memory(holdout=True)), with an interval.

    Example: evolvent memory lift agent.db --by week --html lift.html

    Args:
        objective: name of the outcome that is compared.
        since: only recalls from then on (2026-11-20, 2026-11-20T18:30).
        html: also write a page to this file.
    """
    if html is not None:
        html = place(html, store)
    with closing(open_memory(store, scope)) as memory, Live(plain=True) as live:
        found = memory.lift(by, objective=objective, since=since or None)
        live.note(dump(found.to_dict(), indent=2) if json else str(found))
        if html is not None:
            write_atomic(html, page_of(found.to_dict(), str(store)))
            live.note(f"page → {html}")


def page_of(data: Mapping[str, Any], store: str) -> str:
    """The page: what can be said, the two averages, and a row for each part."""
    from evolvent.evaluate.pages.draw import draw
    from evolvent.evaluate.pages.page import page, text

    title = f"Does the memory help? {Path(store).name}"
    blocks: list[Any] = [Text(tuple(data["words"].split("\n")))]
    if data["lo"] is not None:
        averages = [_average(name, data[name]) for name in ("with", "without")]
        blocks.insert(0, Headline((_number("lift, points", data), *averages)))
    rows = data.get("groups") or data.get("items") or []
    measured = [row for row in rows if row["lo"] is not None]
    if measured:
        numbers = tuple(_number(_name(row), row) for row in measured[:_MOST])
        blocks.append(Bars("Lift of each in points, with its interval for it alone", numbers))
    if any(row["with"]["n"] or row["without"]["n"] for row in rows):
        blocks.append(_table(rows, data.get("by") or "note"))
    return page(title, [f"<header><h1>{text(title)}</h1></header>", draw(blocks, Path())])


def _name(row: Mapping[str, Any]) -> str:
    return str(row.get("id") or row["name"])


def _number(name: str, row: Mapping[str, Any]) -> Number:
    n = row["with"]["n"] + row["without"]["n"]
    lift, lo, hi = (_points(row[end]) for end in ("lift", "lo", "hi"))
    assert lo is not None and hi is not None
    return Number(name, lift, (lo, hi), n=n, over="outcomes")


def _points(share: float | None) -> float | None:
    """Whole points; a digit more where they would say 0."""
    if share is None:
        return None
    return float(f"{100.0 * share:.1g}") if 0.0 < abs(share) < 0.005 else round(100.0 * share)


def _average(name: str, arm: Mapping[str, Any]) -> Number:
    return Number(f"mean {name} it, {counted(arm['n'], 'outcome')}", arm["mean"], rate=True, n=arm["n"])


def _table(rows: list[Mapping[str, Any]], of: str) -> Table:
    """Named (measured) and withheld (what the policy does now) are two columns."""
    items = "id" in rows[0]
    columns = ("", "outcomes with", "without", "lift, points", "from", "to", "named" if items else "verdict")
    cells = [
        (
            _name(row),
            row["with"]["n"],
            row["without"]["n"],
            _points(row["lift"]),
            _points(row["lo"]),
            _points(row["hi"]),
            row["named"] if items else row["verdict"],
            *((row["withheld"], row["why"]) if items else (row["why"],)),
        )
        for row in rows
    ]
    more = ("withheld", "why") if items else ("why",)
    return Table((*columns, *more), tuple(cells), title=f"Each {of}", left=(0, 6, len(columns) + len(more) - 1))


COMMANDS = {"lift": lift}
