"""What is kept elsewhere: another memory, skills in a folder, sections of a prompt, tools.

A caller hands candidates over, ``{"id", "text", "score"}``. Each that is looked at becomes a row of ``memory`` with
status "external": its key is the caller's id, it has no vector, so that no search finds it, and of its text a hash is
kept, or the text where that is asked for. From there on it is a memory as any other: ranked, left out, held out,
credited, measured, erased. Another text under an id is another row, whose figures begin anew; the earlier text again
is the earlier row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from evolvent.core.errors import BadInput
from evolvent.memory.store.engine import Store
from evolvent.memory.text import MAX_BODY_CHARS, clean_text, clean_word, content_hash, each_row, finite, listed

EXTERNAL = "external"  # status, kind and source of such a row
# SQL: the caller's id of a row m that is kept elsewhere, else NULL
NAME = "CASE WHEN m.text_hash IS NOT NULL THEN (SELECT x.body FROM text_blob x WHERE x.hash = m.key_hash) END"
_OWN = re.compile(r"[mra][0-9]+|kept:.*", re.DOTALL)
_EXPECTED = '[{"id": text, "text": text, "score": number}, …]'
_WHERE = "recall(candidates=…)"
_STEP = 1e-12  # of relevance from place to place: no policy takes it for a difference, and it decides between equals


class Candidate(NamedTuple):
    """One of them, with its relevance to the task."""

    id: str
    text: str
    relevance: float

    @property
    def hashes(self) -> tuple[str, str]:
        """What it is found by: of its id and of its text."""
        return content_hash(self.id), content_hash(self.text)


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
    return [Candidate(id_, text, score - _STEP * i) for i, (id_, text, score) in enumerate(best_first)]


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
