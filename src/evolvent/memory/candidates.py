"""Which memories a recall chooses among: near enough to the task, and what harms takes no place."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evolvent.memory import events, keys
from evolvent.memory.bank import Bank
from evolvent.memory.events import OF_VALUE
from evolvent.memory.external import EXTERNAL, Candidate, Offered
from evolvent.memory.holdout import Draw
from evolvent.memory.keys import Owners
from evolvent.memory.metadata import Condition
from evolvent.memory.relevance import NEAREST, hybrid
from evolvent.memory.rule import Candidates, Pairs, Past, Policy, rule_of, start_value
from evolvent.memory.secrets import mask_secrets
from evolvent.memory.store.engine import ALL, Connection, Subset, among, put_text
from evolvent.memory.text import content_hash

PAST = 16  # outcomes of a memory that a rule is given: older ones are forgotten
# the newest outcomes of each memory, newest first (a revision is as new as it is), and how relevant it was there; NULL:
# as a version of it under another key, or by another embedder. Without a value there is no outcome to look for
_PAST = (
    "SELECT m.seq, i.sim, e.reward, e.weight, o.action_hash IS NOT NULL "
    f"FROM memory m JOIN value v ON v.memory_id = {OF_VALUE} "
    "AND v.objective = ? AND v.stage = ? JOIN value_event e ON e.seq IN (SELECT p.seq FROM value_event p "
    "WHERE p.memory_id = v.memory_id AND p.rule = 'shown' AND p.objective = v.objective AND p.stage = v.stage "
    f"AND {events.COUNTS.replace('e.seq', 'p.seq')} ORDER BY p.seq DESC LIMIT {PAST}) "
    "JOIN recall r ON r.seq = e.recall_id JOIN outcome o ON o.outcome_id = e.outcome_id "
    "LEFT JOIN recall_item i ON i.recall_id = r.seq AND r.audit_seq >= (SELECT coalesce(max(a.seq), 0) FROM audit a "
    "WHERE a.target = '*' AND a.verb = 'reembed') AND i.memory_id IN (SELECT e.memory_id UNION ALL SELECT u.child "
    "FROM provenance u WHERE u.parent = e.memory_id AND u.relation = 'updated') AND EXISTS "
    "(SELECT 1 FROM memory x WHERE x.seq = i.memory_id AND x.key_hash = m.key_hash) "
    "WHERE m.seq IN ({}) ORDER BY e.seq DESC"
)
# newest uses of memories, of any question: which question, which memory, both vectors, and the outcome
_USES = (
    "SELECT r.query_hash, e.memory_id, q.vec, k.vec, m.polarity, e.reward FROM value_event e "
    "JOIN recall r ON r.seq = e.recall_id JOIN memory m ON m.seq = e.memory_id JOIN embedding q ON q.emb_id = r.emb_id "
    f"JOIN embedding k ON k.emb_id = m.emb_id WHERE m.scope_id = ? AND e.rule = 'shown' AND e.objective = ? "
    f"AND e.stage = ? AND q.model = ? AND k.model = ? AND {events.COUNTS} ORDER BY e.seq DESC LIMIT ?"
)
_KEYS = "SELECT m.seq, k.vec, m.polarity FROM memory m JOIN embedding k ON k.emb_id = m.emb_id WHERE m.seq IN ({})"
# memories of which that many newest receipts (that they were a candidate of) brought no outcome
_UNHEARD = (
    "SELECT m.seq FROM memory m WHERE m.seq IN ({}) AND NOT EXISTS (SELECT 1 FROM (SELECT i.recall_id FROM recall_item "
    "i WHERE i.memory_id = m.seq ORDER BY i.recall_id DESC LIMIT 100) x JOIN outcome o ON o.recall_id = x.recall_id "
    "AND o.valid) AND (SELECT count(*) FROM (SELECT 1 FROM recall_item i WHERE i.memory_id = m.seq LIMIT 100) y) = 100"
)
# of what is kept elsewhere: rows by the caller's ids, and a new one
_ELSEWHERE = (
    "SELECT m.key_hash, m.text_hash, m.seq, m.status, m.body_hash, m.content_version FROM memory m "
    "WHERE m.scope_id = ? AND m.text_hash IS NOT NULL AND m.key_hash IN ({}) ORDER BY m.seq"
)
_NEW = (
    "INSERT INTO memory(scope_id, kind, polarity, key_hash, body_hash, source, q_init, q_given, status, "
    "content_version, created_at, text_hash) VALUES(?,?,'neutral',?,?,?,?,?,?,?,?,?) RETURNING seq"
)
_NOTHING = content_hash("")
USES = 512  # uses that a rule is given
_SUCCESS = {"success": 1.0, "failure": 0.0}
_NO_ROWS: Iterable[tuple] = ()
MOST = 1 << 31  # memories that a recall may ask for: more than a store has, and a number that a server still takes
CROWD = 8  # candidates looked at, in pools, before what harms may take places after all


@dataclass(frozen=True)
class Request:
    """The arguments of one recall, checked."""

    task: str
    k: int
    stage: str
    policy: Policy
    kinds: tuple[str, ...] | None
    filter: tuple[Condition, ...]
    seed: int | None
    frozen: bool
    is_test: bool
    subset: Subset = ALL  # what kinds, filter and expiry leave
    attempt: str | None = None  # the caller's name of it
    task_id: str | None = None  # the same of the task
    draw: Draw | None = None  # of the scope that drew first
    offered: Offered | None = None  # what is kept elsewhere: nothing else is a candidate


class Found(NamedTuple):
    """Candidates, most relevant first, aligned ``[N]``."""

    seqs: list[int]
    relevance: np.ndarray
    cosine: np.ndarray
    vec: np.ndarray | None = None  # of the task
    known: Candidates | None = None  # what a rule was shown of them, where one had to be asked
    texts: Mapping[int, str] | None = None  # of what is kept elsewhere

    @classmethod
    def of(cls, seqs: list[int]) -> Found:
        """Candidates that were compared with nothing."""
        return cls(seqs, np.zeros(len(seqs)), np.zeros(len(seqs)))

    @classmethod
    def elsewhere(cls, rows: Sequence[tuple[int, Candidate]]) -> Found:
        """Candidates that are kept elsewhere, as relevant as their caller says."""
        relevance_N = np.array([one.relevance for _, one in rows], np.float64)
        return cls([seq for seq, _ in rows], relevance_N, relevance_N, texts={seq: one.text for seq, one in rows})

    def only(self, mask: np.ndarray) -> Found:
        """Those of a mask ``[N]``."""
        if mask.all():
            return self
        rows = np.flatnonzero(mask)
        return self._replace(
            seqs=[self.seqs[i] for i in rows.tolist()],
            relevance=self.relevance[rows],
            cosine=self.cosine[rows],
            known=None,
        )


def candidates(bank: Bank, request: Request, vec: np.ndarray | None) -> Found:
    """The pool by relevance, most relevant first."""
    if vec is None or request.k == 0:
        return Found.of([])
    owners = Owners(texts=request.policy.relevance == "hybrid")
    return _pooled(bank, request, lambda limit: _nearest(bank, request, vec, limit, owners))


def offered(db: Connection, bank: Bank, request: Request, seed: int | None = None) -> Found:
    """The same of candidates that are kept elsewhere; ``seed``: of a rule that draws any of them, once it is known.

    Those that are looked at get a row, so that is for the transaction that writes the receipt.
    """
    assert request.offered is not None
    how = rule_of(request.policy).candidates
    if request.k == 0 or how == "none" or (how == "any" and seed is None):
        return Found.of([])
    if how == "any":
        every = list(request.offered.candidates)
        order = np.random.default_rng(seed).permutation(len(every)).tolist()
        mixed = request.offered._replace(candidates=[every[i] for i in order])
        return Found.elsewhere(_Rows(db, bank, mixed).first(request.k))
    rows = _Rows(db, bank, request.offered)
    return _pooled(bank, request, lambda limit: Found.elsewhere(rows.first(limit)))


def _pooled(bank: Bank, request: Request, nearest: Callable[[int], Found]) -> Found:
    """The pool out of so many of the nearest as it takes.

    What the rule bars takes no place from the others and sets no margin: however many poisoned copies of a task stand
    nearest, they cannot keep a good lesson out once they are known.
    """
    policy, bars = request.policy, rule_of(request.policy).bars
    # the pool must be able to hold what is asked for
    wanted = limit = min(max(policy.pool, request.k), MOST)
    while True:
        found = nearest(limit)
        n = len(found.seqs)
        harm = np.zeros(n, np.bool_)
        if bars is not None and n:
            with bank.store.session() as db, bank.store.translated("reading"):
                found = found._replace(known=Records(db, bank, request, found.seqs).pool(found))
            harm = bars(policy, found.known)
        places = np.cumsum(~harm)
        if n < limit or limit >= CROWD * wanted or places[-1] >= wanted:
            break
        limit = min(max(2 * limit, wanted + int(harm.sum())), CROWD * wanted)
    if not n:
        return found
    leads = ~harm if not harm.all() else harm
    mask = (places <= wanted) & (found.relevance >= found.relevance[leads][0] - policy.margin)
    return found.only(mask)


def _nearest(bank: Bank, request: Request, vec: np.ndarray, limit: int, owners: Owners) -> Found:
    """The ``limit`` most relevant memories of those with a cosine above the gate.

    A memory with several keys counts by the best of them, and has the highest of their cosines.
    """
    policy, gate = request.policy, -2.0 if request.policy.gate is None else request.policy.gate
    asked = ahead = limit if policy.relevance == "cosine" else NEAREST * limit
    found, similar = bank.index.search(vec, limit=ahead, subset=request.subset)
    while True:
        rows, cosine = found[:asked], similar[:asked]
        owned = owners.of(bank, rows.tolist())
        above = {owner[0] for owner, high in zip(owned, cosine > gate, strict=True) if owner and high}
        # many keys of few memories: others are farther off, unless those are below the gate
        if len(above) >= limit or len(rows) < asked or cosine[-1] <= gate:
            break
        asked *= 2
        if asked > ahead:  # every search looks at all vectors: two steps for one
            ahead = 2 * asked
            found, similar = bank.index.search(vec, limit=ahead, subset=request.subset)
    known = [owner for owner in owned if owner is not None]
    if len(known) < len(rows):
        here = [owner is not None for owner in owned]
        rows, cosine = rows[here], cosine[here]
    relevance, order = cosine, np.arange(len(rows))  # the search has sorted them
    if policy.relevance == "hybrid":
        relevance = hybrid(request.task, [key for _, key in known], cosine)
        order = np.lexsort((rows, -relevance))
    order = order[cosine[order] > gate]
    memory = [known[i][0] for i in order.tolist()]
    places, highest = keys.best(memory, cosine[order])
    best = order[places[:limit]]
    return Found([memory[i] for i in places[:limit]], relevance[best], highest[:limit], vec)


def drawn(bank: Bank, request: Request, seed: int) -> Found:
    """Any ``k`` memories, each as likely as another, however many keys it has."""
    asked = request.k
    while True:
        rows = bank.index.sample(asked, np.random.default_rng(seed), request.subset).tolist()
        with bank.store.session() as db, bank.store.translated("reading"):
            own = {row for row, memory, _ in keys.ask(db, rows) if row == memory}
        if len(own) >= request.k or len(rows) < asked:
            return Found.of([row for row in rows if row in own][: request.k])
        asked *= 2


class Records:
    """Records of candidates and of their sources: asked for when this is made, read when they are needed."""

    def __init__(self, db: Connection, bank: Bank, request: Request, seqs: Sequence[int]) -> None:
        policy, self.seqs, self._sources = request.policy, list(seqs), None
        self._past = self._uses = self._keys = _NO_ROWS
        self._setting = bank.reward_range, request.k, request.frozen
        self._values = events.ask(db, seqs, policy.objective, request.stage)
        if rule_of(policy).sources and seqs:
            self._sources = db.execute(
                "SELECT source, n, sum_r FROM source_value WHERE scope_id=? AND objective=? AND stage=?",
                (bank.scope_id, policy.objective, request.stage),
            )
        if rule_of(policy).history and seqs:
            self._past = among(db, _PAST, seqs, policy.objective, request.stage)
        self._pairs = rule_of(policy).pairs and bool(seqs)
        if self._pairs:
            model = bank.embedder.id
            self._uses = db.execute(_USES, (bank.scope_id, policy.objective, request.stage, model, model, USES))
            self._keys = among(db, _KEYS, seqs)

    def pool(self, found: Found) -> Candidates:
        """The candidates with their records, as a rule sees them."""
        by_seq = events.loaded(self._values)
        sources = {source: (n, total) for source, n, total in self._sources or ()}
        rows = [by_seq[seq] for seq in self.seqs]
        q_N = np.array([row.value.q for row in rows])
        return Candidates(
            self.seqs,
            found.relevance,
            q_N,
            rows,
            sources,
            *self._setting,
            self._history(found.relevance),
            self._used(found.vec) if self._pairs and found.vec is not None else None,
        )

    def _used(self, vec: np.ndarray) -> Pairs:
        """Uses of memories, oldest first, and the candidates beside the task."""
        uses, (low, high) = list(self._uses)[::-1], self._setting[0]
        keys_by = {seq: (key, polarity) for seq, key, polarity in self._keys}
        asked = [keys_by[seq] for seq in self.seqs]
        return Pairs(
            [use[0] for use in uses],
            [use[1] for use in uses],
            _vectors([use[2] for use in uses], len(vec)),
            _vectors([use[3] for use in uses], len(vec)),
            np.array([_SUCCESS.get(use[4], 0.5) for use in uses]),
            np.clip((np.array([use[5] for use in uses], np.float64) - low) / (high - low), 0.0, 1.0),
            (
                self.seqs,
                np.asarray(vec, np.float32),
                _vectors([key for key, _ in asked], len(vec)),
                np.array([_SUCCESS.get(polarity, 0.5) for _, polarity in asked]),
            ),
        )

    def _history(self, relevance_N: np.ndarray) -> dict[int, list[Past]]:
        """The newest outcomes of each memory; those of another version of it count as if they were from here."""
        here = dict(zip(self.seqs, relevance_N.tolist(), strict=True))
        past: dict[int, list[Past]] = defaultdict(list)
        for seq, there, reward, weight, told in self._past:
            past[seq].append(Past(here[seq] if there is None else there, reward, weight, bool(told)))
        return past


def unheard(db: Connection, seqs: Sequence[int]) -> set[int]:
    """Those of these memories that there is nothing to learn about: nobody says any more what comes of recalls."""
    return {seq for (seq,) in among(db, _UNHEARD, seqs)}


def _vectors(blobs: Sequence[bytes], dim: int) -> np.ndarray:
    """Float32 ``[N, dim]``."""
    return np.frombuffer(b"".join(map(bytes, blobs)), "<f4").reshape(-1, dim)


class _Rows:
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
        hashes = [one.hashes for one in piece]
        for key, text, *row in among(db, _ELSEWHERE, [key for key, _ in hashes], self._bank.scope_id):
            there[key, text] = tuple(row)
            version[key] = max(version[key], row[3])
        made, unkept = list[tuple[int, Candidate]](), list[tuple[str, int]]()
        for one, at in zip(piece, hashes, strict=True):
            row = there.get(at)
            if row is None:
                made.append((self._insert(one, *at, version[at[0]] + 1), one))
                continue
            seq, status, body, _ = row
            if status == EXTERNAL:
                made.append((seq, one))
                if self._keep and body == _NOTHING:
                    unkept.append((self._body(one), seq))
        if unkept:
            with self._bank.store.unguarded():  # what was not written yet is written once
                db.executemany("UPDATE memory SET body_hash = ? WHERE seq = ?", unkept)
        return made

    def _insert(self, one: Candidate, key_hash: str, text_hash: str, version: int) -> int:
        bank = self._bank
        put_text(self._db, key_hash, one.id)
        start = start_value(bank.policy, bank.reward_range)
        row = (
            bank.scope_id,
            EXTERNAL,
            key_hash,
            self._body(one),
            EXTERNAL,
            start,
            False,
            EXTERNAL,
            version,
            time.time(),
            text_hash,
        )
        return self._db.execute(_NEW, row).fetchone()[0]

    def _body(self, one: Candidate) -> str:
        """Write what is kept of the text; returns its hash."""
        text = one.text if self._keep else ""
        if self._keep and self._bank.mask:
            text = mask_secrets(text)  # it was checked
        digest = content_hash(text)
        put_text(self._db, digest, text)
        return digest
