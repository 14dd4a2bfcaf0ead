"""Small JSON values that the caller stores with a scope, beside its memories."""

from __future__ import annotations

import json
from typing import Any

from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.bank import Bank
from evolvent.memory.text import clean_word


def _place(bank: Bank, name: str) -> str:
    """Where a scope stores what its user calls ``name``; the length tells scope and name apart, whatever they hold."""
    clean_word(name, what="a name", where="meta", limit=1000)
    return f"kept:{len(bank.scope)}:{bank.scope}:{name}"


def get(bank: Bank, name: str) -> Any:
    """What a scope stores under a name, or ``None``.

    Version 0.1.0 kept it under ``user:scope:name``, where scope ``a`` with the name ``b:c`` met scope ``a:b``
    with the name ``c``. Such a row is read as long as only one scope of the store can have written it.

    Raises:
        StoreError: an old row that several scopes can have written.
    """
    place, old = _place(bank, name), f"user:{bank.scope}:{name}"
    if bank.store.row("SELECT 1 FROM meta WHERE name=?", (place,)) is not None:
        return bank.store.meta_get(place)
    value = bank.store.meta_get(old)
    if value is None or ":" not in f"{bank.scope}{name}":
        return value
    owners = sorted(scope for (scope,) in bank.store.rows("SELECT name FROM scope") if old.startswith(f"user:{scope}:"))
    if owners != [bank.scope]:
        raise StoreError(
            "an older version kept this where several scopes may have written it",
            got=f"{name!r} = {value!r}",
            expected=f"a row of scope {bank.scope!r} alone, not of {owners}",
            where=bank.store.where,
            do="say what it shall be: meta_set(name, value), once in each scope",
            code="kept_by_several",
        )
    return value


def put(bank: Bank, name: str, value: Any) -> None:
    """Store a value under a name."""
    bank.check_scope()
    place = _place(bank, name)
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput("that is no JSON value", got=value, where=f"meta_set({name!r})", code="not_json") from error
    bank.store.meta_set(place, value)


def all_of(bank: Bank) -> list[tuple[str, Any]]:
    """What a scope stores: names and values."""
    start = _place(bank, "x")[:-1]
    rows = bank.store.rows("SELECT name, body FROM meta WHERE name LIKE 'kept:%' ORDER BY name")
    return [(name[len(start) :], json.loads(body)) for name, body in rows if name.startswith(start)]


def remove(bank: Bank, name: str) -> int:
    """Remove the value of a name; returns how many values went."""
    with bank.store.write() as db:
        return len(db.execute("DELETE FROM meta WHERE name = ? RETURNING 1", (_place(bank, name),)).fetchall())
