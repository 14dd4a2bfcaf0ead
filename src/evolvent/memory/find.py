"""Where a text stands in a scope: every key, body, task, action and other word that somebody wrote. Reads only."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from typing import Any

from evolvent.memory import user_values
from evolvent.memory.bank import Bank
from evolvent.memory.items import Trace
from evolvent.memory.keys import OWN
from evolvent.memory.text import clean_text

# fields of a line of the log that hold words: reasons, and who said again what was merged
WORDS = ("reason", "update", "source")
# (letter of the id, what it stands in, SQL of (number, text) by scope)
_IN = (
    (
        "m",
        "key",
        "SELECT coalesce(a.parent, m.seq), t.body FROM memory m JOIN text_blob t ON t.hash = m.key_hash "
        "LEFT JOIN provenance a ON a.child = m.seq AND a.relation = 'key' WHERE m.scope_id = ? ORDER BY m.seq",
    ),
    (
        "m",
        "body",
        "SELECT m.seq, t.body FROM memory m JOIN text_blob t ON t.hash = m.body_hash WHERE m.scope_id = ? "
        f"AND {OWN} ORDER BY m.seq",
    ),
    (
        "m",
        "metadata",
        f"SELECT m.seq, m.meta FROM memory m WHERE m.scope_id = ? AND m.meta IS NOT NULL AND {OWN} ORDER BY m.seq",
    ),
    ("m", "source", f"SELECT m.seq, m.source FROM memory m WHERE m.scope_id = ? AND {OWN} ORDER BY m.seq"),
    ("m", "kind", f"SELECT m.seq, m.kind FROM memory m WHERE m.scope_id = ? AND {OWN} ORDER BY m.seq"),
    (
        "r",
        "task",
        "SELECT r.seq, t.body FROM recall r JOIN text_blob t ON t.hash = r.query_hash WHERE r.scope_id = ? "
        "ORDER BY r.seq",
    ),
    (
        "r",
        "action",
        "SELECT o.recall_id, t.body FROM outcome o JOIN text_blob t ON t.hash = o.action_hash "
        "WHERE o.scope_id = ? ORDER BY o.outcome_id",
    ),
    (
        "r",
        "idempotency key",
        "SELECT recall_id, substr(idempotency_key, 5) FROM outcome WHERE scope_id = ? "
        "AND idempotency_key LIKE 'key:%' ORDER BY outcome_id",
    ),
    ("a", "log", "SELECT seq, detail FROM audit WHERE scope_id = ? ORDER BY seq"),
)


def find(bank: Bank, text: str) -> list[Trace]:
    """See ``Memory.find``."""
    wanted = _plain(clean_text(text, what="the text", where="find", mask=False))
    found = dict[Trace, None]()
    with bank.store.snapshot():
        for letter, where, sql in _IN:
            for piece in bank.store.chunks(sql, (bank.scope_id,)):
                for number, said in piece:
                    text_here = _text_of(where, said)
                    if wanted in _plain(text_here):
                        found[Trace(f"{letter}{number}", where, text_here)] = None
        for name, value in user_values.all_of(bank):
            text_here = f"{name} = {json.dumps(value, ensure_ascii=False)}"
            if wanted in _plain(text_here):
                found[Trace(f"kept:{name}", "kept", text_here)] = None
    return list(found)


def _plain(text: str) -> str:
    """A text as it is compared: in whatever case, with whatever spaces, letters composed or not."""
    text = text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return " ".join(text.split())


def _text_of(where: str, said: str) -> str:
    """What people wrote of what is stored: of JSON its texts."""
    if where == "metadata":
        return "\n".join(_texts(json.loads(said)))
    if where == "log":
        fields = json.loads(said)
        return "\n".join(str(fields[name]) for name in WORDS if fields.get(name))
    return said


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield f"{name}: {', '.join(_texts(each))}"
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    else:
        yield str(value)
