"""The acts of mending that the log tells of: what each changed, which are undone, and which can be undone now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from evolvent.core.errors import BadInput
from evolvent.memory.bank import Bank
from evolvent.memory.items import memory_id

# what a line about one memory says became of it, and what acts are called
STATUS_VERBS = ("archive", "quarantine", "restore", "supersede")
_ACT_VERBS = (*STATUS_VERBS, "rollback", "undo", "compact")


class Done(NamedTuple):
    """One act; ``statuses``: ``{memory: (status before, successor before)}``, ``on``/``off``: voids it switched."""

    seq: int
    verb: str
    target: str
    reason: str
    at: float
    statuses: dict[int, tuple[str, int | None]]
    on: list[int]
    off: list[int]
    undoes: int | None
    file: dict[str, Any] | None


def of(bank: Bank) -> dict[int, Done]:
    """All acts of a scope by their line in the log, oldest first."""
    rows = bank.store.rows(
        f"SELECT seq, verb, target, detail, created_at FROM audit WHERE scope_id = ? AND verb IN {_ACT_VERBS!r} "
        "ORDER BY seq",
        (bank.scope_id,),
    )
    told = [(seq, verb, target, json.loads(detail), at) for seq, verb, target, detail, at in rows]
    waiting: dict[int, Done] = {}  # lines about one memory, each an act of its own until another claims it
    found: dict[int, Done] = {}
    for seq, verb, target, detail, at in told:
        if target != "*":
            waiting[seq] = _done(seq, verb, target, detail, at, {int(target[1:]): _before(detail)})
            continue
        first, last = detail.get("lines", (1, 0))
        statuses: dict[int, tuple[str, int | None]] = {}
        for line in [number for number in waiting if first <= number <= last]:
            for memory, before in waiting.pop(line).statuses.items():
                statuses.setdefault(memory, before)
        found[seq] = _done(seq, verb, detail.get("target", ""), detail, at, statuses)
    return dict(sorted({**found, **waiting}.items()))


def undone(acts: Mapping[int, Done]) -> dict[int, int]:
    """``{act: the undo that took it back}``; an undo that was itself undone takes nothing back."""
    gone: dict[int, int] = {}
    for act in reversed(list(acts.values())):
        if act.undoes is not None and act.seq not in gone:
            gone[act.undoes] = act.seq
    return gone


def undoable(bank: Bank, number: int) -> Done:
    """The act to undo, when nothing that holds now was built on it.

    Raises:
        BadInput: see ``mend.undo``.
    """
    acts, where = of(bank), f"undo('a{number}')"
    gone = undone(acts)
    if number not in acts:
        raise _unknown(bank, number, acts, where)
    if number in gone:
        raise BadInput("this was undone already", got=f"a{number}", expected="an act that holds", where=where,
                       do=f"undo a{gone[number]} to have it again")  # fmt: skip
    act = acts[number]
    if act.undoes is not None and acts[act.undoes].file is not None:
        raise BadInput("rows that were put back stay", got=f"a{number}", where=where, do="compact again")
    for later in acts.values():
        if later.seq <= number or later.seq in gone or (later.undoes is not None and later.undoes > number):
            continue  # earlier, or without effect
        shared = act.statuses.keys() & later.statuses.keys()
        if shared or ((act.on or act.off) and (later.on or later.off)):
            what = ", ".join(memory_id(seq) for seq in sorted(shared)[:5]) or "values"
            got = f"a{later.seq} ({later.verb}): {what}"
            raise BadInput("a later act changed the same", got=got, where=where, do=f"undo a{later.seq} first")
    return act


def _unknown(bank: Bank, number: int, acts: Mapping[int, Done], where: str) -> BadInput:
    row = bank.store.row(
        "SELECT verb, target, detail FROM audit WHERE seq = ? AND scope_id = ?", (number, bank.scope_id)
    )
    if row is None:
        return BadInput("no such line in the log", got=f"a{number}", expected=_known(acts), where=where)
    if row[0] in STATUS_VERBS:
        whole = min(seq for seq in acts if seq > number)
        do = f"undo a{whole}, or restore {row[1]} alone"
        return BadInput("this line is part of an act", got=f"a{number}", expected=f"a{whole}", where=where, do=do)
    key = json.loads(row[2]).get("key") if row[0] == "merge" else ""
    do = f"archive {key}, and {row[1]} is no longer found by that key" if key else ""
    return BadInput("this cannot be undone", got=f"a{number}, {row[0]}", expected=_known(acts), where=where, do=do)


def _known(acts: Mapping[int, Done]) -> str:
    return ", ".join(f"a{seq} ({act.verb})" for seq, act in list(acts.items())[-5:]) or "there are no acts to undo"


def _before(detail: Mapping[str, Any]) -> tuple[str, int | None]:
    by = detail.get("was_by")
    return detail.get("was", "active"), None if by is None else int(by[1:])


def _done(
    seq: int, verb: str, target: str, detail: Mapping[str, Any], at: float,
    statuses: dict[int, tuple[str, int | None]],
) -> Done:  # fmt: skip
    return Done(
        seq, verb, target, str(detail.get("reason", "")), at, statuses, list(detail.get("on", ())),
        list(detail.get("off", ())), detail.get("undoes"), detail.get("file"),
    )  # fmt: skip
