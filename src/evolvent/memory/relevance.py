"""Hybrid relevance: the cosine of task and key, and of the keys nearest to a task which has the words that tell.

Words order what the cosine found near; they let nothing in and keep nothing out. A question may share no word with the
memory that answers it, and then every key is left with its cosine. But sentence embeddings blur what a question is
about with its constants: "red-eye flights of United in May" lies closer to "long-haul flights of United in May" than to
"red-eyes out of Newark". Among the nearest keys flights, carriers and months are common, and red-eyes are rare: words
weigh by the cube of their rarity there. Chosen in ``benchmarks/recall.py`` and ``benchmarks/relevance.py``.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from evolvent.memory.index.index import SIM_DIGITS

SHARE = 0.25  # of the words in relevance; the rest is the cosine
NEAREST = 4  # times the pool: so many of the nearest keys are compared by their words
_MAX_WORDS, _MAX_CHARS = 256, 64
_WORD = re.compile(r"\w+")


def words(text: str) -> tuple[str, ...]:
    """Distinct words in order: lower case, without diacritics, cut to 64 characters."""
    plain = text[: 16 * _MAX_WORDS].lower().replace("_", " ")
    if not plain.isascii():
        plain = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    return tuple(dict.fromkeys(word[:_MAX_CHARS] for word in _WORD.findall(plain)))[:_MAX_WORDS]


@lru_cache(maxsize=16384)
def _held(key: str) -> frozenset[str]:
    return frozenset(words(key))


def coverage(task: str, keys: Sequence[str]) -> np.ndarray:
    """How much of the task's telling words each key has: float64 ``[N]``, 0..1.

    A word that ``df`` of the ``N`` keys have weighs ``ln(1 + (N - df + .5) / (df + .5))`` to the third power.
    """
    n, asked = len(keys), words(task)
    has = b"".join([bytes(map(held.__contains__, asked)) for held in map(_held, keys)])
    has_NW = np.frombuffer(has, np.bool_).reshape(n, len(asked))
    weight = [math.log1p((n - df + 0.5) / (df + 0.5)) ** 3 for df in has_NW.sum(axis=0).tolist()]
    held_N = (has_NW * np.array(weight)).sum(axis=1)  # each row on its own: equal keys sum to equal bits
    return held_N / (sum(weight) or 1.0)


def hybrid(task: str, keys: Sequence[str], cosine_N: np.ndarray) -> np.ndarray:
    """``3/4 cosine + 1/4 coverage`` of the keys nearest to a task: float64 ``[N]``."""
    return np.round((1.0 - SHARE) * cosine_N + SHARE * coverage(task, keys), SIM_DIGITS)
