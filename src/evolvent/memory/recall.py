"""The verb recall: candidates ranked by policy, written down as a durable receipt."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.seeding import seed_tree
from evolvent.formulas.selection import two_phase, zscores
from evolvent.memory import events, lift
from evolvent.memory.bank import EMB_ID, Bank
from evolvent.memory.candidates import Found, Records, Request, candidates, drawn, judge
from evolvent.memory.engines.store import Connection, among, marks, put_text
from evolvent.memory.items import Recall, Recalled, memory_id, receipt_id
from evolvent.memory.policies import Policy, to_dict
from evolvent.memory.relevance import document_counts
from evolvent.memory.text import MAX_KEY_CHARS, clean_text, content_hash


@dataclass
class Pool:
    """The candidates of one recall, aligned vectors ``[N]``, most relevant first."""

    seq: list[int]
    sim: np.ndarray  # relevance: what ranking uses
    cosine: np.ndarray
    q: np.ndarray  # the raw value
    value: np.ndarray  # what ranking uses (lift: with the source's prior)
    n: np.ndarray
    score: np.ndarray
    z_sim: np.ndarray
    z_q: np.ndarray
    bonus: np.ndarray
    propensity: np.ndarray
    selected: list[int]  # rows, best first
    omitted: set[int]  # rows of selected that are left out
    effects: list[lift.Effect]
    rows: list[events.Loaded]
    explored: bool = False
    harmful: set[int] = field(default_factory=set)  # rows of what is known to harm
    look: list[float] = field(default_factory=list)  # how much there is to find out about what fails always
    leans: set[int] = field(default_factory=set)  # rows of what outcomes speak against


def recall(bank: Bank, request: Request) -> Recall:
    """Run one recall and write its receipt (one transaction)."""
    task = clean_text(request.task, what="the task", where="recall", limit=MAX_KEY_CHARS)
    digest, policy = content_hash(task), request.policy
    model = None if policy.rank in ("none", "random") else bank.embedder.id
    words = task if model and policy.relevance == "hybrid" else ""
    # questions come before what needs an answer: a server gets them together
    with bank.store.session() as db, bank.store.translated("reading"):
        stored, asked = bank.stored(db, [digest] if model else ()), document_counts(db, bank, words)
        bank.index.catch_up()
        stored, counts = list(stored), dict(asked)
    vec = bank.vectors({digest: task}, stored)[digest] if model else None
    with bank.store.session():
        found = candidates(bank, request, vec, counts)
        # searched before taking the write lock, so that other processes wait for the receipt only
        with bank.store.write() as db:
            newest = db.execute(
                "SELECT (SELECT coalesce(max(seq), 0) FROM recall), (SELECT coalesce(max(seq), 0) FROM value_event), "
                "(SELECT coalesce(max(seq), 0) FROM audit)"
            )
            records, texts = Records(db, bank, request, found.seqs), _texts(db, found.seqs)
            if bank.index.catch_up():
                found = candidates(bank, request, vec, dict(document_counts(db, bank, words)))
                records, texts = Records(db, bank, request, found.seqs), _texts(db, found.seqs)
            last, event_seq, audit_seq = newest.fetchone()
            number = last + 1
            seed = seed_tree(bank.seed, "recall", number) if request.seed is None else request.seed
            if policy.rank == "random":
                found = drawn(bank, request, seed)
                records, texts = Records(db, bank, request, found.seqs), _texts(db, found.seqs)
            pool = _rank(bank, request, records, found, seed)
            about = {row[0]: row for row in texts}
            if vec is None:
                put_text(db, digest, task)
            else:
                bank.put_embedding(db, digest, task, vec)
            db.execute(
                "INSERT INTO recall(seq, scope_id, stage, query_hash, emb_id, policy, params, rng_seed, frozen, "
                "is_test, explored, store_seq, event_seq, audit_seq, n_scanned, n_pool, created_at) "
                f"VALUES(?,?,?,?,{EMB_ID},{marks(12)})",
                (number, bank.scope_id, request.stage, digest, model, digest, policy.name, _params(policy), seed,
                 request.frozen, request.is_test, pool.explored, bank.index.newest, event_seq, audit_seq,
                 bank.index.count(request.kinds), len(pool.seq), time.time()),
            )  # fmt: skip
            _write_items(db, number, pool, about)
            return _receipt(bank, request, number, pool, about)


@lru_cache(maxsize=256)
def _params(policy: Policy) -> str:
    return json.dumps(to_dict(policy), sort_keys=True)


def _rank(bank: Bank, request: Request, records: Records, found: Found, seed: int) -> Pool:
    policy, seqs, sims, n = request.policy, found.seqs, found.relevance, len(found.seqs)
    rows, sources = records.read()
    q = np.array([row.value.q for row in rows])
    zero = np.zeros(n)
    pool = Pool(
        seq=seqs, sim=sims, cosine=found.cosine, q=q, value=q, n=np.array([row.value.n for row in rows], np.int64),
        score=sims, z_sim=zero, z_q=zero, bonus=zero, propensity=np.zeros(n),
        selected=list(range(min(request.k, n))), omitted=set(), effects=[],
        rows=rows,
    )  # fmt: skip
    if n == 0:
        return pool
    if policy.rank == "zscore":
        chosen, order, score = two_phase(seqs, sims, q, gate=-np.inf, pool=n, k=request.k, weight=policy.weight)
        pool.score = np.empty(n)
        pool.score[order] = score
        pool.z_sim, pool.z_q = zscores(sims), zscores(q)
        pool.selected = chosen.tolist()
    elif policy.rank == "linear":
        pool.score = (1.0 - policy.weight) * sims + policy.weight * q
        pool.selected = np.argsort(-pool.score, kind="stable")[: request.k].tolist()
    elif policy.rank == "lift":
        _rank_by_lift(bank, request, pool, sources)
    # lift may withhold what harms by chance, also where nothing else is left out
    rng = np.random.default_rng(seed) if policy.epsilon > 0 or policy.rank == "lift" else None
    _explore(request, pool, rng)
    if policy.rank == "lift":
        _omit(request, pool, rng)
    return pool


def _rank_by_lift(bank: Bank, request: Request, pool: Pool, sources: Mapping[str, tuple[float, float]]) -> None:
    policy, judged = request.policy, judge(bank, request, pool.rows, sources)
    pool.value = np.array([j.value for j in judged])
    pool.effects = [j.effect for j in judged]
    pool.harmful = {i for i, j in enumerate(judged) if j.harmful}
    pool.look = [j.look for j in judged]
    pool.leans = {i for i, j in enumerate(judged) if j.leans}
    ranking = lift.rank(
        pool.sim, pool.value, pool.effects, weight=policy.weight, reward_range=bank.reward_range,
        spread_floor=policy.spread_floor,
    )  # fmt: skip
    pool.score, pool.z_sim, pool.z_q, pool.bonus = ranking
    pool.selected = np.argsort(-pool.score, kind="stable")[: request.k].tolist()


def _explore(request: Request, pool: Pool, rng: np.random.Generator | None) -> None:
    """Epsilon: k random members of the pool instead of the best; never outside the gate, always logged."""
    n, k, eps = len(pool.seq), len(pool.selected), request.policy.epsilon
    if request.policy.rank == "random":
        pool.propensity[:] = 1.0
        return
    if request.frozen or eps <= 0.0 or rng is None:
        pool.propensity[pool.selected] = 1.0
        return
    pool.propensity[:] = eps * k / n
    pool.propensity[pool.selected] += 1.0 - eps
    if rng.random() < eps:
        pool.explored = True
        drawn = rng.choice(n, size=k, replace=False).tolist()
        pool.selected = sorted(drawn, key=lambda i: (-pool.score[i], i))


def _omit(request: Request, pool: Pool, rng: np.random.Generator | None) -> None:
    """Leave out selected memories with a logged probability; what harms nearly always, when frozen always.

    What outcomes speak against, without being sure, is left out as often, and what fails always often at first, so
    that both arms grow and the truth comes out. The first is not left out otherwise: that would cost the most, and if
    it is a mere companion of a useful memory, leaving the useful one out shows so. Evidence is counted in omissions, of
    which there are always too few.
    """
    policy = request.policy
    for rank, i in enumerate(pool.selected):
        n, first = pool.rows[i].value.n_omitted, rank == 0
        p = 0.0 if first else lift.omission_rate(n, rate=policy.omit, n0=policy.omit_n0)
        if request.frozen:  # nothing is measured: the better guess counts
            p = float(i in pool.leans)
        else:
            look = lift.omission_rate(n, rate=pool.look[i], n0=policy.omit_n0)
            p = max(p, min(policy.omit_harmful, 1.0 if i in pool.leans else look))
        if i in pool.harmful:
            p = 1.0 if request.frozen else max(p, policy.omit_harmful)
        pool.propensity[i] = 1.0 - p  # given that it was selected: what shown and omitted outcomes are compared by
        if p >= 1.0 or (rng is not None and p > 0.0 and rng.random() < p):
            pool.omitted.add(i)


def _texts(db: Connection, seqs: Sequence[int]) -> Iterable[tuple]:
    """Ask what the receipt says about candidates."""
    return among(
        db,
        "SELECT m.seq, m.content_version, m.kind, m.polarity, k.body, b.body FROM memory m "
        "JOIN text_blob k ON k.hash = m.key_hash JOIN text_blob b ON b.hash = m.body_hash WHERE m.seq IN ({})",
        seqs,
    )


def _write_items(db: Connection, number: int, pool: Pool, about: Mapping[int, tuple]) -> None:
    """Write the rows of the receipt."""
    ids = pool.seq
    place = {i: rank for rank, i in enumerate(np.argsort(-pool.score, kind="stable").tolist())}
    chosen = set(pool.selected)
    db.executemany(
        f"INSERT INTO recall_item VALUES({marks(17)})",
        [
            (number, ids[i], place[i], float(pool.sim[i]), float(pool.q[i]), float(pool.value[i]), int(pool.n[i]),
             float(pool.z_sim[i]), float(pool.z_q[i]), float(pool.bonus[i]), float(pool.score[i]), True, i in chosen,
             i in pool.omitted, float(pool.propensity[i]), i in chosen and i not in pool.omitted, about[ids[i]][1])
            for i in range(len(ids))
        ],
    )  # fmt: skip


def _receipt(bank: Bank, request: Request, number: int, pool: Pool, about: Mapping[int, tuple]) -> Recall:
    def item(i: int) -> Recalled:
        _, _, kind, polarity, key, body = about[pool.seq[i]]
        v = pool.rows[i].value
        spread = events.uncertainty(v, bank.reward_range)
        return Recalled(
            id=memory_id(pool.seq[i]), key=key, body=body, kind=kind, polarity=polarity, value=float(pool.value[i]),
            n=v.n, uncertainty=spread, similarity=float(pool.cosine[i]), relevance=float(pool.sim[i]),
            score=float(pool.score[i]), propensity=float(pool.propensity[i]), why=_why(request, pool, i, spread),
        )  # fmt: skip

    return Recall(
        id=receipt_id(number),
        items=tuple(item(i) for i in pool.selected if i not in pool.omitted),
        omitted=tuple(item(i) for i in pool.selected if i in pool.omitted),
        pool_size=len(pool.seq),
        stage=request.stage,
        policy=request.policy.name,
        frozen=request.frozen,
        is_test=request.is_test,
        explored=pool.explored,
    )


def _why(request: Request, pool: Pool, i: int, spread: float) -> str:
    if request.policy.rank == "random":
        return "drawn at random"
    v = pool.rows[i].value
    parts = [f"similar {pool.cosine[i]:.2f}"]
    if request.policy.relevance == "hybrid":
        parts.append(f"relevant {pool.sim[i]:.2f} with its words")
    tried = f"{v.n} outcome{'s' if v.n != 1 else ''}" if v.n else "no outcome yet"
    parts.append(f"value {pool.value[i]:.2f} ± {spread:.2f} ({tried})")
    if pool.effects and pool.effects[i].confidence > 0:
        effect = pool.effects[i]
        parts.append(f"adds {effect.raw:+.2f} (seen {v.n} times with it, {v.n_omitted} without)")
    if pool.explored:
        parts.append("shown to explore")
    if i in pool.omitted:
        p = 1.0 - float(pool.propensity[i])
        on_purpose = f"left out on purpose (probability {p:.2f}) to measure what it adds"
        guess = "left out: outcomes without it were better so far"
        parts.append("withheld: it harms" if i in pool.harmful else guess if request.frozen else on_purpose)
    return ", ".join(parts)


def shown(bank: Bank, number: int, ids: Sequence[str] | None) -> None:
    """Record which of the selected memories survived prompt assembly; only those are credited."""
    where = f"shown({receipt_id(number)!r})"
    with bank.store.write() as db:
        rows = db.execute(
            "SELECT memory_id, shown FROM recall_item WHERE recall_id=? AND selected AND NOT omitted", (number,)
        ).fetchall()
        offered = {memory_id(seq): seq for seq, _ in rows}
        if isinstance(ids, str):
            raise BadInput("ids is a single text", got=ids, expected="a sequence of ids", where=where)
        names = list(offered) if ids is None else list(dict.fromkeys(ids))
        for name in names:
            if name not in offered:
                raise BadInput(
                    "this memory was not handed out by the recall",
                    got=name,
                    expected=", ".join(offered) or "nothing: no memory was handed out",
                    where=where,
                    do="list only items of recall.items; what was omitted must not be shown",
                )
        wanted = {offered[name] for name in names}
        if wanted == {seq for seq, was in rows if was}:
            return
        if db.execute("SELECT 1 FROM outcome WHERE recall_id=? AND valid", (number,)).fetchone():
            raise BadInput("the receipt is settled already", where=where, do="call shown() before settle()")
        db.executemany(
            "UPDATE recall_item SET shown=? WHERE recall_id=? AND memory_id=?",
            [(seq in wanted, number, seq) for seq in offered.values()],
        )
