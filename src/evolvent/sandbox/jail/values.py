"""Plain Python values as one line of JSON: what may cross between a confined program and us.

Exact built-in types only: None, bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset. A subclass,
an object, a function does not cross, so nothing that compares itself ever arrives. What JSON has no form for stands in
an object with one key: ``{"t": […]}`` a tuple, ``d`` a dict as pairs, ``s`` and ``z`` sets, ``b`` bytes, ``f`` a float
that is not finite, ``c`` a complex number.
"""

from __future__ import annotations

import binascii
import json
import math
from collections import Counter
from typing import Any

MAX_BYTES, MAX_DEPTH, MAX_SAME_HASH = 1 << 20, 30, 100
"""Of depth: values within values, the message that carries them included; what stands for a dict in JSON has more."""
MAX_DIGITS = 4300
"""Of an integer: Python reads and writes no longer ones, unless it is set to."""
_TOO_LONG = 10**MAX_DIGITS


class BadValue(ValueError):
    """A value that may not cross, or a line that is no value."""


def dumps(value: object) -> bytes:
    """``value`` as one line, without its end.

    Raises:
        BadValue: another type, deeper than 30, or longer than 1 MB.
    """
    line = json.dumps(_pack(value, 0), ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
    if len(line) > MAX_BYTES:
        raise BadValue(f"the value has {len(line):,} bytes, more than {MAX_BYTES:,}")
    return line


def loads(line: bytes) -> Any:
    """The value of a line.

    Raises:
        BadValue: it is not what ``dumps`` writes.
    """
    if len(line) > MAX_BYTES:
        raise BadValue(f"the line has {len(line):,} bytes, more than {MAX_BYTES:,}")
    try:
        return _unpack(json.loads(line, parse_constant=_no_constant), 0)
    except (ValueError, TypeError, RecursionError) as error:
        raise BadValue(f"not a value: {str(error)[:200]}") from error


def same(a: object, b: object, tolerance: float = 0.0) -> bool:
    """Whether two values are equal and of equal types throughout: ``1``, ``1.0`` and ``True`` differ; NaN equals NaN.

    Floats may differ by ``tolerance`` × max(1, |b|). Sets and keys of dicts are compared exactly.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        finite = math.isfinite(a) and math.isfinite(b)  # else every number would be near enough to an infinite one
        return a == b or (finite and abs(a - b) <= tolerance * max(1.0, abs(b)))
    if isinstance(a, complex) and isinstance(b, complex):
        return same(a.real, b.real, tolerance) and same(a.imag, b.imag, tolerance)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        mine, other = {_exact(k): v for k, v in a.items()}, {_exact(k): v for k, v in b.items()}
        equal = len(a) == len(b) and mine.keys() == other.keys()
        return equal and all(same(v, other[k], tolerance) for k, v in mine.items())
    if isinstance(a, set | frozenset) and isinstance(b, set | frozenset):
        return len(a) == len(b) and {_exact(k) for k in a} == {_exact(k) for k in b}
    return a == b


def _exact(key: object) -> object:
    """What stands for a key: equal where type and value are, and where both are NaN, which no dict would find."""
    if isinstance(key, tuple | frozenset):
        return type(key), type(key)(map(_exact, key))
    return type(key), key if key == key else repr(key)


def _pack(value: object, depth: int) -> object:
    if depth > MAX_DEPTH:
        raise BadValue(f"the value is nested more than {MAX_DEPTH} deep")
    kind, deeper = type(value), depth + 1
    if kind is int and not -_TOO_LONG < value < _TOO_LONG:  # type: ignore[operator]
        raise BadValue(f"an integer of more than {MAX_DIGITS} digits cannot leave or enter the sandbox")
    if value is None or kind is bool or kind is int or kind is str:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"f": repr(value)}  # type: ignore[arg-type]
    if kind is list:
        return [_pack(item, deeper) for item in value]  # type: ignore[attr-defined]
    if kind is dict:
        return {"d": [[_pack(k, deeper), _pack(v, deeper)] for k, v in value.items()]}  # type: ignore[attr-defined]
    if kind in _TAGS:
        return {_TAGS[kind]: [_pack(item, deeper) for item in value]}  # type: ignore[attr-defined]
    if kind is bytes:
        return {"b": value.hex()}  # type: ignore[attr-defined]
    if kind is complex:
        return {"c": [_pack(value.real, deeper), _pack(value.imag, deeper)]}  # type: ignore[attr-defined]
    named = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    raise BadValue(f"a {named} cannot leave the sandbox; plain values can: numbers, text, lists, dicts, sets")


_TAGS: dict[type, str] = {tuple: "t", set: "s", frozenset: "z"}


def _unpack(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise BadValue("nested too deep")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadValue("a number beyond the range of a float")
    if isinstance(value, list):
        return [_unpack(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise BadValue("an object with other than one key")
    ((tag, inner),) = value.items()
    if tag == "f" and inner in ("nan", "inf", "-inf"):
        return float(inner)
    if tag == "b" and isinstance(inner, str):
        return binascii.unhexlify(inner)
    if not isinstance(inner, list):
        raise BadValue(f"tag {tag[:10]!r} without a list")
    if tag == "d" and all(isinstance(pair, list) and len(pair) == 2 for pair in inner):
        pairs = [(_unpack(key, depth + 1), _unpack(item, depth + 1)) for key, item in inner]  # as deep as in _pack
        _hashes([key for key, _ in pairs])
        return dict(pairs)
    items = [_unpack(item, depth + 1) for item in inner]
    if tag == "t":
        return tuple(items)
    if tag in ("s", "z"):
        _hashes(items)
        return set(items) if tag == "s" else frozenset(items)
    if tag == "c" and len(items) == 2 and all(type(part) is float for part in items):
        return complex(*items)
    raise BadValue(f"unknown tag {tag[:10]!r}")


def _hashes(keys: list[Any]) -> None:
    """Refuses keys made to collide: our own table of them would take quadratic time."""
    if keys and max(Counter(hash(key) for key in keys).values()) > MAX_SAME_HASH:
        raise BadValue("too many keys with the same hash")


def _no_constant(name: str) -> Any:
    raise BadValue(f"{name} is no JSON")
