"""Which memories a recall chooses among: near enough to the task, and what harms takes no place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evolvent.memory import events, keys, lift
from evolvent.memory.bank import Bank
from evolvent.memory.engines.store import Connection
from evolvent.memory.policies import Policy, start_value
from evolvent.memory.relevance import hybrid

CROWD = 8  # candidates looked at, in pools, before what harms may take places after all


@dataclass(frozen=True)
class Request:
    """The arguments of one recall, checked."""

    task: str
    k: int
    stage: str
    policy: Policy
    kinds: tuple[str, ...] | None
    seed: int | None
    frozen: bool
    is_test: bool


class Found(NamedTuple):
    """Candidates, most relevant first, aligned ``[N]``."""

    seqs: list[int]
    relevance: np.ndarray
    cosine: np.ndarray

    @classmethod
    def of(cls, seqs: list[int]) -> Found:
        """Candidates that were compared with nothing."""
        return cls(seqs, np.zeros(len(seqs)), np.zeros(len(seqs)))

    def only(self, keep: np.ndarray) -> Found:
        """Those of a mask ``[N]``."""
        rows = np.flatnonzero(keep)
        return Found([self.seqs[i] for i in rows.tolist()], self.relevance[rows], self.cosine[rows])


def candidates(bank: Bank, request: Request, vec: np.ndarray | None, counts: Mapping[str, int]) -> Found:
    """The pool by relevance, most relevant first.

    Under lift, what harms or seems to fail always takes no place from the others and sets no margin: however many
    poisoned copies of a task stand nearest, they cannot keep a good lesson out once they are known.
    """
    policy = request.policy
    if vec is None or request.k == 0:
        return Found.of([])
    # the pool must be able to hold what is asked for
    wanted = limit = max(policy.pool, request.k)
    while True:
        found = _nearest(bank, request, vec, counts, limit)
        n = len(found.seqs)
        harm = np.zeros(n, np.bool_)
        if policy.rank == "lift" and n:
            harm = _barred(bank, request, found.seqs)
        places = np.cumsum(~harm)
        if n < limit or limit >= CROWD * wanted or places[-1] >= wanted:
            break
        limit = min(max(2 * limit, wanted + int(harm.sum())), CROWD * wanted)
    if not n:
        return found
    leads = ~harm if not harm.all() else harm
    keep = (places <= wanted) & (found.relevance >= found.relevance[leads][0] - policy.margin)
    # words may speak for others, but what lies nearest is never too far off: a paraphrase shares no word with its key
    keep[np.argmax(np.where(leads, found.cosine, -2.0))] = True
    return found.only(keep)


def _nearest(bank: Bank, request: Request, vec: np.ndarray, counts: Mapping[str, int], limit: int) -> Found:
    policy = request.policy
    if policy.relevance == "hybrid":
        return Found(*hybrid(bank, request.task, vec, counts, limit=limit, gate=policy.gate, kinds=request.kinds))
    asked = limit
    while True:
        rows, cosine = bank.index.search(vec, limit=asked, gate=policy.gate, kinds=request.kinds)
        with bank.store.session() as db, bank.store.translated("reading"):
            memory = {row: owner for row, owner, _ in keys.ask(db, rows.tolist())}
        places, highest = keys.best(rows.tolist(), cosine, memory)
        if len(places) >= limit or len(rows) < asked:
            break
        asked *= 2  # many keys of few memories
    highest = highest[:limit]
    return Found([memory[int(rows[place])] for place in places[:limit]], highest, highest)


def drawn(bank: Bank, request: Request, seed: int) -> Found:
    """Any ``k`` memories, each as likely as another, however many keys it has."""
    asked = request.k
    while True:
        rows = bank.index.sample(asked, np.random.default_rng(seed), request.kinds).tolist()
        with bank.store.session() as db, bank.store.translated("reading"):
            own = {row for row, memory, _ in keys.ask(db, rows) if row == memory}
        if len(own) >= request.k or len(rows) < asked:
            return Found.of([row for row in rows if row in own][: request.k])
        asked *= 2


def _barred(bank: Bank, request: Request, seqs: Sequence[int]) -> np.ndarray:
    """Which candidates take no place from others, as they harm or seem to fail always: bool ``[N]``."""
    with bank.store.session() as db, bank.store.translated("reading"):
        rows, sources = Records(db, bank, request, seqs).read()
    judged = judge(bank, request, rows, sources)
    # where a source gave no value of its own, its track record speaks for the lesson
    tried = [row.value.n + (0.0 if row.q_given else sources.get(row.source, (0.0,))[0]) for row in rows]
    return np.array([
        j.harmful or j.leans or lift.fails(j.value, n, bank.reward_range)
        for j, n in zip(judged, tried, strict=True)
    ])  # fmt: skip


class Records:
    """Records of candidates and of their sources: asked for when this is made, read when they are needed."""

    def __init__(self, db: Connection, bank: Bank, request: Request, seqs: Sequence[int]) -> None:
        policy, self.seqs, self._sources = request.policy, list(seqs), None
        self._values = events.ask(db, seqs, policy.objective, request.stage)
        if policy.rank == "lift" and seqs:
            self._sources = db.execute(
                "SELECT source, n, sum_r FROM source_value WHERE scope_id=? AND objective=? AND stage=?",
                (bank.scope_id, policy.objective, request.stage),
            )

    def read(self) -> tuple[list[events.Loaded], dict[str, tuple[float, float]]]:
        """Records in the order of the candidates, and ``{source: (n, sum of rewards)}``."""
        by_seq = events.loaded(self._values)
        sources = {source: (n, total) for source, n, total in self._sources or ()}
        return [by_seq[seq] for seq in self.seqs], sources


class Judged(NamedTuple):
    """What lift makes of one candidate's record."""

    value: float  # with the prior of its source
    effect: lift.Effect
    harmful: bool
    leans: bool
    look: float


def judge(
    bank: Bank, request: Request, rows: Sequence[events.Loaded], sources: Mapping[str, tuple[float, float]]
) -> list[Judged]:
    """What lift makes of each candidate's record, beside those of its neighbours and its source's."""
    policy, span = request.policy, bank.reward_range
    start = start_value(policy, span)
    records = [lift.outcomes(row.value.n, row.value.sum_r, span) for row in rows]
    best = lift.best_record(records)
    judged = []
    for i, (v, q_init, q_given, source) in enumerate(rows):
        n, total = sources.get(source, (0.0, 0.0))
        prior = lift.source_prior(start, total, n, policy.strength)
        # a starting value that was given on purpose is kept; the policy's own start gives way to the source's record
        value = v.q if q_given else lift.with_prior(v.q, v.carry, q_init, prior)
        beside = [records[j] for j in best if j != i]
        other = beside[0] if beside else lift.NO_OUTCOMES
        told = lift.judge(v.arms, records[i], other, len(rows) - 1, value, span)
        judged.append(Judged(value, lift.marginal(*v.arms, span), *told))
    return judged
