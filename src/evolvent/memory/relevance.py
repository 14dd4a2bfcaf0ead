"""Hybrid relevance: cosine of the keys, blended with how much of the task's rare words a key covers.

Sentence embeddings blur what a question is about with its constants: "red-eye flights of United in May" lies closer
to "long-haul flights of United in May" than to "red-eyes out of Newark". Word rarity tells the two apart. The words
are kept by SQLite's full-text index (FTS5) inside the store, so they are as durable and as shared as the rest.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np

from evolvent.memory.bank import Bank
from evolvent.memory.index import SIM_DIGITS
from evolvent.memory.store import marks

# words looked at in a task or key, rare words sent to the full-text index, and how many rows it may return
_MAX_WORDS, _RARE_WORDS, _FOUND = 256, 8, 64
_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Distinct words in order, as the full-text index sees them: lower case, without diacritics."""
    plain = unicodedata.normalize("NFKD", text[: 16 * _MAX_WORDS].lower())
    plain = "".join(c for c in plain if not unicodedata.combining(c)).replace("_", " ")
    return list(dict.fromkeys(_WORD.findall(plain)))[:_MAX_WORDS]


def rarity(counts: Mapping[str, int], terms: Sequence[str], n: int) -> dict[str, float]:
    """Inverse document frequency of each term, ``ln(1 + (n - df + .5) / (df + .5))`` (as in BM25)."""
    return {t: math.log(1.0 + max(0.0, n - counts.get(t, 0) + 0.5) / (counts.get(t, 0) + 0.5)) for t in terms}


def coverage(task: Mapping[str, float], key: str) -> float:
    """Share of the task's rarity that the key covers, 0..1; ``task`` maps its words to their rarity."""
    total, covered = sum(task.values()), set(words(key))
    return sum(w for t, w in task.items() if t in covered) / total if total > 0.0 else 0.0


def hybrid(
    bank: Bank, task: str, query: np.ndarray, *, limit: int, gate: float, kinds: Sequence[str] | None
) -> tuple[list[int], np.ndarray]:
    """The ``limit`` active memories with the highest ``(cosine + coverage) / 2`` above ``gate``, best first.

    Candidates are the nearest by cosine and those that share the task's rarest words; all are scored exactly.
    """
    near, _ = bank.index.search(query, limit=4 * limit, kinds=kinds)
    terms = words(task)
    weights = rarity(_document_counts(bank, terms), terms, bank.index.n)
    seqs, cosine = bank.index.similarities([*near.tolist(), *_sharing(bank, weights)], query, kinds)
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
    order = [i for i in np.lexsort((seqs, -score)).tolist() if score[i] > gate][:limit]
    return [seqs[i] for i in order], score[order]


def _document_counts(bank: Bank, terms: Sequence[str]) -> dict[str, int]:
    if not terms:
        return {}
    return dict(
        bank.store.rows(f"SELECT term, doc FROM key_vocabulary WHERE term IN ({marks(len(terms))})", list(terms))
    )


def _sharing(bank: Bank, weights: Mapping[str, float]) -> list[int]:
    rare = sorted(weights, key=lambda t: -weights[t])[:_RARE_WORDS]
    if not rare:
        return []
    match = " OR ".join(f'"{t}"' for t in rare)
    rows = bank.store.rows("SELECT rowid FROM key_words WHERE key_words MATCH ? ORDER BY rank LIMIT ?", (match, _FOUND))
    return [row[0] for row in rows]
