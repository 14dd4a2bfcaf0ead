"""Hybrid relevance: cosine of the keys, blended with how much of the task's rare words a key covers.

Words order what the cosine lets in; they let nothing in and keep nothing out, because a question may share no word with
the memory that answers it.

Sentence embeddings blur what a question is about with its constants: "red-eye flights of United in May" lies closer
to "long-haul flights of United in May" than to "red-eyes out of Newark". Word rarity tells the two apart. The words
are kept inside the store, as durable as the rest: how many keys hold each, and for rare words which keys.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from evolvent.memory import keys
from evolvent.memory.bank import Bank
from evolvent.memory.index.index import SIM_DIGITS
from evolvent.memory.store.engine import Connection, Subset, among

# words looked at in a task or key, characters looked at in a word, rare words searched for, candidates they may give
_MAX_WORDS, _MAX_CHARS, _RARE_WORDS, _FOUND = 256, 64, 8, 64
# keys that hold one of them, at most: words of a large store that are less rare than that cost time and tell little,
# so which keys hold them is not kept
SHARED_BY = 1000
_WORD = re.compile(r"\w+")


@lru_cache(maxsize=16384)
def words(text: str) -> tuple[str, ...]:
    """Distinct words in order: lower case, without diacritics, cut to 64 characters."""
    plain = text[: 16 * _MAX_WORDS].lower().replace("_", " ")
    if not plain.isascii():
        plain = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    return tuple(dict.fromkeys(word[:_MAX_CHARS] for word in _WORD.findall(plain)))[:_MAX_WORDS]


def rarity(counts: Mapping[str, int], terms: Sequence[str], n: int) -> dict[str, float]:
    """Inverse document frequency of each term, ``ln(1 + (n - df + .5) / (df + .5))`` (as in BM25)."""
    return {t: math.log(1.0 + max(0.0, n - counts.get(t, 0) + 0.5) / (counts.get(t, 0) + 0.5)) for t in terms}


def coverage(task: Mapping[str, float], key: str) -> float:
    """Share of the task's rarity that the key covers, 0..1; ``task`` maps its words to their rarity."""
    total = sum(task.values())
    return sum(task.get(word, 0.0) for word in words(key)) / total if total > 0.0 else 0.0


def hybrid(
    bank: Bank, task: str, query: np.ndarray, counts: Mapping[str, int], *, limit: int, gate: float,
    subset: Subset,
) -> tuple[list[int], np.ndarray, np.ndarray]:  # fmt: skip
    """The ``limit`` active memories with the highest ``(cosine + coverage) / 2`` of those with a cosine above ``gate``.

    A memory with several keys counts by the best of them, and has the highest of their cosines. Candidates are the
    nearest by cosine and those that share the task's rarest words; all are scored exactly. The nearest by cosine is
    always among what is returned.

    Args:
        bank: the scope.
        task: the text that is asked.
        query: its unit vector.
        counts: how many keys hold each word of the task, from ``document_counts``.
        limit: at most this many.
        gate: strict lower bound of the cosine.
        subset: which memories it may return.

    Returns:
        Numbers of memories, their relevance and their cosine, float64 ``[<=limit]``, most relevant first.
    """
    weights = rarity(counts, words(task), bank.index.n)
    with bank.store.session() as db, bank.store.translated("reading"):
        holders = _holders(db, bank, weights, counts)
        asked = 4 * limit
        near, nearness = bank.index.search(query, limit=asked, subset=subset)
        sharing = _sharing(holders, weights)
        while True:
            found = list(dict.fromkeys([*near.tolist(), *sharing]))
            about = keys.ask(db, found)
            rows, cosine = bank.index.similarities(found, query, subset)
            told = {row: (memory, coverage(weights, key)) for row, memory, key in about}
            seqs, score, cosine = _by_memory(rows, cosine, told, gate)
            # many keys of few memories: others are farther off, unless those are below the gate
            if len(seqs) >= limit or len(near) < asked or nearness[-1] <= gate:
                break
            asked *= 2
            near, nearness = bank.index.search(query, limit=asked, subset=subset)
    if not seqs:
        return [], np.empty(0), np.empty(0)
    order, nearest = list(range(len(seqs))), int(np.argmax(cosine))
    if nearest >= limit:  # crowded out by keys that share the words of the task
        order[limit - 1] = nearest
    order = order[:limit]
    return [seqs[i] for i in order], score[order], cosine[order]


def _by_memory(
    rows: Sequence[int], cosine: np.ndarray, told: Mapping[int, tuple[int, float]], gate: float
) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Memories, relevance and cosine, most relevant first, from rows; ``told``: memory and coverage by row."""
    score = np.round(0.5 * cosine + 0.5 * np.array([told[r][1] if r in told else 0.0 for r in rows]), SIM_DIGITS)
    order = [i for i in np.lexsort((np.asarray(rows), -score)).tolist() if cosine[i] > gate]
    places, highest = keys.best(
        [rows[i] for i in order], cosine[order], {row: memory for row, (memory, _) in told.items()}
    )
    kept = [order[place] for place in places]
    return [told[rows[i]][0] for i in kept], score[kept], highest


def document_counts(db: Connection, bank: Bank, task: str) -> Iterable[tuple]:
    """Ask how many keys hold each word of a task: ``(word, n)``."""
    return among(db, "SELECT word, n FROM word_count WHERE scope_id = ? AND word IN ({})", words(task), bank.scope_id)


def _holders(db: Connection, bank: Bank, weights: Mapping[str, float], counts: Mapping[str, int]) -> Iterable[tuple]:
    """Ask which active memories of the scope have keys with the task's rarest words: ``(memory, word)``."""
    rare: list[str] = []
    left = SHARED_BY
    for term in sorted((t for t in weights if counts.get(t)), key=lambda t: -weights[t])[:_RARE_WORDS]:
        left -= counts[term]
        if left < 0:
            break
        rare.append(term)
    return among(
        db,
        "SELECT w.seq, w.word FROM key_word w JOIN memory m ON m.seq = w.seq WHERE w.scope_id = ? AND w.word IN ({}) "
        "AND m.status = 'active' ORDER BY w.seq, w.word",
        rare, bank.scope_id,
    )  # fmt: skip


def _sharing(holders: Iterable[tuple], weights: Mapping[str, float]) -> list[int]:
    """Those memories, best match first."""
    held: dict[int, float] = defaultdict(float)
    for seq, word in holders:
        held[seq] += weights[word]
    return sorted(held, key=lambda seq: (-held[seq], seq))[:_FOUND]


def uncount_words(db: Connection, scope_id: int, keys: Iterable[tuple[int, str]]) -> None:
    """Forget the words of keys ``(seq, key)`` that are about to be erased."""
    gone = dict(keys)
    lost: dict[str, int] = defaultdict(int)
    for key in gone.values():
        for word in words(key):
            lost[word] += 1
    for word, n in lost.items():
        left = db.execute(
            "UPDATE word_count SET n = n - ? WHERE scope_id = ? AND word = ? RETURNING n", (n, scope_id, word)
        ).fetchone()[0]
        if left <= SHARED_BY < left + n:  # rare again: which keys hold it is kept from now on
            rows = db.execute(
                "SELECT m.seq, k.body FROM memory m JOIN text_blob k ON k.hash = m.key_hash WHERE m.scope_id = ?",
                (scope_id,),
            ).fetchall()
            holders = [(scope_id, word, seq) for seq, key in rows if seq not in gone and word in words(key)]
            db.executemany("INSERT INTO key_word VALUES(?, ?, ?)", holders)
    db.execute("DELETE FROM word_count WHERE scope_id = ? AND n = 0", (scope_id,))


def count_words(db: Connection, scope_id: int, keys: Iterable[tuple[int, str]]) -> None:
    """Take note of the words of new keys ``(seq, key)``, inside the transaction at hand."""
    holders: dict[str, list[int]] = defaultdict(list)
    for seq, key in keys:
        for word in words(key):
            holders[word].append(seq)
    pending = sorted(holders)  # one order for all writers, and the same statements for the same keys
    for start in range(0, len(pending), _MAX_WORDS):
        part = pending[start : start + _MAX_WORDS]
        counts = db.execute(
            f"INSERT INTO word_count VALUES {','.join(['(?,?,?)'] * len(part))} "
            "ON CONFLICT(scope_id, word) DO UPDATE SET n = word_count.n + excluded.n RETURNING word, n",
            [value for word in part for value in (scope_id, word, len(holders[word]))],
        ).fetchall()
        rare = [word for word, n in counts if n <= SHARED_BY]
        db.executemany(
            "INSERT INTO key_word VALUES(?, ?, ?)", [(scope_id, word, seq) for word in rare for seq in holders[word]]
        )
        # no longer rare: never searched for again
        common = [word for word, n in counts if n > SHARED_BY >= n - len(holders[word])]
        db.executemany("DELETE FROM key_word WHERE scope_id=? AND word=?", [(scope_id, word) for word in common])
