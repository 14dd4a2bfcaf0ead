"""Memories back into recall: each becomes what it was, and of a memory that was updated one version is in recall."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from evolvent.memory import keys
from evolvent.memory.maintenance.act import Act
from evolvent.memory.store.engine import marks

# statuses of a memory that somebody took out of recall, and the verbs that did it
_OUT = ("archived", "quarantined")
_TOOK_OUT = ("archive", "quarantine")


def lineages(act: Act, seqs: Iterable[int]) -> list[list[int]]:
    """All versions of each of these memories, oldest first; each memory once, whichever of its versions are named."""
    found: dict[int, list[int]] = {}
    with act.bank.store.session() as db:
        for seq in seqs:
            versions = keys.versions(db, seq)
            found.setdefault(versions[0], versions)
    return list(found.values())


def in_recall(act: Act, seqs: Sequence[int]) -> list[int]:
    """These, and the versions of them that are in recall: what takes a memory out takes those along."""
    active = (seq for versions in lineages(act, seqs) for seq in versions if act.status(seq) == "active")
    return sorted({*seqs, *active})


def restore(act: Act, named: Sequence[int], others: Iterable[int], newest: bool) -> None:
    """Put memories back.

    Args:
        act: the act under way.
        named: those that were asked for; one that another version replaced takes its place.
        others: what came of them; nothing is changed of what is in recall or was replaced.
        newest: of a memory whose replaced version is named, the newest one comes back instead.
    """
    for versions in lineages(act, [*named, *others]):
        status = {seq: act.status(seq) for seq in versions}
        was = {seq: _was(act, seq) for seq in versions if status[seq] in _OUT}
        replaced = [seq for seq in named if status.get(seq) == "superseded"]
        if replaced:
            head = versions[-1] if newest else replaced[-1]
            was = {seq: then for seq, then in was.items() if seq == head}
        else:
            head = _head(versions, [seq for seq in named if seq in was], status, was)
        for seq in versions:
            if seq == head:
                if status[seq] != "active":
                    act.set_status([seq], "active")
            elif head is not None and (status[seq] == "active" or was.get(seq) == ("active", None)):
                act.set_status([seq], "superseded", head)
            elif seq in was:
                act.set_status([seq], *was[seq])


def _head(
    versions: Sequence[int], named: Sequence[int], status: dict[int, str], was: dict[int, tuple[str, int | None]]
) -> int | None:
    """The version that comes into recall: one that was there, of several the one that is named, else the newest."""
    there = [seq for seq in was if was[seq][0] == "active"]
    if there:
        return ([seq for seq in there if seq in named] or there)[-1]
    # none of those was in recall; where no other version is, a memory that was updated comes back as its newest
    if len(versions) > 1 and was and "active" not in status.values():
        return versions[-1]
    return None


def _was(act: Act, seq: int) -> tuple[str, int | None]:
    """What a memory was before it was taken out of recall, and its successor if it had one: from the log."""
    rows = act.bank.store.rows(
        f"SELECT detail FROM audit WHERE target = ? AND verb IN ({marks(len(_TOOK_OUT))}) ORDER BY seq DESC",
        (f"m{seq}", *_TOOK_OUT),
    )
    for (detail,) in rows:
        details = json.loads(detail)
        if (then := details.get("was", "active")) not in _OUT:
            by = details.get("was_by")
            if then == "external":
                return then, None
            return (then, int(by[1:])) if then == "superseded" and by else ("active", None)
    return "active", None
