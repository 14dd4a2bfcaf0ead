"""`evolvent memory audit|search|list|count|receipts|find|explain|verify`: what it holds, what earned its place."""

from __future__ import annotations

import re
import shlex
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from json import loads
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional, arg

from evolvent.cli.memory.opening import Json, Scope, Where, place
from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.evaluate.live import Live, count, percent, size
from evolvent.memory.items import Order
from evolvent.memory.memory import Memory
from evolvent.memory.text import short
from evolvent.memory.there import open_memory
from evolvent.runs.account.memories import health_label

_short = partial(short, limit=60)
_CREDIT = {"credits": "values changed", "moved": "change in all", "net": "change, net", "share": "share of change"}
# what the audit names one by one, in this order
_COLUMNS = {
    "harmful": ("Harmful", ["id", "why", "value", "n", "source"], "worst"),
    "poisoned": ("In use, and descended from what is not trusted", ["id", "root", "why", "depth"], "nearest"),
}


def _filter(text: str) -> dict[str, Any] | None:
    """A filter from the command line."""
    try:
        return loads(text) if text else None
    except ValueError as error:
        raise BadInput("the filter is no JSON", got=text, expected='e.g. {"repo": "x"}', where="--filter") from error


@dataclass(frozen=True)
class Which:
    """Which memories are meant."""

    status: str = "active"
    """active, expired, archived, quarantined, superseded, erased, or all."""
    filter: str = ""
    """only memories whose metadata hold this, e.g. '{"repo": "x", "year": {">=": 2020}}'."""
    kinds: tuple[str, ...] = ()
    """only memories of these kinds."""

    def given(self) -> dict[str, Any]:
        """As ``Memory.items`` and ``Memory.count`` take it."""
        status = None if self.status == "all" else self.status
        return {"status": status, "filter": _filter(self.filter), "kinds": self.kinds or None}


@dataclass(frozen=True)
class Part:
    """Which part of a long list is printed."""

    limit: int = 50
    """at most this many."""
    after: str = ""
    """only those after this id: the last one of the page before."""


def audit(
    store: Where,
    *,
    html: Path | None = None,
    top: int = 5,
    untrusted: tuple[str, ...] = (),
    near: float = 0.95,
    scope: Scope = "default",
    json: Json = False,
    plain: bool = False,
) -> None:
    """Health of a memory: which memories are most and least valuable, harmful, duplicate, untrusted or never used.

    Example: evolvent memory audit agent.db --html audit.html

    Args:
        html: also write a page with values over time, provenance and usage to this file.
        top: rows in each table.
        untrusted: sources that are not trusted; memories from them, and memories derived from these, are listed.
        near: cosine similarity of keys from which memories count as near duplicates.
        plain: plain text output even on a terminal.
    """
    from evolvent.cli.memory.audit import audit as audited

    if html is not None:
        html = place(html, store)  # refused before the audit, which may take long
    with closing(open_memory(store, scope)) as memory, Live(plain=True if plain or json else None) as live:
        data = audited(memory, top=top, untrusted=untrusted, near=near)
        if json:
            live.note(dump(data, indent=2))
        else:
            _tell(live, data)
        if html is not None:
            from evolvent.cli.memory.story import story
            from evolvent.evaluate.pages.audit_page import render

            write_atomic(html, render(story(memory, untrusted=untrusted, near=near)))
            live.note(f"page → {html}")


def search(
    store: Where,
    task: Annotated[str, Positional],
    *,
    k: int = 5,
    filter: str = "",
    scope: Scope = "default",
    json: Json = False,
) -> None:
    """What a memory would show for a task, best first. Nothing is written and nobody is credited.

    Example: evolvent memory search agent.db "reset the router" --k 5

    Args:
        task: what an agent would be asked.
        k: at most this many.
        filter: only memories whose metadata hold this, e.g. '{"repo": "x", "year": {">=": 2020}}'.
    """
    with closing(open_memory(store, scope)) as memory, Live(plain=True) as live:
        found = memory.search(task, k=k, filter=_filter(filter))
        if json:
            live.note(dump([asdict(item) for item in found], indent=2))
        else:
            rows = [[i.id, i.value, i.n, i.kind, _short(i.key), _short(i.body), i.why] for i in found]
            live.table(
                count(len(found), "memory", "memories"),
                ["id", "value", "outcomes", "kind", "when", "what", "why"],
                rows,
            )


def list_(
    store: Where,
    *,
    which: OmitArgPrefixes[Which] = Which(),
    order: Order = "oldest",
    part: OmitArgPrefixes[Part] = Part(),
    scope: Scope = "default",
    json: Json = False,
) -> None:
    """The memories of a store, page by page.

    Example: evolvent memory list agent.db --limit 20

    Args:
        order: oldest or newest first, by created (when it was experienced), value or number of outcomes.
    """
    with closing(open_memory(store, scope)) as memory, Live(plain=True) as live:
        items = memory.items(**which.given(), order=order, limit=part.limit, after=part.after or None)
        if json:
            live.note(dump([asdict(item) for item in items], indent=2))
            return
        rows = [
            [i.id, i.status, i.stage, i.value, i.n, i.kind, _short(i.key), _short(i.body), dump(i.metadata)]
            for i in items
        ]
        names = ["id", "status", "stage", "value", "outcomes", "kind", "when", "what", "metadata"]
        live.table(count(len(items), "memory", "memories"), names, rows)
        if len(items) == part.limit:
            live.note(f"perhaps more: --after {items[-1].id}")


def count_(store: Where, *, which: OmitArgPrefixes[Which] = Which(), scope: Scope = "default") -> None:
    """How many memories a store has.

    Example: evolvent memory count agent.db --status quarantined
    """
    with closing(open_memory(store, scope)) as memory, Live(plain=True) as live:
        live.note(str(memory.count(**which.given())))


def receipts(
    store: Where,
    *,
    open: bool = False,
    stage: str = "",
    before: str = "",
    filter: str = "",
    part: OmitArgPrefixes[Part] = Part(),
    scope: Scope = "default",
    json: Json = False,
) -> None:
    """The recalls of a store, oldest first, page by page: what was asked and shown, and whether there is an outcome.

    Example: evolvent memory receipts agent.db --open

    Args:
        open: only those without an outcome.
        stage: only of this stage.
        before: only older ones (2026-11-20, 2026-11-20T18:30).
        filter: only those that handed out a memory whose metadata hold this.
    """
    with closing(open_memory(store, scope)) as memory, Live(plain=True) as live:
        found = memory.receipts(
            settled=False if open else None,
            stage=stage or None,
            before=before or None,
            filter=_filter(filter),
            limit=part.limit,
            after=part.after or None,
        )
        if json:
            live.note(dump([asdict(one) for one in found], indent=2))
            return
        rows = [[r.id, "yes" if r.settled else "no", r.stage, _short(r.task), " ".join(r.shown)] for r in found]
        live.table(count(len(found), "receipt"), ["id", "settled", "stage", "task", "shown"], rows)
        if len(found) == part.limit:
            live.note(f"perhaps more: --after {found[-1].id}")


def find(store: Where, text: Annotated[str, Positional], *, scope: Scope = "default", json: Json = False) -> None:
    """Every trace of a text: in memories, tasks, actions, names of jobs, the log, and what is kept beside them.

    Example: evolvent memory find agent.db "anna@example.org"

    Args:
        text: in whatever case and with whatever spaces it is written there.
    """
    with closing(open_memory(store, scope)) as memory, Live(plain=True) as live:
        found = memory.find(text)
        if json:
            live.note(dump([asdict(one) for one in found], indent=2))
            return
        rows = [[trace.id, trace.where, _short(trace.text)] for trace in found]
        live.table(count(len(found), "trace"), ["id", "where", "text"], rows)


def explain(
    store: Where,
    subject: Annotated[str, Positional, arg(metavar="ID")],
    *,
    scope: Scope = "default",
    json: Json = False,
) -> None:
    """How a memory (m3) got its value, or what a recall (receipt r7) retrieved and why: every outcome and change.

    Example: evolvent memory explain agent.db m3

    Args:
        subject: id of a memory, or of the receipt of a recall; of what is kept elsewhere its id there.
    """
    from evolvent.memory.external import sequences

    with closing(open_memory(store, scope)) as memory, Live(plain=True) as live:
        if not (re.fullmatch(r"[mr]\d+", subject) or sequences(memory.bank.store, memory.bank.scope_id, subject)):
            do = f"evolvent memory audit {shlex.quote(store)} names them"
            raise BadInput(
                "not an id",
                got=subject,
                expected="m3 (a memory) or r7 (the receipt of a recall)",
                where="evolvent memory explain",
                do=do,
            )
        found = memory.explain(subject)
        live.note(dump(found.to_dict(), indent=2) if json else f"{found}{_attempt(memory, subject)}")


def _attempt(memory: Memory, subject: str) -> str:
    """Which evidence gave the outcome of a receipt, where a server keeps attempts beside the store."""
    from evolvent.serve.attempts import Attempts, attempts_of
    from evolvent.serve.telling import words

    path = attempts_of(Path(f"{memory.path}.tokens"))
    if not subject.startswith("r") or not path.is_file():
        return ""
    try:
        with closing(Attempts(path)) as attempts:
            found = attempts.of_receipt(memory.scope, subject, time.time())
    except (OSError, sqlite3.Error) as error:
        return f"\n  its attempt cannot be read: {path}: {error}"
    return "" if found is None else f"\n{words(found)}"


def verify(store: Where, *, embed: bool = False) -> None:
    """Check the integrity of a store: hashes, vectors, values against logged events. Exit code 2 if a check fails.

    Example: evolvent memory verify agent.db

    Args:
        embed: also embed every key again and compare (slow; needs the embedding model).
    """
    from evolvent.memory.maintenance.verify import verify as verified

    with closing(open_memory(store, None)) as memory, Live(plain=True) as live:
        found = verified(memory, embed=embed)
        for finding in found:
            live.note(str(finding))
        if found:
            raise BadInput("the store is not as it was written", got=f"{len(found)} findings", where=store)
        live.note("every check passed")


# ---------------------------------------------------------------------------------------------------- the audit
def _tell(live: Live, data: Mapping[str, Any]) -> None:
    numbers = (
        "items",
        "coverage",
        "nonzero",
        "updates_per_item",
        "never_shown",
        "recalls",
        "test_recalls",
        "empty_recalls",
        "settled",
        "invalid_outcomes",
        "merged",
        "gate",
        "gate_top_fifth",
    )
    rows = [list(health_label(name, data[name])) for name in numbers]
    rows += [[f"{status} memories", count] for status, count in data["by_status"].items() if status != "active"]
    rows.append(["unsettled receipts", data["unsettled"]["receipts"]])
    for name, found in (("same body, other key", "same_body"), ("near duplicates", "near")):
        d = data["duplicates"][found]
        rows.append([name, f"{d['memories']} in {count(d['groups'], 'group')}" if d["memories"] else 0])
    if data["bytes"]:
        rows.append(["on disk", size(sum(data["bytes"].values()))])
    live.table("Health", ["", "value"], rows)
    if set(data["stages"]) - {"solve"}:
        stages = [[name, s["tried"], s["updates"], s["mean_value"]] for name, s in data["stages"].items()]
        live.table("Values by stage", ["stage", "memories with an outcome", "outcomes", "mean value"], stages)
    for warning in data["warnings"]:
        live.note(f"! {warning}")
    for title, who in (("by source of the outcome", "by_outcome"), ("by source of the memory", "by_memory")):
        _by_name(live, f"Credit {title}", data["credit"][who])
    _memories(live, "Most valuable (few outcomes count less)", data["most_valuable"])
    _memories(live, "Least valuable", data["least_valuable"])
    for name, (title, columns, key) in _COLUMNS.items():
        found = data[name]
        if found["memories"]:
            cells = [[row[column] for column in columns] for row in found[key]]
            live.table(f"{title}: {found['memories']}", columns, cells)
    groups = data["duplicates"]["near"]["largest"]
    if groups:
        live.table("Near duplicates, largest groups", ["memories"], [[", ".join(group)] for group in groups])
    untried = data["items"] - round(data["coverage"] * data["items"])
    _memories(live, f"Without any outcome yet: {untried} of {data['items']}", data["untried"])
    if data["acts"]:
        cells = [[a["id"], a["verb"], a["target"], a["memories"], a["reason"]] for a in data["acts"]]
        live.table("Latest acts", ["id", "act", "of", "memories", "reason"], cells)


def _by_name(live: Live, title: str, rows: Mapping[str, Mapping[str, Any]]) -> None:
    if not rows:
        return
    columns = list(next(iter(rows.values())))
    names = [_CREDIT.get(column, column.replace("_", " ")) for column in columns]
    shown = [{**row, "share": percent(row["share"])} for row in rows.values()]
    live.table(title, ["", *names], [[who, *(row[c] for c in columns)] for who, row in zip(rows, shown, strict=True)])


def _memories(live: Live, title: str, items: Sequence[Mapping[str, Any]]) -> None:
    if not items:
        return
    rows = [
        [
            i["id"],
            i["stage"],
            i["value"],
            i["adds"].removeprefix("what it ").removeprefix("adds").lstrip(": ") or None,
            i["n"],
            i["kind"],
            i["source"],
            _short(i["key"]),
            _short(i["body"]),
        ]
        for i in items
    ]
    live.table(title, ["id", "stage", "value", "adds", "outcomes", "kind", "source", "when", "what"], rows)


COMMANDS = {
    "audit": audit,
    "search": search,
    "list": list_,
    "count": count_,
    "receipts": receipts,
    "find": find,
    "explain": explain,
    "verify": verify,
}
