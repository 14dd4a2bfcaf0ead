"""More keys of one memory: what was merged under a clearly different key is found by that key too.

Such a key is a row of ``memory`` with its own number, vector and words, and the body, kind and polarity of the memory;
a link of provenance, "key", says whose key it is. Searching treats it like any other row; what is found counts
for the memory, which alone is shown, has a value and earns credit. When the memory leaves recall, its keys find
nothing; a key that is archived (by its number, or by a rollback) finds nothing either.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evolvent.memory.store.engine import Connection, among

if TYPE_CHECKING:
    from evolvent.memory.bank import Bank

# keys at least this similar are found by the same questions: the second one is not kept
SAME_KEY = 0.98

# a condition on table m: a memory, not one more key of another
OWN = "NOT EXISTS (SELECT 1 FROM provenance a WHERE a.child = m.seq AND a.relation = 'key')"
# joins to table m the memory that a row is one more key of, as o; rows of which are in recall
_OWNER = "LEFT JOIN provenance a ON a.child = m.seq AND a.relation = 'key' LEFT JOIN memory o ON o.seq = a.parent"
_IN_USE = "m.status = 'active' AND coalesce(o.status, 'active') = 'active'"

# the arguments after the scope: body, kind, polarity, metadata (empty for none) and the time
WITH_BODY = (
    f"SELECT m.seq, coalesce(o.seq, m.seq), m.key_hash FROM memory m {_OWNER} WHERE m.scope_id=? AND m.body_hash=? AND "
    "m.kind=? AND m.polarity=? AND coalesce(m.meta, '')=? AND (m.expires_at IS NULL OR m.expires_at > ?) AND "
    f"{_IN_USE} ORDER BY m.seq"
)


def ask_expired(db: Connection, bank: Bank) -> Iterable[tuple]:
    """Ask which rows are out of recall by now because they have expired: ``(row,)``."""
    return db.execute(
        "SELECT seq FROM memory WHERE scope_id = ? AND expires_at <= ? AND status = 'active'",
        (bank.scope_id, time.time()),
    )


_WHOSE = (
    f"SELECT m.seq, coalesce(o.seq, m.seq), {{}} FROM memory m {{}} {_OWNER} WHERE {_IN_USE} AND m.seq IN ({{{{}}}})"
)
_WITH_KEY, _WITHOUT = _WHOSE.format("k.body", "JOIN text_blob k ON k.hash = m.key_hash"), _WHOSE.format("''", "")


def ask(db: Connection, rows: Sequence[int], texts: bool = False) -> Iterable[tuple]:
    """Ask whose keys these are: ``(row, memory, key)``, without those of memories that left recall.

    The key is empty unless ``texts`` are asked for.
    """
    return among(db, _WITH_KEY if texts else _WITHOUT, rows)


class Owners:
    """Whose the keys are that a search finds: however often it is widened, each is asked about once."""

    def __init__(self, texts: bool) -> None:
        self._texts, self._owners = texts, dict[int, tuple[int, str] | None]()

    def of(self, bank: Bank, rows: Sequence[int]) -> list[tuple[int, str] | None]:
        """``(memory, key)`` of each row, ``None`` where the memory left recall."""
        new = [row for row in rows if row not in self._owners]
        if new:
            self._owners |= dict.fromkeys(new)
            with bank.store.session() as db, bank.store.translated("reading"):
                self._owners |= {row: (memory, key) for row, memory, key in ask(db, new, self._texts)}
        return [self._owners[row] for row in rows]


def best(memory: Sequence[int], cosine: np.ndarray) -> tuple[list[int], np.ndarray]:
    """The first key of each memory, by its place, and the highest cosine of its keys.

    Args:
        memory: whose each key is, best key first.
        cosine: of each key, ``[N]``.

    Returns:
        Places, and cosines float64 ``[memories]``.
    """
    if len(set(memory)) == len(memory):
        return list(range(len(memory))), np.asarray(cosine, np.float64)
    _, first, own = np.unique(np.asarray(memory, np.int64), return_index=True, return_inverse=True)
    highest = np.full(len(first), -2.0)
    np.maximum.at(highest, own, cosine)
    order = np.argsort(first)
    return first[order].tolist(), highest[order]


def of(db: Connection, seq: int) -> list[tuple]:
    """All keys of a memory, its own first: ``(row, key, status)``."""
    return db.execute(
        "SELECT m.seq, k.body, m.status FROM memory m JOIN text_blob k ON k.hash = m.key_hash WHERE m.seq = ? "
        "OR m.seq IN (SELECT child FROM provenance WHERE parent = ? AND relation = 'key') ORDER BY m.seq",
        (seq, seq),
    ).fetchall()


def versions(db: Connection, seq: int) -> list[int]:
    """All versions of a memory that was updated, oldest first; of any other itself."""
    first = db.execute("SELECT parent FROM provenance WHERE child = ? AND relation = 'updated'", (seq,)).fetchone()
    root = seq if first is None else first[0]
    later = db.execute("SELECT child FROM provenance WHERE parent = ? AND relation = 'updated' ORDER BY child", (root,))
    return [root, *(child for (child,) in later)]


def merged(details: Iterable[tuple]) -> set[str]:
    """Hashes of the keys that lines of the log about merges, ``(detail,)``, name."""
    return {json.loads(detail).get("key_hash", "") for (detail,) in details}


def extend_expiry(db: Connection, seq: int, until: float | None) -> None:
    """Let a memory with all its keys expire no earlier than a time; ``None``: never."""
    earlier, args = ("expires_at IS NOT NULL", []) if until is None else ("expires_at < ?", [until])
    db.execute(
        f"UPDATE memory SET expires_at = ? WHERE {earlier} AND (seq = ? OR seq IN "
        "(SELECT child FROM provenance WHERE parent = ? AND relation = 'key'))",
        (until, *args, seq, seq),
    )
