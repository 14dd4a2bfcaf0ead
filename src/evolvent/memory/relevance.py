"""Hybrid relevance: cosine of the keys, blended with how much of the task's rare words a key covers.

Sentence embeddings blur what a question is about with its constants: "red-eye flights of United in May" lies closer
to "long-haul flights of United in May" than to "red-eyes out of Newark". Word rarity tells the two apart. The words
are kept inside the store, by SQLite's full-text index (FTS5) and a count per scope: as durable as the rest.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from evolvent.memory.bank import Bank
from evolvent.memory.index import SIM_DIGITS
from evolvent.memory.store import marks

# words looked at in a task or key, rare words sent to the full-text index, and how many rows it may return
_MAX_WORDS, _RARE_WORDS, _FOUND = 256, 8, 64
# keys that hold one of them, at most: words of a large store that are less rare than that cost time and tell little
_SHARED_BY = 1000
_WORD = re.compile(r"\w+")


@lru_cache(maxsize=16384)
def words(text: str) -> tuple[str, ...]:
    """Distinct words in order, as the full-text index sees them: lower case, without diacritics."""
    plain = text[: 16 * _MAX_WORDS].lower().replace("_", " ")
    if not plain.isascii():
        plain = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    return tuple(dict.fromkeys(_WORD.findall(plain)))[:_MAX_WORDS]


def rarity(counts: Mapping[str, int], terms: Sequence[str], n: int) -> dict[str, float]:
    """Inverse document frequency of each term, ``ln(1 + (n - df + .5) / (df + .5))`` (as in BM25)."""
    return {t: math.log(1.0 + max(0.0, n - counts.get(t, 0) + 0.5) / (counts.get(t, 0) + 0.5)) for t in terms}


def coverage(task: Mapping[str, float], key: str) -> float:
    """Share of the task's rarity that the key covers, 0..1; ``task`` maps its words to their rarity."""
    total = sum(task.values())
    return sum(task.get(word, 0.0) for word in words(key)) / total if total > 0.0 else 0.0


def hybrid(
    bank: Bank, task: str, query: np.ndarray, *, limit: int, gate: float, kinds: Sequence[str] | None
) -> tuple[list[int], np.ndarray]:
    """The ``limit`` active memories with the highest ``(cosine + coverage) / 2`` above ``gate``, best first.

    Candidates are the nearest by cosine and those that share the task's rarest words; all are scored exactly.
    """
    near, _ = bank.index.search(query, limit=4 * limit, kinds=kinds)
    terms = words(task)
    counts = _document_counts(bank, terms)
    weights = rarity(counts, terms, bank.index.n)
    seqs, cosine = bank.index.similarities([*near.tolist(), *_sharing(bank, weights, counts)], query, kinds)
    if not seqs:
        return [], np.empty(0)
    keys = dict(
        bank.store.rows(
            "SELECT m.seq, k.body FROM memory m JOIN text_blob k ON k.hash = m.key_hash "
            f"WHERE m.seq IN ({marks(len(seqs))})",
            seqs,
        )
    )
    score = np.round(0.5 * cosine + 0.5 * np.array([coverage(weights, keys[s]) for s in seqs]), SIM_DIGITS)
    order = [i for i in np.lexsort((np.asarray(seqs), -score)).tolist() if score[i] > gate][:limit]
    return [seqs[i] for i in order], score[order]


def _document_counts(bank: Bank, terms: Sequence[str]) -> dict[str, int]:
    if not terms:
        return {}
    return dict(
        bank.store.rows(
            f"SELECT word, n FROM word_count WHERE scope_id = ? AND word IN ({marks(len(terms))})",
            (bank.scope_id, *terms),
        )
    )


def _sharing(bank: Bank, weights: Mapping[str, float], counts: Mapping[str, int]) -> list[int]:
    """Active memories of the scope whose keys hold the task's rarest words, best match first."""
    rare: list[str] = []
    left = _SHARED_BY
    for term in sorted((t for t in weights if counts.get(t)), key=lambda t: -weights[t])[:_RARE_WORDS]:
        left -= counts[term]
        if left < 0:
            break
        rare.append(term)
    if not rare:
        return []
    match = " OR ".join(f'"{t}"' for t in rare)
    rows = bank.store.rows(
        "SELECT w.rowid FROM key_words w JOIN memory m ON m.seq = w.rowid WHERE key_words MATCH ? AND m.scope_id = ? "
        "AND m.status = 'active' ORDER BY w.rank LIMIT ?",
        (match, bank.scope_id, _FOUND),
    )
    return [row[0] for row in rows]
