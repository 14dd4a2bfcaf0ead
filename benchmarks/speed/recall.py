"""How well a recall finds: cosine, BM25, their rank fusion and the memory as it ships, over questions written by hand.

Texts: ``recall_cases.json`` beside this file (``_recall_texts.py`` says what is in it). A memory is its key; nothing
has an outcome yet, so only relevance decides. Ranks are judged among ten, what is shown among the default three.
Contestants without a gate always show three; the memory is asked through ``recall(frozen=True)`` with its own gate.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from evolvent.core.protocols import Embedder
from evolvent.formulas.statistics import clustered_bootstrap
from evolvent.memory import embedders
from evolvent.memory.memory import Memory
from evolvent.memory.policies import Policy

from . import _recall_texts as texts

DEEP, SHOWN = 10, 3
FUSED, RANK_OFFSET = 100, 60  # Cormack et al. 2009
K1, B = 1.2, 0.75
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W_]+")  # Chinese without spaces: each sign is a word
Progress = Callable[[str], None]


class Found(NamedTuple):
    """What one contestant made of one query: places of keys in the bank, best first, and how many of them it shows."""

    rows: list[int]
    shown: int


class Known:
    """An embedder that has seen the texts before: each is embedded once, however many banks hold it."""

    def __init__(self, inner: Embedder) -> None:
        self.id, self.dim, self._inner = inner.id, inner.dim, inner
        self._seen: dict[str, np.ndarray] = {}

    def take(self, some: Sequence[str], vec_ND: np.ndarray) -> None:
        """Vectors that were computed before."""
        self._seen.update(zip(some, vec_ND, strict=True))

    def taken(self) -> tuple[list[str], np.ndarray]:
        """All texts, and their vectors ``[N, D]``."""
        return list(self._seen), np.stack(list(self._seen.values()))

    def learn(self, new: Sequence[str], progress: Progress) -> None:
        """Embed what is new, in pieces."""
        missing = [text for text in dict.fromkeys(new) if text not in self._seen]
        for start in range(0, len(missing), 512):
            part = missing[start : start + 512]
            self._seen.update(zip(part, self._inner.embed(part), strict=True))
            progress(f"{self.id}: {start + len(part):,} of {len(missing):,} texts embedded")

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-norm float32 ``[N, D]``."""
        self.learn(texts, lambda line: None)
        return np.stack([self._seen[text] for text in texts])


def run(seed: int = 0, sizes: Sequence[int] = (1000,), progress: Progress | None = None) -> dict[str, Any]:
    """Ask every query of every bank; about half a minute for the default, 100,000 keys take ten minutes.

    Args:
        seed: of the other keys.
        sizes: numbers of keys.
        progress: called with a line of text now and then.

    Returns:
        Shares by ``size contestant``: of the questions with an answer ``right_first``, ``right_among_three`` and
        ``nothing_shown``; ``right_of_what_is_shown``; ``shown_where_nothing_fits``, of three. ``over_best``: the
        memory's right_among_three over that of the best of cosine, BM25 and fusion, by size. ``details``: what
        ``measured`` gives. ``checks``: over_best is at least .97.
    """
    found = measured(seed, sizes, progress)
    rates, best = found["rates"], dict[str, float]()
    for size in sizes:
        others = max(rates[f"{size} {name}"]["all"]["recall_at_3"] for name in ("cosine", "bm25", "fusion"))
        best[str(size)] = round(rates[f"{size} memory"]["all"]["recall_at_3"] / others, 3)
    names = {
        "right_first": "recall_at_1",
        "right_among_three": "recall_at_3",
        "nothing_shown": "empty",
        "right_of_what_is_shown": "precision",
    }
    facts = {title: {of: strata["all"][name] for of, strata in rates.items()} for title, name in names.items()}
    junk = {of: round(sum(strata[s]["shown"] for s in texts.NOTHING) / 2, 2) for of, strata in rates.items()}
    return {
        "name": "recall",
        "seed": seed,
        "embedder": found["embedder"],
        **facts,
        "shown_where_nothing_fits": junk,
        "over_best": best,
        "details": [found],
        "checks": {"within_.97_of_the_best": min(best.values()) >= 0.97},
    }


def measured(
    seed: int = 0,
    sizes: Sequence[int] = (1000,),
    progress: Progress | None = None,
    embedder: Embedder | None = None,
    policies: Mapping[str, Policy | str] | None = None,
) -> dict[str, Any]:
    """The same with any embedder (default: that of ``Memory``) and policies of the memory, by name (default: its own).

    Returns:
        ``rates``: by ``size contestant`` and stratum the queries ``n``, ``recall_at_1``, ``_3``, ``_10``, ``mrr``,
        ``empty`` (nothing shown), ``precision`` (right among what is shown) and ``shown`` on average; with ``*_ci95``
        over groups of queries.
    """
    say, given = progress or (lambda line: None), embedder or embedders.load()
    known = given if isinstance(given, Known) else Known(given)
    rates: dict[str, Any] = {}
    for size in sizes:
        asked: list[texts.Query] = []
        found: dict[str, list[tuple[Found, list[bool]]]] = defaultdict(list)
        for keys, some in texts.banks(size, seed):
            known.learn([*keys, *(q.text for q in some)], say)
            say(f"{len(some)} queries among {size:,} keys")
            asked += some
            for name, ranks in contestants(known, keys, some, policies or {"memory": "memlift"}).items():
                found[name] += [(f, [keys[i] in q.right for i in f.rows]) for f, q in zip(ranks, some, strict=True)]
        for name, judged in found.items():
            rates[f"{size} {name}"] = table(asked, judged)
    return {"seed": seed, "embedder": known.id, "rates": rates}


def contestants(
    known: Known, keys: Sequence[str], asked: Sequence[texts.Query], policies: Mapping[str, Policy | str]
) -> dict[str, list[Found]]:
    """What each made of each query."""
    by_cosine = by_vectors(known.embed(keys), known.embed([q.text for q in asked]))
    by_words = bm25(keys, [q.text for q in asked])
    made = {"cosine": by_cosine, "bm25": by_words, "fusion": list(map(fused, by_cosine, by_words))}
    ranks = {name: [Found(rows[:DEEP], min(SHOWN, len(rows))) for rows in some] for name, some in made.items()}
    place = {key: i for i, key in enumerate(keys)}
    with Memory(embedder=known, sync="normal", search="exact") as memory:
        for start in range(0, len(keys), 5000):
            memory.remember_many([{"key": key, "body": key, "merge": None} for key in keys[start : start + 5000]])
        for name, policy in policies.items():
            ranks[name] = []
            for query in asked:
                items = memory.recall(query.text, k=DEEP, policy=policy, frozen=True).items
                ranks[name].append(Found([place[item.key] for item in items], min(SHOWN, len(items))))
    return ranks


def by_vectors(keys_ND: np.ndarray, asked_QD: np.ndarray, deep: int = FUSED) -> list[list[int]]:
    """Places of the nearest keys by cosine, best first."""
    ranks = []
    for start in range(0, len(asked_QD), 64):
        for row in asked_QD[start : start + 64] @ keys_ND.T:
            near = np.argpartition(-row, min(deep, len(row) - 1))[:deep]
            ranks.append(near[np.lexsort((near, -row[near]))].tolist())
    return ranks


def bm25(keys: Sequence[str], asked: Sequence[str], deep: int = FUSED) -> list[list[int]]:
    """Places of the keys with the highest BM25 (Robertson and Zaragoza 2009), best first; none without a word."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    length_N = np.zeros(len(keys))
    for i, key in enumerate(keys):
        counts = Counter(_words(key))
        length_N[i] = sum(counts.values())
        for word, n in counts.items():
            found[word].append((i, n))
    holders = {word: np.array(pairs).T for word, pairs in found.items()}
    norm_N = K1 * (1 - B + B * length_N / length_N.mean())
    ranks = []
    for text in asked:
        score_N = np.zeros(len(keys))
        for word in dict.fromkeys(_words(text)):
            if word in holders:
                at, n = holders[word]
                score_N[at] += np.log1p((len(keys) - len(at) + 0.5) / (len(at) + 0.5)) * n * (K1 + 1) / (n + norm_N[at])
        near = np.argsort(-score_N, kind="stable")[:deep]
        ranks.append(near[score_N[near] > 0].tolist())
    return ranks


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def fused(*ranks: Sequence[int]) -> list[int]:
    """Reciprocal rank fusion: ``sum 1 / (60 + rank)``; ties go to the first ranking."""
    score: dict[int, float] = defaultdict(float)
    for some in ranks:
        for rank, row in enumerate(some, start=1):
            score[row] += 1.0 / (RANK_OFFSET + rank)
    return sorted(score, key=lambda row: -score[row])


def gates(known: Known, size: int, tried: Sequence[float], seed: int = 0) -> dict[str, dict[str, Any]]:
    """What a gate on the cosine does to the three nearest keys.

    Returns:
        By gate: ``right``, the share of answerable queries whose key is shown; ``empty``, the share of them that are
        shown nothing; ``junk``, by stratum of queries without an answer how many keys they are shown.
    """
    asked: list[texts.Query] = []
    rows: list[tuple[np.ndarray, list[bool]]] = []
    for keys, some in texts.banks(size, seed):
        keys_ND, asked_QD = known.embed(keys), known.embed([q.text for q in some])
        for query, vec, near in zip(some, asked_QD, by_vectors(keys_ND, asked_QD, SHOWN), strict=True):
            asked.append(query)
            rows.append((keys_ND[near] @ vec, [keys[i] in query.right for i in near]))
    cosine_Q3, hits_Q3 = np.array([c for c, _ in rows]), np.array([h for _, h in rows], bool)
    able, strata = np.array([bool(q.right) for q in asked]), np.array([q.stratum for q in asked])
    facts = {}
    for gate in tried:
        above = cosine_Q3 > gate
        junk = {s: round(float(above[strata == s].sum(1).mean()), 3) for s in texts.NOTHING}
        right, empty = np.any(above & hits_Q3, axis=1)[able].mean(), 1.0 - np.any(above, axis=1)[able].mean()
        facts[str(gate)] = {"right": round(float(right), 4), "empty": round(float(empty), 4), "junk": junk}
    return facts


def table(asked: Sequence[texts.Query], judged: Sequence[tuple[Found, list[bool]]]) -> dict[str, dict[str, Any]]:
    """Rates by stratum, and of all queries that have an answer."""
    strata = list(dict.fromkeys(q.stratum for q in asked))
    parts = {s: [i for i, q in enumerate(asked) if q.stratum == s] for s in strata}
    parts["all"] = [i for i, q in enumerate(asked) if q.right]
    return {name: _rates([asked[i] for i in part], [judged[i] for i in part]) for name, part in parts.items()}


def _rates(asked: Sequence[texts.Query], judged: Sequence[tuple[Found, list[bool]]]) -> dict[str, Any]:
    rank = np.array([hits.index(True) + 1 if True in hits else np.inf for _, hits in judged])
    shown = np.array([found.shown for found, _ in judged], float)
    right = np.array([sum(hits[: found.shown]) for found, hits in judged], float)
    facts: dict[str, Any] = {"n": len(asked)}
    if asked[0].right:
        parts = {f"recall_at_{k}": (rank <= k).astype(float) for k in (1, 3, 10)} | {"mrr": 1.0 / rank}
    else:
        parts = {}
    parts["empty"] = (shown == 0).astype(float)
    for name, values in parts.items():
        facts[name] = round(float(values.mean()), 4)
        low, high = clustered_bootstrap(values, [q.group for q in asked])
        facts[f"{name}_ci95"] = [round(float(low), 4), round(float(high), 4)]
    facts["precision"] = round(float(right.sum() / shown.sum()), 4) if shown.sum() else None
    facts["shown"] = round(float(shown.mean()), 3)
    return facts
