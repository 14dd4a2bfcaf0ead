"""Times as callers name them."""

from __future__ import annotations

from datetime import date, datetime

import numpy as np

from evolvent.core.errors import BadInput


def time_of(given: object, where: str, *, receipt: bool = False) -> datetime:
    """A ``datetime`` or ``date``, a time in ISO format, or seconds since 1970, with its zone.

    Without a zone it is local; a day alone is its first moment. ``receipt``: a receipt could have stood there.

    Raises:
        BadInput: none of these.
    """
    try:
        if isinstance(given, datetime):
            return given.astimezone()
        if isinstance(given, date):
            return datetime(given.year, given.month, given.day).astimezone()
        if isinstance(given, int | float | np.integer | np.floating) and not isinstance(given, bool):
            return datetime.fromtimestamp(float(given)).astimezone()
        if isinstance(given, str):
            return datetime.fromisoformat(given).astimezone()
    except (ValueError, OverflowError, OSError) as error:
        raise unknown(given, where, receipt=receipt) from error
    raise unknown(given, where, receipt=receipt)


def unknown(given: object, where: str, *, receipt: bool = False) -> BadInput:
    """The error of what is no time."""
    expected = "a datetime, a date, '2026-11-20', '2026-11-20T18:30' or 1.79e9 (seconds since 1970)"
    expected = f"a receipt, e.g. 'r12', or a time: {expected}" if receipt else expected
    return BadInput("not a moment", got=given, expected=expected, where=where, code="not_a_moment")
