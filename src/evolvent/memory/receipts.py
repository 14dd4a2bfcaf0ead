"""Receipts after they were written: what of them is in the prompt, which is the newest, taking some back."""

from __future__ import annotations

from collections.abc import Sequence

from evolvent.core.errors import BadInput
from evolvent.memory.bank import Bank
from evolvent.memory.external import NAME
from evolvent.memory.items import Recalled, memory_id, receipt_id
from evolvent.memory.text import listed


def shown(bank: Bank, number: int, ids: Sequence[str | Recalled] | None) -> None:
    """Record which of the selected memories survived prompt assembly; only those are credited."""
    where = f"shown({receipt_id(number)!r})"
    with bank.store.write() as db:
        rows = db.execute(
            f"SELECT i.memory_id, i.shown, {NAME} FROM recall_item i JOIN memory m ON m.seq = i.memory_id "
            "WHERE i.recall_id=? AND i.selected AND NOT i.omitted AND NOT EXISTS "
            "(SELECT 1 FROM exposure x WHERE x.recall_id = i.recall_id AND x.held_out) ORDER BY i.memory_id",
            (number,),
        ).fetchall()
        offered = {memory_id(seq, name): seq for seq, _, name in rows}
        every = offered if ids is None else listed(ids, what="ids", expected="a sequence of ids", where=where)
        names = [one.id if isinstance(one, Recalled) else one for one in every]
        for name in names:
            if not isinstance(name, str) or name not in offered:
                raise BadInput(
                    "this memory was not handed out by the recall",
                    code="not_handed_out",
                    got=name,
                    where=where,
                    expected=", ".join(offered) or "nothing: no memory was handed out",
                    do="list only those of recall.ids; what was omitted must not be shown",
                )
        wanted = {offered[name] for name in names}
        if wanted == {seq for seq, was, _ in rows if was}:
            return
        if db.execute("SELECT 1 FROM outcome WHERE recall_id=? AND valid", (number,)).fetchone():  # voided since or not
            raise BadInput(
                "the receipt is settled already", where=where, code="settled_already", do="call shown() before settle()"
            )
        db.executemany(
            "UPDATE recall_item SET shown=? WHERE recall_id=? AND memory_id=?",
            [(seq in wanted, number, seq) for seq in offered.values()],
        )


def newest_receipt(bank: Bank) -> int:
    """Number of the newest receipt of the store, 0 when there is none."""
    row = bank.store.row("SELECT coalesce(max(seq), 0) FROM recall")
    assert row is not None
    return row[0]


def forget(bank: Bank, after: int) -> None:
    """Take back the receipts of a scope that are newer than a number, as if they had never been asked for.

    Raises:
        BadInput: something came of one of them: an outcome, or a memory that was written under it.
    """
    newer = (bank.scope_id, after)
    with bank.store.write() as db:
        used = db.execute(
            "SELECT r.seq FROM recall r WHERE r.scope_id=? AND r.seq>? AND (EXISTS (SELECT 1 FROM outcome o WHERE "
            "o.recall_id = r.seq) OR EXISTS (SELECT 1 FROM memory m WHERE m.made_in = r.seq)) LIMIT 1",
            newer,
        ).fetchone()
        if used is not None:
            do = "go on with the version that made this run, or start a new one; nothing was changed"
            raise BadInput(
                "the memory has learned more than its position says",
                got=receipt_id(used[0]),
                expected=f"nothing behind {receipt_id(after)}",
                where=bank.store.where,
                do=do,
                code="learned_more",
            )
        db.execute(
            "DELETE FROM recall_item WHERE recall_id IN (SELECT seq FROM recall WHERE scope_id=? AND seq>?)", newer
        )
        db.execute("DELETE FROM exposure WHERE recall_id IN (SELECT seq FROM recall WHERE scope_id=? AND seq>?)", newer)
        db.execute("DELETE FROM recall WHERE scope_id=? AND seq>?", newer)
