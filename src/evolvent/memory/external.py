"""What is kept elsewhere: another memory, skills in a folder, sections of a prompt, tools.

A caller hands candidates over, ``{"id", "text", "score"}``. Each that is looked at becomes a row of ``memory`` with
status "external": its key is the caller's id, it has no vector, so that no search finds it, and of its text a hash is
kept, or the text where that is asked for. From there on it is a memory as any other: ranked, left out, held out,
credited, measured, erased. Another text under an id is another row, whose figures begin anew; the earlier text again
is the earlier row.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from evolvent.core.errors import BadInput
from evolvent.memory.keys import NAME
from evolvent.memory.rule import start_value
from evolvent.memory.store.engine import Connection, Store, among, put_text
from evolvent.memory.text import MAX_BODY_CHARS, clean_text, clean_word, content_hash, each_row, finite, listed

if TYPE_CHECKING:
    from evolvent.memory.bank import Bank

STATUS = KIND = SOURCE = "external"
_ROWS = (
    "SELECT m.key_hash, m.text_hash, m.seq, m.status, m.body_hash, m.content_version FROM memory m "
    "WHERE m.scope_id = ? AND m.text_hash IS NOT NULL AND m.key_hash IN ({}) ORDER BY m.seq"
)
_INSERT = (
    "INSERT INTO memory(scope_id, kind, polarity, key_hash, body_hash, source, q_init, q_given, status, "
    "content_version, created_at, text_hash) VALUES(?,?,'neutral',?,?,?,?,?,?,?,?,?) RETURNING seq"
)
_OWN = re.compile(r"[mra][0-9]+|kept:.*", re.DOTALL)
_EXPECTED = '[{"id": text, "text": text, "score": number}, …]'
_WHERE = "recall(candidates=…)"
_STEP = 1e-12  # of relevance from place to place: no policy takes it for a difference, and it decides between equals
_NOTHING = content_hash("")


class Candidate(NamedTuple):
    """One of them, with its relevance to the task, and what it is found by."""

    id: str
    text: str
    relevance: float
    key_hash: str
    text_hash: str


class Offered(NamedTuple):
    """The candidates of one recall, most relevant first, and whether their texts are to be kept."""

    candidates: Sequence[Candidate]
    keep_text: bool


def own(id_: str) -> bool:
    """Whether that looks like an id of this library: m12, r7, a2, kept:NAME."""
    return _OWN.fullmatch(id_) is not None


def checked(given: Any) -> list[Candidate]:
    """The candidates that a caller named, most relevant first; without scores in their order.

    Scores are taken as cosines; where one is beyond 1 (BM25), all are divided by the largest.

    Raises:
        BadInput: what is none of these, an id twice or like one of this library, a score of some alone.
    """
    rows = each_row(listed(given, what="candidates", expected=_EXPECTED, where=_WHERE), _row, "candidates")
    twice = [id_ for id_, n in Counter(row[0] for row in rows).items() if n > 1]
    if twice:
        raise BadInput(
            "a candidate is there twice",
            got=twice[0],
            expected="each id once",
            where=_WHERE,
            do="name the parts of one thing apart: 'guide#1', 'guide#2'",
            code="conflicting",
        )
    scores = [score for *_, score in rows if score is not None]
    if 0 < len(scores) < len(rows):
        got = f"{len(scores)} of {len(rows)}"
        raise BadInput("a score of some alone", got=got, expected="all or none", where=_WHERE, code="conflicting")
    scale = max([1.0, *map(abs, scores)])
    best_first = [(id_, text, 1.0 if score is None else score / scale) for id_, text, score in rows]
    best_first.sort(key=lambda row: -row[2])
    # of equals the earlier one stays first under every policy
    return [
        Candidate(id_, text, score - _STEP * i, content_hash(id_), content_hash(text))
        for i, (id_, text, score) in enumerate(best_first)
    ]


def _row(row: Any) -> tuple[str, str, float | None]:
    if not isinstance(row, Mapping) or not {"id", "text"} <= set(row) <= {"id", "text", "score"}:
        got = list(row) if isinstance(row, Mapping) else row
        raise BadInput("not a candidate", got=got, expected="id, text and score", where=_WHERE, code="wrong_type")
    id_ = clean_word(row["id"], what="the id of a candidate", where=_WHERE, limit=500)
    if own(id_):
        do = "put a word before it: 'doc:m12'; memories of this store are recalled without candidates"
        raise BadInput("an id like those of this library", got=id_, where=_WHERE, do=do, code="not_a_name")
    text = clean_text(row["text"], what="the text of a candidate", where=_WHERE, limit=MAX_BODY_CHARS, mask=False)
    score = row.get("score")
    return id_, text, None if score is None else finite(score, what="score", where=_WHERE)


class Rows:
    """The rows of candidates, made as they are asked for: those that nobody looks at leave nothing."""

    def __init__(self, db: Connection, bank: Bank, offered: Offered) -> None:
        self._db, self._bank, self._keep = db, bank, offered.keep_text
        self._left = list(reversed(offered.candidates))
        self.found: list[tuple[int, Candidate]] = []

    def first(self, n: int) -> list[tuple[int, Candidate]]:
        """The ``n`` most relevant that were not taken out of recall."""
        while len(self.found) < n and self._left:
            piece = [self._left.pop() for _ in range(min(n - len(self.found), len(self._left)))]
            self.found += self._rows(piece)
        return self.found[:n]

    def _rows(self, piece: Sequence[Candidate]) -> list[tuple[int, Candidate]]:
        db, there, version = self._db, dict[tuple[str, str], tuple](), Counter[str]()
        for key, text, *row in among(db, _ROWS, [one.key_hash for one in piece], self._bank.scope_id):
            there[key, text] = tuple(row)
            version[key] = max(version[key], row[3])
        made, unkept = list[tuple[int, Candidate]](), list[tuple[str, int]]()
        for one in piece:
            row = there.get((one.key_hash, one.text_hash))
            if row is None:
                made.append((self._insert(one, version[one.key_hash] + 1), one))
                continue
            seq, status, body, _ = row
            if status == STATUS:
                made.append((seq, one))
                if self._keep and body == _NOTHING:
                    unkept.append((self._body(one), seq))
        if unkept:
            with self._bank.store.unguarded():  # what was not written yet is written once
                db.executemany("UPDATE memory SET body_hash = ? WHERE seq = ?", unkept)
        return made

    def _insert(self, one: Candidate, version: int) -> int:
        bank = self._bank
        put_text(self._db, one.key_hash, one.id)
        start = start_value(bank.policy, bank.reward_range)
        row = (bank.scope_id, KIND, one.key_hash, self._body(one), SOURCE, start, False, STATUS, version, time.time())
        return self._db.execute(_INSERT, (*row, one.text_hash)).fetchone()[0]

    def _body(self, one: Candidate) -> str:
        """Write what is kept of the text; returns its hash."""
        text = clean_text(one.text, what="the text", where=_WHERE, mask=self._bank.mask) if self._keep else ""
        digest = content_hash(text)
        put_text(self._db, digest, text)
        return digest


def sequences(store: Store, scope_id: int, id_: object) -> list[int]:
    """The rows of a caller's id in a scope, one for each text that was under it, the newest text last."""
    if not isinstance(id_, str) or own(id_) or any("\ud800" <= c <= "\udfff" for c in id_):
        return []
    sql = "SELECT seq FROM memory WHERE scope_id = ? AND key_hash = ? AND text_hash IS NOT NULL ORDER BY seq"
    return [seq for (seq,) in store.rows(sql, (scope_id, content_hash(id_)))]


def names(store: Store, seqs: Iterable[int]) -> dict[int, str]:
    """The callers' ids of those of these rows that are kept elsewhere."""
    sql = f"SELECT m.seq, {NAME} FROM memory m WHERE m.text_hash IS NOT NULL AND m.seq IN ({{}})"
    return dict(store.rows_among(sql, seqs))
