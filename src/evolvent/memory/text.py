"""Texts on their way into the store: checked, masked, addressed by content."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.rounding import inside
from evolvent.memory.secrets import mask_secrets

T = TypeVar("T")
R = TypeVar("R")
MAX_KEY_CHARS = 100_000
MAX_BODY_CHARS = 2_000_000
# what no store can hold; of a pair of surrogates neither is alone
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean_text(
    text: str, *, what: str, where: str, limit: int = MAX_BODY_CHARS, empty: bool = False, mask: bool = True
) -> str:
    """``text`` checked and with secrets masked (unless not ``mask``), as it is stored.

    Raises:
        BadInput: not a string, empty (unless ``empty``), longer than ``limit`` characters, holds a zero byte or a lone
            surrogate: SQLite would cut or refuse those, so they are refused here, before anything is written.
    """
    if not isinstance(text, str):
        raise BadInput(f"{what} is not text", got=type(text).__name__, expected="str", where=where, code="wrong_type")
    if not empty and not text.strip():
        raise BadInput(f"{what} is empty", got=text, expected="text", where=where, code="empty_text")
    if len(text) > limit:
        do, got = "store a summary, and the long text outside with its path in the body", f"{len(text):,} characters"
        raise BadInput(
            f"{what} is too long", got=got, expected=f"at most {limit:,}", where=where, do=do, code="too_long"
        )
    if "\x00" in text:
        raise BadInput(
            f"{what} holds a zero byte", got=text[:40], expected="text without \\x00", where=where, code="not_storable"
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadInput(
            f"{what} holds a lone surrogate",
            got=f"position {error.start}",
            expected="valid Unicode",
            where=where,
            do="decode the bytes with errors='replace' before remembering them",
            code="not_storable",
        ) from error
    return mask_secrets(text) if mask else text


def storable(text: str) -> str:
    """``text`` with U+FFFD in the place of each zero byte and lone surrogate; a pair of surrogates is the character.

    For what others said and did (tasks, actions): to refuse it would lose the outcome of an attempt that is over.
    """
    if not isinstance(text, str) or not _UNSTORABLE.search(text):
        return text
    return text.replace("\x00", "\ufffd").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean_word(word: str, *, what: str, where: str, limit: int = 100) -> str:
    """A short name (kind, source, stage, objective, scope, idempotency key) that can be stored as it is.

    Raises:
        BadInput: not a string, blank, longer than ``limit``, with a zero byte or a lone surrogate.
    """
    ok = isinstance(word, str) and len(word) <= limit and "\x00" not in word and not word.isspace() and word != ""
    if not ok or (not word.isascii() and any("\ud800" <= c <= "\udfff" for c in word)):
        raise BadInput(
            f"not {what}", got=ascii(word), expected=f"1 to {limit} characters of text", where=where, code="not_a_name"
        )
    return word


def flag(value: bool, *, what: str, where: str) -> bool:
    """A truth value; ``BadInput`` for anything else: the text "false" would count as true."""
    if not isinstance(value, (bool, np.bool_)):
        raise BadInput(
            f"{what} is no truth value", got=repr(value), expected="True or False", where=where, code="wrong_type"
        )
    return bool(value)


def among_words(value: object, words: Sequence[str]) -> bool:
    """Whether a value is one of these words; an array compares with each of them and is none."""
    return isinstance(value, str) and value in words


def needs(value: object, kind: type, *, what: str, where: str) -> None:
    """``BadInput`` unless a value is of a kind of ours."""
    if not isinstance(value, kind):
        got = f"{type(value).__name__}: {value!r}"
        raise BadInput(f"not {what}", got=got, expected=kind.__name__, where=where, code="wrong_type")


def listed(values: Iterable[T], *, what: str, expected: str, where: str) -> list[T]:
    """Several values as a list; ``BadInput`` for a single text, and for what does not hold several."""
    alone = isinstance(values, np.ndarray) and values.ndim == 0
    if isinstance(values, str | bytes) or not isinstance(values, Iterable) or alone:
        kind = "is a single text" if isinstance(values, str | bytes) else "cannot be gone through"
        raise BadInput(f"{what} {kind}", got=values, expected=expected, where=where, code="wrong_type")
    return list(values)


def each_row(rows: Sequence[R], check: Callable[[R], T], name: str) -> list[T]:
    """``check`` of every row; where there are several, ``BadInput`` says which one it is about: ``rows[7]``."""
    made: list[T] = []
    for i, row in enumerate(rows):
        try:
            made.append(check(row))
        except BadInput as error:
            if len(rows) == 1:
                raise
            where = f"{name}[{i}], {error.where}" if error.where else f"{name}[{i}]"
            raise BadInput(
                error.what, got=error.got, expected=error.expected, where=where, do=error.do, code=error.code
            ) from error.__cause__
    return made


def in_units(value: float, span: float, digits: int, sign: str = "") -> str:
    """A value as people read it: ``digits`` decimals where rewards span 1 or more, so many places of it where less."""
    more = 0 if span >= 1.0 else math.floor(-math.log10(span))
    return f"{value:{sign}.{digits + more}f}" if more < 4 else f"{value:{sign}.{digits}e}"


def whole(n: int, *, what: str, where: str, least: int = 0) -> int:
    """``n``; ``BadInput`` unless it is an integer (no truth value) of at least ``least``."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < least:
        raise BadInput(
            f"{what} is not a count", got=_repr(n), expected=f"an integer >= {least}", where=where, code="not_a_count"
        )
    return int(n)


def callback(progress: object, where: str) -> None:
    """``BadInput`` unless that is a function, or ``None``."""
    if progress is not None and not callable(progress):
        raise BadInput(
            "progress cannot be called",
            got=repr(progress),
            expected="a function of done, total and what",
            where=where,
            code="wrong_type",
        )


def counted(n: int, thing: str) -> str:
    """A number of things: ``1 time``, ``5,000 times``."""
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def short(text: str, limit: int = 100) -> str:
    """The beginning of a text, on one line, for people."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def content_hash(text: str) -> str:
    """The address of a text: the first 128 bits of its SHA-256, as 32 hex digits."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:32]


def finite(value: float, *, what: str, where: str, lo: float = -math.inf, hi: float = math.inf) -> float:
    """``value`` as a float; ``BadInput`` unless it is a number (no text, no truth value) in ``lo..hi``, to rounding."""
    do = "an outcome that could not be measured is settled with valid=False" if what == "reward" else ""
    if isinstance(value, bool | np.bool_):
        do = "float(…) of a truth value is 1.0 or 0.0"
    try:
        if isinstance(value, (str, bytes, bool, np.bool_)):
            raise TypeError("float() would take it")
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise _no_number(f"{what} is not a number", _repr(value), where, lo, hi, do) from error
    # what lies inside is kept as it is given: a small weight is no zero
    if not math.isfinite(number) or math.isnan(within := number if lo <= number <= hi else inside(number, lo, hi)):
        raise _no_number(f"{what} is out of range", number, where, lo, hi, do)
    return within


def _repr(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes no integer of thousands of digits
        return f"{type(value).__name__} that is too long to write"


def _no_number(problem: str, got: object, where: str, lo: float, hi: float, do: str) -> BadInput:
    expected = f"a finite number in {lo:g}..{hi:g}"
    return BadInput(problem, got=got, expected=expected, where=where, do=do, code="out_of_range")
