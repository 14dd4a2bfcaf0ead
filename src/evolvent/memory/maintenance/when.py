"""A moment in the life of a scope, named by a receipt or a time: what could be seen then."""

from __future__ import annotations

from datetime import date

import numpy as np

from evolvent.memory.bank import Bank
from evolvent.memory.items import Recall, receipt_id
from evolvent.memory.replay import Point
from evolvent.memory.times import time_of, unknown

_FIRST_S = 1e9  # of 2001: a smaller number is none of a time when there was a memory, but of a receipt


def moment(bank: Bank, to: Recall | str | date | float) -> Point:
    """A moment from a receipt ("r12" or the Recall), or a time (``times.time_of``).

    A receipt means what it saw, before anything it led to.

    Raises:
        BadInput: neither, or a receipt of another scope.
    """
    if isinstance(to, Recall) or (isinstance(to, str) and to[:1] == "r"):
        number = bank.receipt_seq(to, "rollback")
        row = bank.store.row(
            "SELECT r.store_seq, r.event_seq, r.audit_seq, (SELECT coalesce(max(o.outcome_id), 0) FROM outcome o "
            "WHERE o.recall_id < r.seq AND o.created_at <= r.created_at) FROM recall r WHERE r.seq = ?",
            (number,),
        )
        assert row is not None
        return Point(receipt_id(number), *row)
    if isinstance(to, int | float | np.integer | np.floating) and to < _FIRST_S:
        raise unknown(to, "rollback", receipt=True)
    at = time_of(to, "rollback", receipt=True)
    asked = "SELECT coalesce(max({}), 0) FROM {} WHERE created_at <= ?"
    newest = [
        # a memory that was given an earlier time was there from when that was written down
        bank.store.row(
            f"{asked.format('seq', 'memory m')} AND NOT EXISTS (SELECT 1 FROM audit a WHERE a.verb = 'dated' "
            "AND a.target = 'm' || m.seq AND a.created_at > ?)",
            (at.timestamp(), at.timestamp()),
        ),
        *(
            bank.store.row(asked.format(column, table), (at.timestamp(),))
            for column, table in (("seq", "value_event"), ("seq", "audit"), ("outcome_id", "outcome"))
        ),
    ]
    return Point(at.isoformat(" ", "seconds"), *(row[0] if row else 0 for row in newest))
