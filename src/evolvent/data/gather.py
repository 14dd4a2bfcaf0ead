"""From tools and logged conversations to rows: which calls count as right, and why the rest does not."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evolvent.core import outside
from evolvent.core.errors import BadInput
from evolvent.data.calls import Conversation, Decision
from evolvent.data.fits import call_faults
from evolvent.data.irrelevance import irrelevant
from evolvent.data.rows import SPLITS, Row, split, without_twins
from evolvent.data.schemas import Tool, tools_of
from evolvent.traces.events import Repairs

Judge = Callable[[Mapping[str, Any]], Any]
"""``{"messages", "tools", "calls", "results", "fields"}`` → right (true, 1), wrong (false, 0) or not known (None)."""


@dataclass
class Gathered:
    """``rows`` are decisions; ``because`` of one is empty where nobody says that it was right, or it was wrong.

    ``verdicts`` counts, over these rows, why calls are right, those that are wrong, and those of which nobody says.
    """

    rows: list[Row] = field(default_factory=list[Row])
    verdicts: Counter[str] = field(default_factory=Counter[str])


def gather(
    conversations: Iterable[Conversation],
    tools: Sequence[Tool],
    repairs: Repairs,
    *,
    accept: bool = False,
    judge: Judge | None = None,
    candidates: int = 0,
    seed: int = 0,
) -> Gathered:
    """Rows of conversations.

    Args:
        conversations: as they were logged.
        tools: those that a conversation has which brings none of its own.
        repairs: counts what is left out.
        accept: a result that is no error makes a call right where nothing else is said.
        judge: is asked about every decision; its word holds over that of the log.
        candidates: tools that a row lists: those that are called and others, drawn; 0 = all.
        seed: of the draw.

    Raises:
        BadInput: a conversation's own tools are none, or there are no tools at all.
    """
    found, told_of, ids = Gathered(), dict[str, str](), Counter[str]()
    for one in conversations:
        mine = list(tools)
        if one.tools:
            try:
                mine = tools_of(one.tools, one.where, repairs)
            except BadInput as error:
                repairs.add(f"conversations left out: {error.what}", one.where)
                continue
        if not mine:
            do = "give a file of tools, or a field tools in each line"
            raise BadInput("a conversation without tools", got=one.where, expected="a list of tools", do=do)
        for place, decision in enumerate(one.decisions):
            row = _row(one, place, decision, mine)
            if unlisted := sorted(row.functions - {tool["name"] for tool in mine}):
                repairs.add(f"decisions left out: {unlisted[0]} is not among the tools", one.where)
                continue
            ids[row.id] += 1  # a log may name two lines alike
            row = row if ids[row.id] == 1 else dataclasses.replace(row, id=f"{row.id}~{ids[row.id]}")
            if candidates:
                row = _fewer(row, candidates, random.Random(f"{seed}/tools/{row.id}"))
            told, why = _verdict(row, decision, one, accept, judge)
            wrong = next((fault for call in row.gold for fault in call_faults(call, row.tools)), "")
            if told and wrong:  # a call that does not fit its schema is never gold
                what = "right by what is said, but the call does not fit its schema: wrong"
                repairs.add(what, f"{one.where}: {wrong}")
                told = False
            told_of[row.id] = f"right: {why}" if told else "wrong" if told is False else "nobody says"
            found.rows.append(dataclasses.replace(row, because=why if told else ""))
    found.rows, twins = without_twins(found.rows)
    found.verdicts.update(told_of[row.id] for row in found.rows)
    if twins:
        repairs.add("decisions that stand there twice, once kept", "", twins)
    return found


def complete(rows: Sequence[Row], *, irrelevance: float, unseen: float, heldout: float, seed: int) -> list[Row]:
    """The rows in their splits, with those that no tool serves."""
    rows = split(rows, unseen=unseen, heldout=heldout, seed=seed)
    for name in SPLITS:
        mine = [row for row in rows if row.split == name and row.because]
        if mine and irrelevance:
            known = {tool["name"]: tool for row in mine for tool in row.tools}
            draw = random.Random(f"{seed}/irrelevant/{name}")
            rows += irrelevant(mine, irrelevance, [known[key] for key in sorted(known)], draw)
    return rows


def _row(one: Conversation, place: int, decision: Decision, tools: Sequence[Tool]) -> Row:
    return Row(
        id=f"{one.id}/{place}",
        conversation=one.id,
        messages=decision.context,
        tools=tuple(tools),
        gold=decision.calls,
        said=decision.said,
        kind="call" if decision.calls else "none",
        where=one.where,
    )


def _fewer(row: Row, most: int, draw: random.Random) -> Row:
    """The row with at most so many tools, in their order; what is or was called stays."""
    needed = row.functions
    others = [tool["name"] for tool in row.tools if tool["name"] not in needed]
    kept = needed | set(draw.sample(others, min(len(others), max(0, most - len(needed)))))
    return dataclasses.replace(row, tools=tuple(tool for tool in row.tools if tool["name"] in kept))


def _verdict(
    row: Row, decision: Decision, one: Conversation, accept: bool, judge: Judge | None
) -> tuple[bool | None, str]:
    if judge is not None:
        told = judge(asked(row, decision.results, one.fields))
        if told is not None:
            return verdict_of(told, one.where), "the judge"
    if any(decision.failed):
        return False, "an error came back"
    if one.outcome is not None:
        return one.outcome, "field outcome"
    if one.key:
        return True, "xLAM's answers"
    came = bool(decision.results) and None not in decision.results
    return (True, "a result without an error") if accept and came else (None, "")


def asked(row: Row, results: Sequence[str | None] = (), fields: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a judge is told."""
    return {
        "messages": list(row.messages),
        "tools": list(row.tools),
        "calls": [dict(call) for call in row.gold],
        "said": row.said,
        "results": list(results),
        "fields": dict(fields or {}),
    }


def verdict_of(told: Any, where: str) -> bool:
    """What a judge says, as right or wrong.

    Raises:
        BadInput: neither a truth value nor a number from 0 to 1.
    """
    if isinstance(told, bool) or (isinstance(told, int | float) and 0 <= told <= 1):
        return bool(told >= 1)
    expected = "True, False, a number from 0 to 1 (1 is right), or None where it cannot say"
    raise BadInput("a judge's word that says nothing", got=repr(told)[:100], expected=expected, where=where)


def judge_of(text: str, where: str) -> Judge:
    """The judge in ``FILE.py:FUNCTION``.

    Raises:
        BadInput: no such file or function; when it is called, what it raises.
    """
    at = outside.pointer(text)
    if at is None:
        raise BadInput("no judge", got=text, expected="FILE.py:FUNCTION", where=where)
    _, _, function = outside.load(at, "a judge of calls", ("judge", "right"))

    def judge(said: Mapping[str, Any]) -> Any:
        with outside.own_faults(at.home, "the judge failed"):
            return function(said)

    return judge
