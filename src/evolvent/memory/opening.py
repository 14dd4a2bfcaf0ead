"""Open one scope of a store: what it was made with is kept, and another embedder or reward range is refused.

The embedder binds from the first vector on: one that could not be loaded must not be that of the store for ever.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import get_args

from evolvent.core.errors import BadInput, StoreError
from evolvent.core.protocols import Embedder
from evolvent.memory import holdout, policies
from evolvent.memory.bank import Bank
from evolvent.memory.embedders import DEFAULT, load
from evolvent.memory.rule import Policy
from evolvent.memory.store.engine import Search, Store, Sync, damaged
from evolvent.memory.store.opening import open_store
from evolvent.memory.text import among_words, clean_word, flag

_RANGE = (0.0, 1.0)  # of rewards, where none is given


def open_bank(
    path: str | Path,
    *,
    policy: str | Policy,
    embedder: str | Embedder | None,
    scope: str,
    seed: int,
    reward_range: tuple[float, float] | None,
    sync: Sync,
    search: Search,
    mask: bool,
    held_out: float | bool,
) -> Bank:
    """The scope, made when new; see ``Memory`` for arguments and errors."""
    # before a file is made; under which range a policy may start is known when the store is open
    policy = policies.named(policy) if reward_range is None else policies.check(policy, reward_range)
    clean_word(scope, what="a scope", where="Memory(scope=…)", limit=200)
    _check(seed, search)
    mask = flag(mask, what="mask", where="Memory(mask=…)")
    share = holdout.checked(held_out)
    chosen = None if embedder is None else as_embedder(embedder)
    store = open_store(path, sync=sync)
    try:
        # and before anything is fixed in a new store: what cannot be opened like this may be opened otherwise
        if chosen is None:
            chosen = as_embedder(store.meta_get("embedder") or DEFAULT)
        if reward_range is None and store.meta_get(f"reward_range:{scope}") is None:
            policies.check(policy, _RANGE)
        _pin_embedder(store, chosen)
        bounds = _range(store, scope, reward_range)
        scope_id = open_scope(store, scope)
        holdout.prepare(store, scope_id, share)
        return Bank(
            store=store,
            scope=scope,
            scope_id=scope_id,
            embedder=chosen,
            policy=policies.check(policy, bounds),
            reward_range=bounds,
            seed=seed,
            search=search,
            mask=mask,
            holdout=share,
        )
    except BaseException:
        store.close()
        raise


def _check(seed: object, search: object) -> None:
    """``BadInput`` for arguments that would be noticed late or never."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise BadInput(
            "seed is not a number", got=seed, expected="an integer", where="Memory(seed=…)", code="out_of_range"
        )
    if not among_words(search, get_args(Search)):
        raise BadInput(
            "unknown search", got=search, expected=get_args(Search), where="Memory(search=…)", code="unknown_option"
        )


def open_scope(store: Store, name: str) -> int:
    """The number of a scope; made when new."""
    clean_word(name, what="a scope", where="Memory(scope=…)", limit=200)
    row = store.row("SELECT scope_id FROM scope WHERE name=?", (name,))
    if row is None:
        with store.write() as db:
            db.execute(
                "INSERT INTO scope(scope_id, name, created_at) SELECT 1 + coalesce(max(scope_id), 0), ?, ? FROM "
                "(SELECT scope_id FROM scope UNION ALL SELECT CAST(? AS INTEGER)) taken WHERE true "
                "ON CONFLICT DO NOTHING",
                (name, time.time(), store.meta_get("scopes_dropped") or 0),
            )
        row = store.row("SELECT scope_id FROM scope WHERE name=?", (name,))
    if row is None or not isinstance(row[0], int):
        raise damaged(row, store.where)  # an index and its table disagree
    return row[0]


def _pin_embedder(store: Store, chosen: Embedder) -> None:
    """The embedder of a store: kept when it is made, fixed by its first vector, refused when another comes later."""
    if store.meta_pin("embedder", chosen.id) == chosen.id:
        return
    if _empty(store):
        with store.write():
            if _empty(store):  # no other process wrote the first vector meanwhile
                store.meta_set("embedder", chosen.id)
                return
    raise StoreError(
        "the store was made with another embedder",
        code="other_embedder",
        got=chosen.id,
        expected=store.meta_get("embedder"),
        where=store.where,
        do="leave embedder out, or change it: evolvent memory reembed STORE --embedder NAME",
    )


def _empty(store: Store) -> bool:
    return store.row("SELECT 1 FROM embedding LIMIT 1") is None


def as_embedder(chosen: str | Embedder) -> Embedder:
    """An embedder from its name, or as it is; ``BadInput`` for anything else."""
    if isinstance(chosen, str):
        chosen = load(chosen)
    if isinstance(chosen, type):
        raise _no_embedder(f"the class {chosen.__name__}", f"give an instance: embedder={chosen.__name__}(…)")
    # not isinstance(chosen, Embedder): it would read .dim, which loads some models
    if not isinstance(getattr(chosen, "id", None), str) or not callable(getattr(chosen, "embed", None)):
        do = "a function from texts to vectors: embedders.Function(name, function)" if callable(chosen) else ""
        raise _no_embedder(type(chosen).__name__, do)
    return chosen


def _no_embedder(got: str, do: str) -> BadInput:
    expected = "id, dim and embed(texts)"
    return BadInput("not an embedder", got=got, expected=expected, where="Memory", do=do, code="unknown_embedder")


def _range(store: Store, scope: str, wanted: tuple[float, float] | None) -> tuple[float, float]:
    """The reward range of a scope: fixed when it is made, refused when another comes later."""
    given, name = _RANGE if wanted is None else (float(wanted[0]), float(wanted[1])), f"reward_range:{scope}"
    used = "SELECT 1 FROM memory m JOIN scope s ON s.scope_id = m.scope_id WHERE s.name = ? LIMIT 1"
    if store.meta_get(name) is None and store.row(used, (scope,)):
        raise damaged(f"no reward range of scope {scope!r}", store.where)
    pinned = store.meta_pin(name, list(given))
    if not (isinstance(pinned, list) and len(pinned) == 2 and all(isinstance(x, int | float) for x in pinned)):
        raise damaged(f"reward range {pinned}", store.where)
    lo, hi = pinned
    if wanted is not None and (lo, hi) != given:
        raise StoreError(
            "the scope was made with another reward range",
            code="other_reward_range",
            got=given,
            expected=(lo, hi),
            where=f"{store.where}, scope {scope!r}",
            do="leave reward_range out, or use another scope",
        )
    return lo, hi
