"""Mending: memories taken out of recall or put back, values and memories set back to what another moment saw."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from evolvent.core.errors import BadInput
from evolvent.memory import keys
from evolvent.memory.bank import Bank
from evolvent.memory.items import Recall, memory_id
from evolvent.memory.maintenance.act import VERBS, Act, Mended, perform
from evolvent.memory.maintenance.when import moment
from evolvent.memory.replay import Point
from evolvent.memory.store.engine import marks
from evolvent.memory.text import listed

_CHUNK = 500


def archive(bank: Bank, ids: Sequence[str], reason: str, *, dry_run: bool = False) -> Mended:
    """Take memories out of recall for a reason; what is out already stays as it is."""
    seqs = _sequences(bank, ids, "archive")

    def change(act: Act) -> None:
        act.set_status([seq for seq in seqs if act.status(seq) != "archived"], "archived")

    return perform(bank, "archive", _named(seqs), reason, change, dry_run)


def quarantine(
    bank: Bank, ids: Sequence[str], reason: str, *, descendants: bool = True, dry_run: bool = False
) -> Mended:
    """Take memories out of recall because they are not trusted, with all that was written under their influence."""
    seqs = _sequences(bank, ids, "quarantine")

    def change(act: Act) -> None:
        wanted = [*seqs, *descendants_of(bank, seqs)] if descendants else seqs
        act.set_status([seq for seq in wanted if act.status(seq) != "quarantined"], "quarantined")

    return perform(bank, "quarantine", _named(seqs), reason, change, dry_run)


def restore(bank: Bank, ids: Sequence[str], reason: str, *, descendants: bool = False, dry_run: bool = False) -> Mended:
    """Put memories back into recall, whatever took them out; with ``descendants`` also all that came of them.

    Of a memory that was updated one version is in recall: the one that is named takes the place of the others.
    """
    seqs = _sequences(bank, ids, "restore")

    def change(act: Act) -> None:
        wanted = [*seqs, *descendants_of(bank, seqs)] if descendants else seqs
        with bank.store.session() as db:
            lineages = {seq: keys.versions(db, seq) for seq in seqs}
        others = {v: seq for seq in seqs for v in lineages[seq] if v not in seqs}
        wanted = [seq for seq in wanted if seq not in others]
        act.set_status([seq for seq in wanted if act.status(seq) != "active"], "active")
        for version, by in others.items():
            if act.status(version) == "active":
                act.set_status([version], "superseded", by)

    return perform(bank, "restore", _named(seqs), reason, change, dry_run)


def rollback(bank: Bank, to: Recall | str | datetime | float, reason: str, *, dry_run: bool = False) -> Mended:
    """Back to what a moment saw: its values, and its memories in the state they were in.

    Memories made later are archived (those in quarantine stay there). Value events written later are voided, and
    values rebuilt from the others. Memories that were superseded or archived later are put back; what is in quarantine
    stays there. It goes both ways: a moment just before a rollback takes that rollback back. Receipts and outcomes stay
    as history: settling one of them again changes nothing, as always.
    """
    point = moment(bank, to)

    def change(act: Act) -> None:
        then, kept = _states_at(bank, point), []
        newer = act.rows(
            "SELECT seq FROM memory WHERE scope_id = ? AND seq > ? AND status NOT IN ('archived', 'quarantined') "
            "ORDER BY seq",
            point.memory,
        )
        act.set_status([seq for (seq,) in newer], "archived")
        for seq, (status, by) in then.items():
            now = act.status(seq)
            if now == "quarantined" and status != now:
                kept.append(seq)
            elif now != status:
                act.set_status([seq], status, by)
        act.kept = kept
        act.void_after(point)

    return perform(bank, "rollback", point.label, reason, change, dry_run)


# ---------------------------------------------------------------------------------------------------- looking around
def descendants_of(bank: Bank, seqs: Sequence[int]) -> list[int]:
    """Memories written while one of ``seqs`` (or a descendant of it) was shown, and later versions of them.

    A merge is no descent: the older memory had said the same before.
    """
    seen, found, edge = set(seqs), [], list(seqs)
    while edge:
        fresh: list[int] = []
        for start in range(0, len(edge), _CHUNK):
            part = edge[start : start + _CHUNK]
            for (child,) in bank.store.rows(
                f"SELECT DISTINCT child FROM provenance WHERE parent IN ({marks(len(part))}) "
                "AND relation IN ('retrieved', 'revised') ORDER BY child",
                part,
            ):
                if child not in seen:
                    seen.add(child)
                    fresh.append(child)
        found += fresh
        edge = fresh
    return sorted(found)


def _states_at(bank: Bank, point: Point) -> dict[int, tuple[str, int | None]]:
    """Status and successor that older memories had at a moment, of those that changed since: from the log."""
    then: dict[int, tuple[str, int | None]] = {}
    for target, detail in bank.store.rows(
        f"SELECT target, detail FROM audit WHERE scope_id = ? AND seq > ? AND verb IN ({marks(4)}) AND target <> '*' "
        "ORDER BY seq",
        (bank.scope_id, point.audit, *VERBS.values()),
    ):
        seq = int(target[1:])
        if seq <= point.memory and seq not in then:
            told = json.loads(detail)
            by = told.get("was_by")
            then[seq] = (told.get("was", "active"), None if by is None else int(by[1:]))
    return then


def _sequences(bank: Bank, ids: Sequence[str], where: str) -> list[int]:
    """Rows of memories that something can still be done to."""
    expected = "ids, e.g. ['m3', 'm7']"
    names = listed(ids, what="ids", expected=expected, where=where)
    seqs = list(dict.fromkeys(bank.memory_seq(id_, where) for id_ in names))
    if not seqs:
        raise BadInput("no memories are named", got=ids, expected=expected, where=where)
    for seq in seqs:
        if bank.store.row("SELECT 1 FROM memory WHERE seq = ? AND status = 'erased'", (seq,)) is not None:
            raise BadInput("the memory was erased, and nothing brings it back", got=memory_id(seq), where=where,
                           code="erased")  # fmt: skip
    return seqs


def _named(seqs: Sequence[int]) -> str:
    told = ", ".join(memory_id(seq) for seq in seqs[:5])
    return told if len(seqs) <= 5 else f"{told} and {len(seqs) - 5} more"
