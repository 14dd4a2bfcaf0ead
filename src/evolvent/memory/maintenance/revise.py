"""An outcome that turned out otherwise: a merge that was reverted, a judge who was wrong.

The old outcome stays as history, names the one that replaced it, and what it gave is voided. What the new one gives
takes the old one's place in the order of events: values are what they would have been, had it been said at first.

It costs what the events of the memories cost that the receipt showed (and of their ancestors, where the rule pays
them): no value depends on what others earned. The sum over a source's memories does: it is a sum of floats in the order
of events, and is added up anew over the events of that source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.memory import events, replay, settle
from evolvent.memory.bank import Bank
from evolvent.memory.items import receipt_id
from evolvent.memory.maintenance.act import Act, Mended, perform
from evolvent.memory.outcome import Outcome, outcome_of
from evolvent.memory.store.engine import Connection, among


def revise(bank: Bank, row: Mapping[str, Any], reason: str, *, dry_run: bool = False) -> Mended:
    """Replace the outcome of a settled receipt (``row``: the arguments of ``settle``), in one transaction."""
    new = outcome_of(bank, row)

    def change(act: Act) -> None:
        o = new
        with bank.store.write() as db:
            receipts, jobs, said, children, last_outcome, last_event = settle.read(db, bank, [o])
            receipt, id_ = receipts[o.receipt], last_outcome + 1
            old = receipt.settled.get(o.objective)
            if old is None:
                raise BadInput(
                    f"the receipt is not settled for {o.objective!r}",
                    got=receipt_id(o.receipt),
                    code="not_settled",
                    expected="a receipt with a valid outcome",
                    where="revise",
                    do="settle(receipt, reward)",
                )
            chain = sorted(n for n in (*receipt.revised, old) if said[n].objective == o.objective)
            counting = _counting(db, bank, chain, last_event if receipt.drawn else None)
            # a rollback may have taken a revision back: then an earlier outcome counts, and what it gave is voided
            now = max(counting, default=old)
            # of an outcome that was voided, the story is that of the one before
            o = _completed(o, row, said[max(n for n in chain if said[n].valid and n <= now)])
            if o.repeats(said[now]):
                return
            reported = jobs.get((o.objective, o.key or ""), ())
            if any(job not in said for job, _ in reported):
                raise BadInput("the idempotency key belongs to another receipt", got=o.key, code="key_used")
            if any(valid == o.valid for _, valid in reported):
                o = o._replace(key=None)  # it is that of an earlier outcome of this receipt, which keeps it
            if o.child is not None and o.child not in children:
                bank.memory_seq(f"m{o.child}", "revise")
            (place,) = db.execute(
                "SELECT coalesce(max(o.place), min(e.seq)) FROM outcome o LEFT JOIN value_event e USING(outcome_id) "
                "WHERE o.outcome_id = ?",
                (old,),
            ).fetchone()
            for number, (first, last) in counting.items():
                act.void(first - 1, last, (number - 1, number))
            db.execute("UPDATE outcome SET replaced_by = ? WHERE outcome_id = ?", (id_, old))
            then = None if place is None else partial(replay.values_of, bank.store, bank.scope_id, before=place)
            entries = events.Entries(bank.scope_id, last_event)
            settle.credit(db, bank, [(id_, o, receipt)], entries, then)
            db.execute(settle.INSERT, settle.row_of(db, bank, id_, o, receipt.serial, place))
            entries.append(db)
            paid = db.execute("SELECT DISTINCT memory_id FROM value_event WHERE outcome_id IN (?, ?)", (now, id_))
            act.touched = {seq for (seq,) in paid}
        act.extra |= {"outcome": id_, "replaced": old}

    return perform(bank, "revise", receipt_id(new.receipt), reason, change, dry_run)


def _counting(db: Connection, bank: Bank, outcomes: Sequence[int], newest: int | None) -> dict[int, tuple[int, int]]:
    """Of these outcomes those whose events count, with the first and the last of them.

    ``newest`` event: what has no event (its receipt was held out) counts too, with an empty range behind that.
    """
    spans = among(
        db,
        "SELECT outcome_id, min(seq), max(seq) FROM value_event WHERE outcome_id IN ({}) GROUP BY outcome_id",
        outcomes,
    )
    out = replay.skipped(bank.store, bank.scope_id)
    found = {n: (first, last) for n, first, last in spans}
    counting = {n: span for n, span in found.items() if not replay.holds(out, span[0])}
    if newest is not None:
        gone = replay.skipped(bank.store, bank.scope_id, of="outcome")
        without = (n for n in outcomes if n not in found and not replay.holds(gone, n))
        counting |= dict.fromkeys(without, (newest + 1, newest))
    return counting


def _completed(o: Outcome, row: Mapping[str, Any], old: Outcome) -> Outcome:
    """With the rest of the attempt's story, which another reward does not change: what was done, what came of it.

    Parts are rewards, too: they stand where the reward of the whole does, else each of them has the new one.
    """
    if o.action is None:
        parts = old.parts if o.valid else None
        if parts is not None and o.reward is not None and o.reward != old.reward:
            parts = tuple((text, o.reward) for text, _ in parts)
        o = o._replace(action=old.action, parts=parts)
    missing = {name: getattr(old, name) for name in ("source", "child", "weight") if name not in row}
    return o._replace(**missing)
