"""``"a=1+b=word"``: settings of a package behind an environment, written inside one option."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from evolvent.core.errors import BadInput, closest


def parse_settings(text: str, known: Sequence[str] | None, where: str) -> dict[str, Any]:
    """The settings in ``text``, joined by "+"; values are written as in Python, anything else is text.

    Args:
        text: e.g. ``"min_terms=2+operators=['+','-']+name=red"``.
        known: the names there are; ``None`` = any.
        where: for the error.

    Raises:
        BadInput: a part that is not ``name=value``, a name twice, or an unknown one (names the closest).
    """
    values: dict[str, Any] = {}
    for pair in filter(None, re.split(r"\+(?=\s*\w+\s*=)", text)):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or name in values:
            raise BadInput("no such setting", got=pair, expected="name=value, each name once", where=where)
        if known is not None and name not in known:
            raise BadInput("no such setting", got=name, expected=closest(name, known or ["none"]), where=where)
        values[name] = _value(value)
    return values


def _value(text: str) -> Any:
    if text.lower() in ("true", "false", "none"):
        return {"true": True, "false": False, "none": None}[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
