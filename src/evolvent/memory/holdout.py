"""Holding out: by chance an attempt gets nothing from the memory, so that what the memory adds can be measured.

The draw is a keyed hash of the attempt's name (of the receipt's, where it has none) under a salt that is kept in the
store: retries and further recalls of an attempt agree, scopes of a recall agree, and no ``seed`` repeats it. The
probability is logged before the draw. ``effects.py`` reads what came of it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from evolvent.core.errors import BadInput
from evolvent.memory.store.engine import Connection, Store, among
from evolvent.memory.text import content_hash

# of ``holdout=True``: until it is known whether the memory helps, and from then on, to notice that it changes
RATE, AFTER = 0.2, 0.02
MOST = 0.5
_SALT = "holdout_salt"
_EVERY = 20  # outcomes between two looks at the verdict
# whether what memlift and others measure is decided, and whether the newest recalls brought any outcome
_STATE = (
    "SELECT (SELECT body FROM meta WHERE name = ?), (SELECT body FROM meta WHERE name = ?), count(*), count(told) FROM "
    "(SELECT (SELECT 1 FROM outcome o WHERE o.recall_id = r.seq AND o.valid LIMIT 1) AS told FROM recall r "
    "WHERE r.scope_id = ? AND r.n_pool > 0 AND NOT r.frozen AND NOT r.is_test ORDER BY r.seq DESC LIMIT 100) newest"
)
_EARLIER = (
    "SELECT x.attempt, x.rate, x.held_out FROM exposure x JOIN recall r ON r.seq = x.recall_id "
    "WHERE r.scope_id = ? AND x.attempt IN ({}) ORDER BY x.recall_id DESC"
)


@dataclass(frozen=True)
class Holdout:
    """How often a memory holds out: ``rate``, and ``after`` once the verdict is known, where that is another one."""

    rate: float = 0.0
    after: float | None = None


NEVER = Holdout()


class Draw(NamedTuple):
    """Under which name an attempt is drawn, and with which probability it is held out (None: what the scope says)."""

    attempt: str
    rate: float | None


class Exposure(NamedTuple):
    """What chance decided of a recall, for its receipt."""

    attempt: str
    rate: float
    held_out: bool


def checked(holdout: object) -> Holdout:
    """``Memory``'s argument; ``BadInput`` unless it is True, False or a rate of 0 to ``MOST``."""
    if isinstance(holdout, bool):
        return Holdout(RATE, AFTER) if holdout else NEVER
    if not isinstance(holdout, int | float) or not 0.0 <= holdout <= MOST:
        raise BadInput(
            "not a share of attempts to hold out",
            got=holdout,
            expected=f"0 to {MOST}, or True: {RATE} until it is known whether the memory helps, then {AFTER}",
            where="Memory(holdout=…)",
            code="out_of_range",
        )
    return Holdout(float(holdout))


def prepare(store: Store, scope_id: int, holdout: Holdout) -> None:
    """Keep what draws need, in the store, before the first of them."""
    if holdout.rate > 0.0:
        store.meta_pin(_SALT, secrets.token_hex(16))
    if holdout.after is not None:
        store.meta_pin(state_name(scope_id), {"decided": False})


def state_name(scope_id: int) -> str:
    """Name in ``meta`` of whether the verdict of a scope is known."""
    return f"holdout:{scope_id}"


def attempt_of(name: str | None, receipt: str) -> str:
    """The hash that an attempt is known by: of its name, else of its receipt."""
    return content_hash(f"receipt {receipt}" if name is None else f"attempt {name}")


def uniform(salt: str, attempt: str) -> float:
    """The number from 0 to 1 that decides about an attempt: held out below the rate."""
    digest = hashlib.blake2b(attempt.encode(), key=salt.encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2.0**53


class Draws:
    """The draws of the recalls of one transaction; asks when it is made, and reads when the first is needed.

    Args:
        db: the connection.
        scope_id: the scope.
        holdout: how often.
        names: hashes of the attempts that have a name.
    """

    def __init__(self, db: Connection, scope_id: int, holdout: Holdout, names: Iterable[str]) -> None:
        self._holdout = holdout
        self._state = db.execute(_STATE, (_SALT, state_name(scope_id), scope_id)) if holdout.rate > 0.0 else None
        self._asked = among(db, _EARLIER, sorted(set(names)), scope_id)
        self._earlier: dict[str, Exposure] | None = None
        self._now = 0.0
        self._salt = ""

    def of(self, attempt: str, rate: float | None = None) -> Exposure:
        """What happens to an attempt: the same as before, else drawn; ``rate``: of the scope that drew first."""
        self._read()
        assert self._earlier is not None
        if attempt not in self._earlier:
            rate = self._now if rate is None else rate
            held = bool(self._salt) and uniform(self._salt, attempt) < rate
            self._earlier[attempt] = Exposure(attempt, rate if self._salt else 0.0, held)
        return self._earlier[attempt]

    def _read(self) -> None:
        if self._earlier is not None:
            return
        self._earlier = {name: Exposure(name, rate, bool(held)) for name, rate, held in self._asked}
        if self._state is None:
            return
        salt, state, asked, told = next(iter(self._state))
        self._salt = json.loads(salt) if salt else ""
        decided = state is not None and json.loads(state)["decided"]
        after = self._holdout.after
        self._now = after if decided and after is not None else self._holdout.rate
        if asked == 100 and not told:
            self._now = 0.0  # nobody says any more what comes of recalls: holding out measures nothing


def write(db: Connection, number: int, exposure: Exposure, task: str | None) -> None:
    """Keep what was decided of a receipt; ``task``: hash of the caller's name of it."""
    row = (number, exposure.attempt, task, exposure.rate, exposure.held_out)
    db.execute("INSERT INTO exposure(recall_id, attempt, task, rate, held_out) VALUES(?,?,?,?,?)", row)


def due(state: Mapping[str, Any] | None, outcomes: Sequence[int]) -> bool:
    """Whether the verdict is to be looked at again, now that outcomes of these numbers were told."""
    if state is None or state["decided"]:
        return False
    # a look costs what all outcomes cost: the more there are, the rarer
    return any(number % (_EVERY * max(1, number // 1000)) == 0 for number in outcomes)
