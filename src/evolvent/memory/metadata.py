"""What the caller says of a memory beside its text: a JSON object, checked when it is written, and filters over it.

A filter maps fields to what they must be: ``{"repo": "x", "year": {">=": 2020, "<": 2024}}``. All of it must hold. A
field that is a list holds where one of its elements does. Numbers compare with numbers and texts with texts (dates in
ISO format sort as texts); anything else does not hold. What is asked not to be, ``{"repo": {"!=": "x"}}``, holds where
the opposite does not: also where there is no such field. ``{"or": [filter, …]}``, ``{"and": […]}`` and
``{"not": filter}`` join whole filters; a field of such a name is asked for as any other, by a value or an operator.

Filters are answered from columns in memory, one for each field, read from the store once and then followed row by row:
the same answers on both engines, and a search knows which rows it may return before it ranks them.
"""

from __future__ import annotations

import json
import math
import operator
import threading
from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.memory.secrets import mask_field
from evolvent.memory.store.engine import Store
from evolvent.memory.text import clean_text, clean_word
from evolvent.memory.times import time_of

MAX_BYTES = 16_384  # of the JSON of one memory, as UTF-8
Scalar: TypeAlias = str | int | float | bool
Filter: TypeAlias = Mapping[str, Scalar | Mapping[str, Any]]

_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_OPPOSITE = {"!=": "==", "not in": "in"}
OPERATORS = ("==", "in", *_ORDER, *_OPPOSITE, "exists")


# ---------------------------------------------------------------------------------------------------- writing
def stored(metadata: Mapping[str, Any] | None, where: str = "remember(metadata=…)", *, mask: bool = True) -> str | None:
    """Metadata as it is stored, secrets masked (unless not ``mask``); ``None`` for none.

    Raises:
        BadInput: not a mapping of names to texts, finite numbers, booleans or lists of these; too long.
    """
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise BadInput(
            "metadata is not a mapping",
            got=type(metadata).__name__,
            expected="{name: value}",
            where=where,
            code="bad_metadata",
        )
    if not metadata:
        return None
    clean = {
        clean_word(name, what="a field", where=where): _value(name, metadata[name], where, mask) for name in metadata
    }
    text = json.dumps(clean, sort_keys=True, ensure_ascii=False)
    if (size := len(text.encode())) > MAX_BYTES:
        do = "keep large things outside, and say in the metadata where"
        got, expected = f"{size:,} bytes of JSON", f"at most {MAX_BYTES:,}"
        raise BadInput("metadata is too long", got=got, expected=expected, where=where, do=do, code="too_long")
    return text


def _plain(value: Any) -> Any:
    """A number or truth value of numpy as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _value(name: str, value: Any, where: str, mask: bool) -> Any:
    if isinstance(value, list | tuple):
        return [_scalar(name, each, where, mask) for each in value]
    return _scalar(name, value, where, mask)


def _scalar(name: str, value: Any, where: str, mask: bool) -> Scalar:
    value = _plain(value)
    if isinstance(value, str):
        text = clean_text(value, what=f"field {name!r}", where=where, limit=MAX_BYTES, empty=True, mask=mask)
        return mask_field(name, text) if mask else text
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    expected = "text, a finite number, True or False, or a list of these; leave a field out that has no value"
    raise BadInput(f"field {name!r} cannot be stored", got=value, expected=expected, where=where, code="bad_metadata")


def expiry(expires: date | timedelta | str | float | None, now: float) -> float | None:
    """Seconds since 1970 from which on a memory is out of recall.

    Args:
        expires: a moment (``times.time_of``), or how long from now: a ``timedelta`` or seconds.
        now: seconds since 1970.
    """
    if expires is None:
        return None
    if isinstance(expires, date | str):
        with suppress(BadInput):  # local time has no moment for the first and last days
            return time_of(expires, "remember(expires=…)").timestamp()
    seconds = expires.total_seconds() if isinstance(expires, timedelta) else expires
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float | np.integer | np.floating)
        or not 0.0 <= seconds < 1e11
    ):
        expected = "a datetime, a date, ISO text, a timedelta or seconds >= 0 from now"
        raise BadInput("not an expiry", got=expires, expected=expected, where="remember(expires=…)", code="bad_expiry")
    return now + float(seconds)


# ---------------------------------------------------------------------------------------------------- filters
class Clause(NamedTuple):
    """One condition on one field; not ``holds``: it must not be fulfilled."""

    field: str
    op: str
    operand: Any
    holds: bool = True


class Joined(NamedTuple):
    """Filters of which all must hold, or (``any``) one; not ``holds``: just that must not be."""

    parts: tuple[Condition, ...]
    any: bool
    holds: bool = True


Condition: TypeAlias = Clause | Joined


def parse(filter: Filter | None, where: str) -> tuple[Condition, ...]:
    """A filter as conditions, all of which must hold.

    Raises:
        BadInput: not a filter; an unknown operator.
    """
    if filter is not None and not isinstance(filter, Mapping):
        raise BadInput(
            "not a filter",
            got=filter,
            expected="{field: value} or {field: {operator: value}}",
            where=where,
            code="bad_filter",
        )
    found: list[Condition] = []
    for name, asked in (filter or {}).items():
        clean_word(name, what="a field", where=where)
        if joined := _joined(name, asked, where):
            found.append(joined)
            continue
        for op, operand in (asked if isinstance(asked, Mapping) and asked else {"==": asked}).items():
            if op not in OPERATORS:
                expected = ", ".join(OPERATORS)
                raise BadInput(
                    f"unknown operator on {name!r}",
                    got=op,
                    expected=expected,
                    where=where,
                    do=_advice(name),
                    code="bad_filter",
                )
            given = _operand(name, op, operand, where)
            holds = op not in _OPPOSITE and (op != "exists" or given)
            found.append(Clause(name, _OPPOSITE.get(op, op), given, holds))
    return tuple(found)


def _joined(name: str, asked: Any, where: str) -> Joined | None:
    """What ``or``, ``and`` or ``not`` joins; ``None`` for a condition on a field."""
    if name in ("or", "and") and isinstance(asked, list | tuple) and any(isinstance(each, Mapping) for each in asked):
        every = [Joined(parse(each, where), any=False) for each in asked]
        return Joined(tuple(every), any=name == "or")
    if name == "not" and isinstance(asked, Mapping) and asked and not asked.keys() & set(OPERATORS):
        return Joined(parse(asked, where), any=False, holds=False)
    return None


def _advice(name: str) -> str:
    """How filters are joined, where a field has the name of what joins them elsewhere (OR, $or, …)."""
    examples = {"or": '{"or": [{…}, {…}]}', "and": '{"and": [{…}, {…}]}', "not": '{"not": {…}}'}
    word = {"any": "or", "all": "and", "nor": "not"}.get(name.strip("$_").lower(), name.strip("$_").lower())
    return f"filters are joined by {examples[word]}" if word in examples else ""


def _operand(name: str, op: str, operand: Any, where: str) -> Any:
    many = isinstance(operand, Sequence | set | frozenset) and not isinstance(operand, str | bytes)
    operand = [_plain(each) for each in operand] if many else _plain(operand)
    plain = _OPPOSITE.get(op, op)
    fits = {
        "exists": isinstance(operand, bool),
        "in": many and all(_kind(each) for each in operand),
        "==": _kind(operand),
    }.get(plain, _kind(operand) in ("number", "text"))
    if not fits:
        expected = {"exists": "True or False", "in": "a list of texts, numbers or booleans"}.get(
            plain, "a text, a number, True or False" if plain == "==" else "a number or a text"
        )
        several = "not in" if op == "!=" else "in"
        do = _advice(name) or (f"several: {{{name!r}: {{{several!r}: […]}}}}" if many else "")
        raise BadInput(
            f"{name!r} cannot be compared by {op!r}",
            got=operand,
            expected=expected,
            where=where,
            do=do,
            code="bad_filter",
        )
    return tuple(operand) if plain == "in" else operand


def _kind(value: Any) -> str:
    """What compares with what; empty for what is no scalar."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "text"
    return "number" if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)) else ""


# ---------------------------------------------------------------------------------------------------- columns
class _Column:
    """One field: which rows have which of its distinct values; a row with a list has several."""

    def __init__(self) -> None:
        self.seqs, self.codes = array("q"), array("q")
        self.values: list[Scalar] = []
        self.code_of: dict[tuple[str, Scalar], int] = {}

    def add(self, seq: int, value: Scalar | list[Scalar]) -> None:
        for each in value if isinstance(value, list) else [value]:
            code = self.code_of.setdefault((_kind(each), each), len(self.values))
            if code == len(self.values):
                self.values.append(each)
            self.seqs.append(seq)
            self.codes.append(code)
        if value == []:  # it exists, and equals nothing
            self.seqs.append(seq)
            self.codes.append(-1)

    def rows(self, op: str, operand: Any) -> np.ndarray:
        """Rows for which a condition holds, int64, sorted."""
        seqs, codes = np.frombuffer(self.seqs, np.int64), np.frombuffer(self.codes, np.int64)
        if op == "exists":
            return np.unique(seqs)
        holds = np.zeros(len(self.values) + 1, bool)  # the last for code -1
        if op in _ORDER:
            kind, compare = _kind(operand), _ORDER[op]
            holds[:-1] = [_kind(value) == kind and compare(value, operand) for value in self.values]
        else:
            known = (self.code_of.get((_kind(each), each)) for each in (operand if op == "in" else (operand,)))
            holds[[code for code in known if code is not None]] = True
        return np.unique(seqs[holds[codes]])


class _Columns:
    """All fields of some rows."""

    def __init__(self) -> None:
        self.newest = 0
        self._fields: dict[str, _Column] = {}

    def extend(self, rows: Iterable[tuple[int, str]]) -> None:
        """Take in rows ``(number, JSON)`` in order, newer than all before."""
        for seq, text in rows:
            self.newest = seq
            for name, value in json.loads(text).items():
                self._fields.setdefault(name, _Column()).add(seq, value)

    def rows(self, clause: Clause) -> np.ndarray:
        """Rows that fulfil a clause, whether they are to or not."""
        column = self._fields.get(clause.field)
        return np.empty(0, np.int64) if column is None else column.rows(clause.op, clause.operand)


class Metadata:
    """The metadata of one scope: filters to rows. What it has read never changes: new metadata is a new version."""

    def __init__(self, store: Store, scope_id: int) -> None:
        self._store, self._scope_id = store, scope_id
        self._lock = threading.Lock()
        self._columns = _Columns()

    def find(self, conditions: Sequence[Condition]) -> tuple[np.ndarray | None, np.ndarray]:
        """Rows that a filter leaves: ``(only these, not these)``, int64, sorted; ``None``: no row is left out by that.

        One more key of a memory has the metadata of the memory.
        """
        with self._lock:
            rows = self._store.rows(
                "SELECT seq, meta FROM memory WHERE +scope_id = ? AND seq > ? AND meta IS NOT NULL ORDER BY seq",
                (self._scope_id, self._columns.newest),
            )
            parts = [self._columns]
            if self._store.writing():  # they may still be undone
                parts.append(_Columns())
            parts[-1].extend(rows)
            found, all_but = _rows(Joined(tuple(conditions), any=False), parts)
        return (None, found) if all_but else (found, found[:0])


def _rows(condition: Condition, columns: Sequence[_Columns]) -> tuple[np.ndarray, bool]:
    """The rows that fulfil a condition, or (True) all but these: what has no such field is in no column."""
    if isinstance(condition, Clause):
        return np.concatenate([part.rows(condition) for part in columns]), not condition.holds
    # one of them holds where not all of their opposites do
    flip = condition.any
    found, all_but = np.empty(0, np.int64), True
    for each in condition.parts:
        rows, but = _rows(each, columns)
        but ^= flip
        if all_but and but:
            found = np.union1d(found, rows)
        elif all_but:
            found, all_but = np.setdiff1d(rows, found, assume_unique=True), False
        else:
            combine = np.setdiff1d if but else np.intersect1d
            found = combine(found, rows, assume_unique=True)
    return found, all_but ^ flip ^ (not condition.holds)
