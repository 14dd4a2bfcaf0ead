"""How the checks say that a promise was broken."""

from __future__ import annotations

from typing import Any, NoReturn

from evolvent.core.errors import BadInput


def broken(rule: Any, promise: str, got: object, expected: object) -> NoReturn:
    """Raise ``BadInput`` for a credit rule."""
    name = getattr(rule, "__name__", type(rule).__name__)
    raise BadInput(promise, got=got, expected=expected, where=f"credit rule {name}", do="see testing.check_credit")
