"""A moment in the life of a scope, named by a receipt or a time: what could be seen then."""

from __future__ import annotations

from datetime import datetime

from evolvent.core.errors import BadInput
from evolvent.memory.bank import Bank
from evolvent.memory.items import Recall, receipt_id
from evolvent.memory.replay import Point

_FIRST_S = 1e9  # of 2001: a smaller number is none of a time when there was a memory, but of a receipt


def moment(bank: Bank, to: Recall | str | datetime | float) -> Point:
    """A moment from a receipt ("r12" or the Recall), a time in ISO format, a ``datetime`` or seconds since 1970.

    A receipt means what it saw, before anything it led to. A time without a zone is local.

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
    at = time_of(to, "rollback")
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


def time_of(to: object, where: str) -> datetime:
    """A time in ISO format, a ``datetime`` or seconds since 1970, with its zone (local where it has none).

    Raises:
        BadInput: none of these.
    """
    try:
        if isinstance(to, datetime):
            return to.astimezone()
        if isinstance(to, int | float) and not isinstance(to, bool) and to >= _FIRST_S:
            return datetime.fromtimestamp(to).astimezone()
        if isinstance(to, str):
            return datetime.fromisoformat(to).astimezone()
    except (ValueError, OverflowError, OSError) as error:
        raise _unknown(to, where) from error
    raise _unknown(to, where)


def _unknown(to: object, where: str) -> BadInput:
    expected = "a time, e.g. '2026-11-20', '2026-11-20T18:30' or 1.79e9 (seconds)"
    expected = f"a receipt, e.g. 'r12', or {expected}" if where == "rollback" else expected
    return BadInput("not a moment", got=to, expected=expected, where=where, code="not_a_moment")
