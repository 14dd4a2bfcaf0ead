"""Values as strict JSON: what may stand in a record, and how NaN and infinity travel through it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from evolvent.core.errors import BadInput

FLOAT_KEY = "$float"
MAX_DEPTH = 64
"""Levels of nesting: deeper values end in an error of recursion somewhere, when they are written or read."""


def plain(value: object, where: str, depth: int = 0) -> Any:
    """``value`` as plain JSON types: tuples and arrays become lists, numpy scalars Python numbers; the rest is refused.

    Non-finite floats stay floats here; ``escape`` writes them.

    Raises:
        BadInput: a type JSON cannot hold, a key that is not a string, or too deep; ``where`` says in which field.
    """
    if depth > MAX_DEPTH:
        raise BadInput("nested too deep", expected=f"at most {MAX_DEPTH} levels", where=where)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, np.generic):
        return plain(cast("object", value.item()), where, depth)
    if isinstance(value, np.ndarray):
        return plain(cast("object", value.tolist()), where, depth)
    if isinstance(value, Mapping):
        out: dict[str, Any] = {}
        for key, item in cast("Mapping[object, object]", value).items():
            if not isinstance(key, str):
                raise BadInput("key is not a string", got=key, expected="str", where=where, do="use str keys")
            out[key] = plain(item, f"{where}.{key}", depth + 1)
        return out
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [plain(item, where, depth + 1) for item in cast("Sequence[object]", value)]
    raise BadInput(
        "value cannot be written as JSON",
        got=f"{type(value).__name__}: {value!r}",
        expected="str, number, bool, None, list or mapping of these",
        where=where,
        do="convert it, or leave it out of the record",
    )


def escape(value: Any) -> Any:
    """Plain JSON types to strict JSON: NaN and ±inf become ``{"$float": "nan"}``; a key's leading $ is doubled."""
    if isinstance(value, float):
        return value if math.isfinite(value) else {FLOAT_KEY: repr(value)}
    if isinstance(value, list):
        return [escape(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {("$" + key if key.startswith("$") else key): escape(item) for key, item in items}
    return value


def unescape(value: Any, depth: int = 0) -> Any:
    """The inverse of ``escape``.

    Raises:
        BadInput: nested too deep.
    """
    if depth > MAX_DEPTH + 8:  # what stands in a record stands a few levels deep in its line
        raise BadInput("nested too deep", expected=f"at most {MAX_DEPTH} levels", where="strict_json.unescape")
    if isinstance(value, list):
        return [unescape(item, depth + 1) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        if len(table) == 1 and FLOAT_KEY in table:
            return float(table[FLOAT_KEY])
        return {(key[1:] if key.startswith("$") else key): unescape(item, depth + 1) for key, item in table.items()}
    return value
