"""`evolvent check functions fc/`: whether a data set of calls is what it should be, and what needs no training."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput, ModelError
from evolvent.core.jsonfile import lines, write_atomic
from evolvent.core.protocols import Embedder
from evolvent.data.calls import written
from evolvent.data.fits import call_faults, unchecked
from evolvent.data.masking import left, unmask
from evolvent.data.pickers import COLUMNS, Scores, baselines
from evolvent.data.renaming import flat, is_name
from evolvent.data.rows import SPLITS, Row, of_training, read_rows
from evolvent.evaluate.blocks import Block, Section, Table, Text
from evolvent.evaluate.live import Live, count, interval
from evolvent.formulas.statistics import wilson

_SHOWN, _ON_PAGE = 3, 50
"""Masked rows that are shown beside what was logged: on the terminal, and on a page."""
_FAULTS, _TITLE = 20, 100
"""Faults on the terminal, and letters of a title."""


@dataclass
class Report:
    """``faults`` must not be; ``facts`` are counts by what they count; ``changed`` are masked rows and the logged."""

    faults: list[str] = field(default_factory=list[str])
    facts: dict[str, str | int] = field(default_factory=dict[str, "str | int"])
    changed: list[tuple[Row, Row]] = field(default_factory=list[tuple[Row, Row]])


def check_functions(folder: Path, live: Live, *, table: bool = False, html: Path | None = None) -> bool:
    """Check a folder of ``evolvent data functions``, show what was found; whether there is no fault.

    Args:
        folder: it, or its rows.jsonl.
        live: the terminal.
        table: show what pickers that need no training reach on the held-out rows.
        html: a page with the same, and more of what masking has changed; ``None`` = none.

    Raises:
        BadInput: no such folder, what is in it is not of that command, or the page cannot be written.
    """
    rows = read_rows(folder / "rows.jsonl" if folder.is_dir() else folder)
    train = folder / "train.jsonl"
    report = inspected(rows, list(lines(train)) if train.is_file() else [])
    telling = sorted(report.changed, key=lambda pair: -len(pair[0].mask["defaults"]) if pair[0].mask else 0)
    changed = [_changed(masked, before) for masked, before in telling[:_ON_PAGE]]
    facts = Table(("", "value"), tuple(report.facts.items()), str(folder))
    for one in (facts, *changed[:_SHOWN]):
        live.table(one.title, one.columns, one.rows)
    for fault in report.faults[:_FAULTS]:
        live.note(f"! {fault}")
    if len(report.faults) > _FAULTS:
        live.note(f"! and {len(report.faults) - _FAULTS} more")
    picked = _baselines(rows, live) if table else []
    said = count(len(report.faults), "fault") if report.faults else "no fault"
    if html is not None:
        blocks = [Text((f"{said}.", *report.faults), "bad" if report.faults else "plain"), facts, *picked]
        blocks += [Section(one.title, (replace(one, title=""),), folded=True) for one in changed]
        _write(html, folder, blocks)
        live.note(f"page: {html}")
    live.note(f"{folder}: {said}")
    return not report.faults


def _write(path: Path, folder: Path, blocks: Sequence[Block]) -> None:
    from evolvent.evaluate.pages.draw import draw
    from evolvent.evaluate.pages.page import page, text

    title = f"Calls of functions in {folder}"
    whole = page(title, [f"<header><h1>{text(title)}</h1></header>", draw(blocks, folder)])
    try:
        write_atomic(path, whole)
    except OSError as error:
        do = "create its folder, or give another file"
        raise BadInput("the page cannot be written", got=error.strerror, where=f"--html {path}", do=do) from error


def inspected(rows: Sequence[Row], train: Sequence[dict[str, Any]]) -> Report:
    """What is wrong with rows and with what was made of them to train on."""
    report = Report()
    right = [row for row in rows if row.because]
    by_id = {row.id: row for row in rows}
    tools = {tool["name"]: tool for row in rows for tool in row.tools}
    named = [name for name, tool in tools.items() if name in tool["description"]]
    report.facts |= {"rows whose right calls are known": len(right), "others": len(rows) - len(right)}
    report.facts |= {"functions": len(tools), "tools whose description says their name": len(named)}
    for row in right:
        report.faults += [f"{row.id}: {call['name']}: {f}" for call in row.gold for f in call_faults(call, row.tools)]
    if odd := Counter(key for tool in tools.values() for key in unchecked(tool["parameters"])):
        told = ", ".join(f"{key} ({n})" for key, n in odd.most_common())
        report.facts["keywords that are not checked (tools)"] = told
    report.faults += _mixed(right)
    answers: dict[str, set[str]] = {}
    for row in right:
        key = json.dumps([row.messages, sorted(tool["name"] for tool in row.tools)], sort_keys=True)
        answers.setdefault(key, set()).add(written(row.gold))
    report.facts["requests with two different answers"] = sum(len(one) > 1 for one in answers.values())
    _of_training(train, by_id, report)
    return report


def _changed(masked: Row, before: Row) -> Table:
    asked = " ".join(before.request.split())
    title = f"masked: {asked if len(asked) <= _TITLE else asked[: _TITLE - 1] + '…'}"
    return Table(("", "as logged", "as trained"), tuple(side_by_side(before, masked)), title, left=(0, 1, 2))


def side_by_side(before: Row, masked: Row) -> Iterator[tuple[str, str, str]]:
    """What was changed in a row: what, as logged, as trained."""
    assert masked.mask is not None
    record = masked.mask
    for call in before.gold:
        yield "function", call["name"], record["functions"][call["name"]]
        for old, new in flat(record["parameters"].get(call["name"], {})).items():
            yield "parameter", old, new
    for one in record["defaults"]:
        yield f"default of {one['parameter']}", json.dumps(one["old"]), json.dumps(one["new"])
        if one["mark"]:
            yield "request", before.messages[one["place"]]["content"], masked.messages[one["place"]]["content"]
    new = {tool["name"]: tool for tool in masked.tools}
    for tool in before.tools:
        other = new[record["functions"][tool["name"]]]
        if tool["description"] != other["description"]:
            yield f"description of {tool['name']}", tool["description"], other["description"]
    yield "answer", written(before.gold), written(masked.gold)


# -------------------------------------------------------------------------------------------------------- inside
def _mixed(rows: Sequence[Row]) -> Iterator[str]:
    """Functions that should be unseen and are not, conversations in two splits."""
    known = {tool["name"] for row in rows if row.split != "unseen" for tool in row.tools}
    called = {split: {name for row in rows if row.split == split for name in row.functions} for split in SPLITS}
    apart = called["unseen"] - called["train"] - called["heldout"]
    if called["unseen"] and not apart:
        yield "every function of the unseen rows is called in other rows, too"
    yield from (f"{name} is unseen, but its schema stands in other rows" for name in sorted(apart & known))
    splits: dict[str, set[str]] = {}
    for row in rows:
        splits.setdefault(row.conversation, set()).add("train" if row.split == "train" else "held out")
    yield from (f"conversation {name} is in training and held out" for name, of in splits.items() if len(of) > 1)


def _of_training(train: Sequence[dict[str, Any]], by_id: dict[str, Row], report: Report) -> None:
    masked, words, other = 0, Counter[str](), 0
    for number, fields in enumerate(train, 1):
        where = f"train.jsonl:{number}"
        try:
            chat = bool(fields["tools"])
            row = of_training(fields) if chat else None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            expected = "a line of evolvent data functions"
            raise BadInput("not a row to train on", got=str(error), expected=expected, where=where) from error
        before = by_id.get(fields["id"])
        if before is None or before.split != "train":
            report.faults.append(f"{where}: {fields['id']} is no row of training")
        if row is None or before is None:
            other += 1
            continue
        report.faults += [f"{where}: {call['name']}: {f}" for call in row.gold for f in call_faults(call, row.tools)]
        masked += row.mask is not None
        words.update(left(row))
        back = unmask(row)
        same = (back.messages, back.tools, back.gold) == (before.messages, before.tools, before.gold)
        if not same:
            report.faults.append(f"{where}: is not {fields['id']} under other names")
        if row.mask:
            report.faults += [f"{where}: {name} is left" for name in _left_as_name(row)]
            report.changed += [(row, before)] if row.gold else []
    report.facts |= {"rows to train on": len(train), "with random names": masked}
    if other:
        report.facts["as text, whose names are not compared"] = other
    if words:
        report.facts["names that are words of a description, left"] = ", ".join(
            f"{name} ({n})" for name, n in words.most_common(8)
        )


def _left_as_name(row: Row) -> list[str]:
    """Names written as names that a mask has left in a row's tools."""
    assert row.mask is not None
    if row.mask["scrub"] == "none":
        return []
    names = {n for tree in row.mask["parameters"].values() for n in flat(tree)} | set(row.mask["functions"])
    return [name for name in left(row) if is_name(name) and name in names]


def _baselines(rows: Sequence[Row], live: Live) -> list[Table]:
    """The pickers on each held-out part; shown."""
    right = [row for row in rows if row.because]
    train, shown = [row for row in right if row.split == "train"], list[Table]()
    embedder = _embedder(live)
    for part, title in (("heldout", "functions seen in training"), ("unseen", "unseen functions")):
        mine = [row for row in right if row.split == part]
        if not mine:
            continue
        tell = live.advancing(f"pickers on {count(len(mine), 'row')}: {title}")
        found = baselines(mine, train, embedder, tell)
        calls, none = next(iter(found.values())).n
        many = sum(len(row.tools) for row in mine) / len(mine)
        title = f"no training, {title}: {calls} with a right call, {none} without, {many:.3g} tools each"
        cells = tuple((name, *_line(one)) for name, one in found.items())
        shown.append(Table(("picker [95 %]", *COLUMNS), cells, title))
        live.table(title, shown[-1].columns, cells)
    live.note("pickers fill in no arguments; a caller is worth what it does beyond them, in all four columns at once")
    return shown


def _line(one: Scores) -> Iterator[str]:
    calls, none = one.n
    for share, n in zip(one.shares, (calls, calls, none, calls + none), strict=True):
        yield interval(share, None if share is None else wilson(round(share * n), n))


def _embedder(live: Live) -> Embedder | None:
    from evolvent.memory import embedders

    try:
        return embedders.load()
    except (ModelError, ImportError, OSError) as error:
        live.note(f"! without an embedder: {str(error).splitlines()[0]}")
        return None
