"""The verbs that mend: memories taken out of recall or put back, outcomes revised, a return to an earlier moment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Embedder
from evolvent.memory.bank import Bank
from evolvent.memory.items import Recall, memory_id
from evolvent.memory.maintenance.act import VERBS, Act, Mended, perform
from evolvent.memory.maintenance.compact import compact as _compact
from evolvent.memory.maintenance.erase import What
from evolvent.memory.maintenance.erase import erase as _erase
from evolvent.memory.maintenance.reembed import reembed as _reembed
from evolvent.memory.maintenance.restore import in_recall, restore
from evolvent.memory.maintenance.revise import revise as _revise
from evolvent.memory.maintenance.when import moment
from evolvent.memory.opening import as_embedder
from evolvent.memory.replay import Point
from evolvent.memory.store.engine import Progress, marks
from evolvent.memory.text import flag, listed


class Mending:
    """What ``Memory`` offers to an operator: memories taken out of recall or put back, outcomes and values set right.

    The reason is for the log. A dry run changes nothing and tells exactly what would change.
    """

    bank: Bank

    def archive(self, id: str, reason: str, *, dry_run: bool = False) -> Mended:
        """Take a memory out of recall for a reason. Nothing is deleted: value and history stay.

        Of a memory that was updated the version that is in recall goes with the one that is named.
        """
        seqs = _sequences(self.bank, [id], "archive")

        def change(act: Act) -> None:
            act.set_status([seq for seq in in_recall(act, seqs) if act.status(seq) != "archived"], "archived")

        return perform(self.bank, "archive", _named(seqs), reason, change, dry_run)

    def quarantine(self, ids: Sequence[str], reason: str, *, descendants: bool = True, dry_run: bool = False) -> Mended:
        """Take memories out of recall that are not to be trusted.

        With ``descendants`` also what was written under a recall that showed them, and so on, and later versions. Of
        a memory that was updated the version that is in recall goes with the one that is named.
        """
        seqs = _sequences(self.bank, ids, "quarantine")
        descendants = flag(descendants, what="descendants", where="quarantine")

        def change(act: Act) -> None:
            wanted = in_recall(act, [*seqs, *descendants_of(self.bank, seqs)] if descendants else seqs)
            act.set_status([seq for seq in wanted if act.status(seq) != "quarantined"], "quarantined")

        return perform(self.bank, "quarantine", _named(seqs), reason, change, dry_run)

    def restore(self, ids: Sequence[str], reason: str, *, descendants: bool = False, dry_run: bool = False) -> Mended:
        """Put memories back into recall, whatever took them out; with ``descendants`` also all that came of them.

        What was archived or quarantined becomes what it was: of a memory that was updated, whichever version is named,
        the version that was in recall comes back, and the others are superseded again. An older version that is named
        while it is superseded takes the place of the newer ones, with ``descendants`` the newest does.
        """
        named = _sequences(self.bank, ids, "restore")
        descendants = flag(descendants, what="descendants", where="restore")

        def change(act: Act) -> None:
            restore(act, named, descendants_of(self.bank, named) if descendants else (), newest=descendants)

        return perform(self.bank, "restore", _named(named), reason, change, dry_run)

    def rollback(self, to: Recall | str | date | float, reason: str, *, dry_run: bool = False) -> Mended:
        """Back to what a receipt saw, or to a time (``datetime``, ``date``, ISO text, seconds since 1970).

        Memories made later are archived (those in quarantine stay there). Value events written later are voided, and
        values rebuilt from the others. Memories that were superseded or archived later are put back; what is in
        quarantine stays there. A time just before a rollback takes it back. Receipts and outcomes stay as history:
        settling one of them again changes nothing, as always.
        """
        point = moment(self.bank, to)

        def change(act: Act) -> None:
            then, quarantined = _states_at(self.bank, point), []
            newer = act.rows(
                "SELECT seq FROM memory WHERE scope_id = ? AND seq > ? AND status NOT IN ('archived', 'quarantined', "
                "'external') ORDER BY seq",
                point.memory,
            )
            act.set_status([seq for (seq,) in newer], "archived")
            for seq, (status, by) in then.items():
                now = act.status(seq)
                if now == "quarantined" and status != now:
                    quarantined.append(seq)
                elif now != status:
                    act.set_status([seq], status, by)
            act.quarantined = quarantined
            act.void_after(point)

        return perform(self.bank, "rollback", point.label, reason, change, dry_run)

    def revise(
        self,
        recalled: Recall | str,
        reward: float | None,
        reason: str,
        *,
        source: str | None = None,
        valid: bool = True,
        objective: str = "success",
        dry_run: bool = False,
        **more: Any,
    ) -> Mended:
        """Replace the outcome of a settled receipt: a merge that was reverted, a judge who was wrong.

        What the old outcome gave is voided, the new one gives credit in its place: values are what they would have
        been, had it been said at first (where an outcome becomes invalid, later steps keep their size). Both stay in
        the history; a rollback takes it back. Telling the same again changes nothing. Arguments and errors are those
        of ``settle`` (``more``: action, child, idempotency_key, weight, parts); the receipt must be settled.
        What is not given is as in the old outcome: who says so, action, child and weight; its parts too, each with
        the new reward where that is another one.
        """
        row = {"recalled": recalled, "reward": reward, "valid": valid, "objective": objective, **more}
        row |= {} if source is None else {"source": source}
        return _revise(self.bank, row, reason, dry_run=dry_run)

    def erase(self, what: What | Iterable[What], reason: str, *, dry_run: bool = False) -> Mended:
        """Take out what memories, receipts and lines of the log said, for good: a person's right. One pass for many.

        A memory (m3) goes with all its versions and keys, and what quotes it; a tombstone without content stays. A
        receipt (r7, or the Recall) with an outcome loses its task, actions and names of jobs, and keeps its numbers;
        one without an outcome goes. ``erase(find(text), reason)`` takes out every trace of a text. Nothing brings it
        back; erasing once more changes nothing.

        Args:
            what: ids (m3, r7, a2), items, recalls, receipts or traces: one of them, or many.
            reason: for the log.
            dry_run: tell what would go, and change nothing.

        Raises:
            BadInput: an id that never was, or inside ``transaction()``.
            StoreError: another process keeps SQLite's log in use; erase once more when it is done.
        """
        return _erase(self.bank, what, reason, dry_run=dry_run)

    def reembed(self, embedder: str | Embedder, *, progress: Progress | None = None) -> int:
        """Change the embedder of the whole store; returns how many keys this call embedded.

        New vectors are written beside the old ones, in batches: recalls go on with the old embedder meanwhile, and a
        call that was stopped is taken up by the next. Then all keys change over in one transaction. Other memories
        that have the store open get an error at their next recall, which asks to open it again.

        Args:
            embedder: name or object.
            progress: called as ``progress(done, total, "vectors")``.
        """
        made = _reembed(self.bank.store, embedder, progress=progress)
        self.bank.embedder = as_embedder(embedder)
        self.bank.forget()
        return made

    def compact(self, *, keep: int = 1000, unsettled: timedelta | float | None = None, dry_run: bool = False) -> Mended:
        """Take out what nothing needs, for good; what has expired is archived.

        Args:
            keep: so many of the newest receipts keep the candidates that were not selected.
            unsettled: receipts that are older than that (``timedelta`` or seconds) and without any outcome go, as
                ``erase`` takes them out; None: none.
            dry_run: tell what would go, and change nothing.
        """
        return _compact(self.bank, keep=keep, unsettled=unsettled, dry_run=dry_run)


def descendants_of(bank: Bank, seqs: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Memories written while one of ``seqs`` (or a descendant of it) was shown, and later versions of them.

    Oldest first, each with the one of ``seqs`` that is nearest back, and how many links that is. A merge is no descent:
    the older memory had said the same before.
    """
    reached = {seq: (seq, 0) for seq in seqs}
    edge = list(reached)
    while edge:
        links = bank.store.rows_among(
            "SELECT parent, child FROM provenance WHERE relation IN ('retrieved', 'revised') AND parent IN ({}) "
            "ORDER BY child, parent",
            edge,
        )
        edge = []
        for parent, child in links:
            if child not in reached:
                root, depth = reached[parent]
                reached[child] = (root, depth + 1)
                edge.append(child)
    return {seq: reached[seq] for seq in sorted(reached) if reached[seq][1]}


def _states_at(bank: Bank, point: Point) -> dict[int, tuple[str, int | None]]:
    """Status and successor that older memories had at a moment, of those that changed since: from the log."""
    then: dict[int, tuple[str, int | None]] = {}
    for target, detail in bank.store.rows(
        f"SELECT target, detail FROM audit WHERE scope_id = ? AND seq > ? AND verb IN ({marks(len(VERBS))}) "
        "AND target <> '*' ORDER BY seq",
        (bank.scope_id, point.audit, *VERBS.values()),
    ):
        seq = int(target[1:])
        if seq <= point.memory and seq not in then:
            details = json.loads(detail)
            by = details.get("was_by")
            then[seq] = (details.get("was", "active"), None if by is None else int(by[1:]))
    return then


def _sequences(bank: Bank, ids: Sequence[str], where: str) -> list[int]:
    """Rows of memories that something can still be done to."""
    expected = "ids, e.g. ['m3', 'm7']"
    names = listed(ids, what="ids", expected=expected, where=where)
    seqs = list(dict.fromkeys(bank.memory_seq(id_, where) for id_ in names))
    if not seqs:
        raise BadInput("no memories are named", got=ids, expected=expected, where=where, code="nothing_named")
    for seq in seqs:
        if bank.store.row("SELECT 1 FROM memory WHERE seq = ? AND status = 'erased'", (seq,)) is not None:
            raise BadInput(
                "the memory was erased, and nothing brings it back", got=memory_id(seq), where=where, code="erased"
            )
    return seqs


def _named(seqs: Sequence[int]) -> str:
    listed = ", ".join(memory_id(seq) for seq in seqs[:5])
    return listed if len(seqs) <= 5 else f"{listed} and {len(seqs) - 5} more"
