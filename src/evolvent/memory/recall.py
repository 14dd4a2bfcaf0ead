"""The verb recall: candidates ranked by policy, written down as a durable receipt."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.seeding import seed_tree
from evolvent.memory import events, holdout
from evolvent.memory.bank import EMB_ID, Bank, put_vector
from evolvent.memory.candidates import MOST, Found, Records, Request, candidates, drawn, offered, unheard
from evolvent.memory.embedders import gate_of
from evolvent.memory.external import Offered, checked
from evolvent.memory.items import Recall, Recalled, memory_id, receipt_id
from evolvent.memory.keys import ask_expired
from evolvent.memory.metadata import Filter, parse
from evolvent.memory.policies import check, to_params
from evolvent.memory.rule import Candidates, Policy, Ranking, checked_ranking, least_step, rule_of, with_gate
from evolvent.memory.store.engine import ALL, Connection, Subset, among, marks, newest, put_text
from evolvent.memory.text import (
    MAX_KEY_CHARS,
    clean_text,
    clean_word,
    content_hash,
    counted,
    each_row,
    flag,
    in_units,
    listed,
    storable,
    whole,
)

T = TypeVar("T")

# SQL: the newest change of a value, and the newest act on memories
_MOMENT = f"{events.NEWEST}, (SELECT coalesce(max(seq), 0) FROM audit)"
_EMBEDDER = "(SELECT body FROM meta WHERE name = 'embedder')"
_AT_ONCE = 32  # recalls whose candidates are asked for together: SQLite looks at every open question at every write


@dataclass
class Pool:
    """The candidates of one recall, N of them, what the rule made of them, and what chance made of that."""

    seen: Candidates
    cosine: np.ndarray
    ranking: Ranking
    selected: list[int]  # rows, best first
    propensity: np.ndarray
    omitted: set[int] = field(default_factory=set)  # rows of selected that are left out
    explored: bool = False

    @property
    def value(self) -> np.ndarray:
        """What ranking went by: float64 ``[N]``."""
        return self.seen.q_N if self.ranking.value is None else self.ranking.value


def requests_of(
    bank: Bank,
    tasks: Sequence[str],
    *,
    k: int | None = None,
    stage: str = "solve",
    policy: str | Policy | None = None,
    kinds: Sequence[str] | None = None,
    filter: Filter | None = None,
    seed: int | None = None,
    frozen: bool = False,
    is_test: bool = False,
    attempts: Sequence[str | None] | None = None,
    task_ids: Sequence[str | None] | None = None,
    candidates: Sequence[Sequence[Mapping[str, Any]] | None] | None = None,
    keep_text: bool = False,
) -> list[Request]:
    """Check the arguments of recalls, which are the same for all tasks."""
    tasks = listed(tasks, what="tasks", expected="a sequence of texts", where="recall_many")
    chosen = bank.policy if policy is None else check(policy, bank.reward_range)
    if chosen.gate is None:
        chosen = with_gate(chosen, gate_of(bank.embedder))
    size = min(whole(chosen.k if k is None else k, what="k", where="recall"), MOST)
    clean_word(stage, what="a stage", where="recall")
    if kinds is not None:
        kinds = listed(kinds, what="kinds", expected="a sequence, e.g. ['case']", where="recall")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 63):
        raise BadInput(
            "seed is out of range", got=seed, expected="an integer, 0 to 2**63 - 1", where="recall", code="out_of_range"
        )
    wanted = None if kinds is None else tuple(clean_word(kind, what="a kind", where="recall") for kind in kinds)
    clauses = parse(filter, "recall(filter=…)")
    frozen, is_test = flag(frozen, what="frozen", where="recall"), flag(is_test, what="is_test", where="recall")
    same = (size, stage, chosen, wanted, clauses, seed, frozen, is_test, ALL)
    attempts, task_ids = _names(attempts, len(tasks), "attempts"), _names(task_ids, len(tasks), "task_ids")
    every = zip(tasks, attempts, task_ids, strict=True)
    requests = [Request(task, *same, job, name) for task, job, name in every]
    keep_text = flag(keep_text, what="keep_text", where="recall")
    if candidates is None and not keep_text:
        return requests
    given = _each(candidates, len(tasks), "candidates")
    return [_of_others(r, one, keep_text) for r, one in zip(requests, given, strict=True)]


def _of_others(request: Request, given: Sequence[Mapping[str, Any]] | None, keep_text: bool) -> Request:
    """The request with candidates that are kept elsewhere: their scores are no cosines, so no gate bounds them."""
    rule, policy = rule_of(request.policy), with_gate(request.policy, -1.0)
    where = "recall(candidates=…)"
    if given is None:
        if keep_text:
            raise BadInput("keep_text without candidates", where=where, do="leave it out", code="conflicting")
        return request
    if request.kinds is not None or request.filter:
        do = "filter the candidates before handing them over"
        raise BadInput("kinds or filter beside candidates", where=where, do=do, code="conflicting")
    if rule.pairs:
        do = "take another policy: recall(policy='memlift')"
        raise BadInput("this policy needs vectors of keys", got=policy.name, where=where, do=do, code="conflicting")
    return replace(request, policy=policy, offered=Offered(checked(given), keep_text))


def _each(given: Sequence[T | None] | None, n: int, what: str) -> list[T | None]:
    """What was given for each of ``n`` tasks, or nothing."""
    if given is None:
        return [None] * n
    every = listed(given, what=what, expected="one for each task", where="recall_many")
    if len(every) != n:
        raise BadInput(
            f"not one of {what} for each task", got=len(every), expected=n, where="recall_many", code="wrong_number"
        )
    return every


def _names(given: Sequence[str | None] | None, n: int, what: str) -> list[str | None]:
    """Names of the caller's, one for each of ``n`` tasks, or none."""
    each = f"the name of {'an attempt' if what == 'attempts' else 'a task'}"
    names = _each(given, n, what)
    return [
        None if name is None else clean_word(storable(name), what=each, where="recall", limit=500) for name in names
    ]


@dataclass
class _Asked:
    """One recall that is checked, and what is known before the memory is searched."""

    request: Request
    task: str
    digest: str
    vec: np.ndarray | None  # of the task; None under a rule that compares nothing
    moment: tuple | None  # newest event and act when it was asked; None under a rule that bars nothing

    def found(self, bank: Bank, db: Connection | None = None) -> Found:
        """The candidates; ``db``: of the transaction that may write those that are kept elsewhere."""
        if self.request.offered is None:
            return candidates(bank, self.request, self.vec)
        return Found.of([]) if db is None else offered(db, bank, self.request)

    def drawn(self, bank: Bank, found: Found, seed: int, db: Connection | None = None) -> Found:
        """The candidates, under a rule that draws them."""
        if rule_of(self.request.policy).candidates != "any":
            return found
        if self.request.offered is not None and db is not None:
            return offered(db, bank, self.request, seed)
        return drawn(bank, self.request, seed)


def _asked(bank: Bank, requests: Sequence[Request]) -> list[_Asked]:
    """Vectors of tasks: new texts are embedded together, and no lock is held meanwhile."""
    clean = partial(clean_text, what="the task", where="recall", limit=MAX_KEY_CHARS, mask=bank.mask)
    tasks = each_row([storable(request.task) for request in requests], clean, "tasks")
    digests = [content_hash(task) for task in tasks]
    compared = [rule_of(r.policy).candidates == "near" and r.offered is None for r in requests]
    near = {digest: task for digest, task, yes in zip(digests, tasks, compared, strict=True) if yes}
    # questions come before what needs an answer: a server gets them together
    with bank.store.session() as db, bank.store.translated("reading"):
        stored = bank.stored(db, near)
        expired = ask_expired(db, bank)
        last = db.execute(f"SELECT {_MOMENT}") if any(rule_of(r.policy).bars for r in requests) else None
        bank.index.catch_up()
        stored, requests = list(stored), _within(bank, requests, expired)
        moment = None if last is None else last.fetchone()
    vectors = bank.vectors(near, stored)
    vecs = [vectors[digest] if yes else None for digest, yes in zip(digests, compared, strict=True)]
    return [_Asked(*each, moment) for each in zip(requests, tasks, digests, vecs, strict=True)]


def _within(bank: Bank, requests: Sequence[Request], expired: Iterable[tuple]) -> list[Request]:
    """Requests with what their kinds and filter (the same for all) leave of the memories that have not ``expired``."""
    gone = np.array([seq for (seq,) in expired], np.int64)
    plain = not len(gone) and all(r.subset is ALL and r.kinds is None and not r.filter for r in requests)
    if plain or not requests:
        return list(requests)
    only, without = bank.metadata.find(requests[0].filter) if requests[0].filter else (None, gone[:0])
    subset = Subset(requests[0].kinds, only, np.union1d(gone, without) if len(gone) else without)
    return [replace(request, subset=subset) for request in requests]


def search(bank: Bank, request: Request) -> list[Recalled]:
    """What a frozen recall would show, and nothing written: no receipt, no lock that a writer holds is waited for."""
    (asked,) = _asked(bank, [request])
    request = asked.request
    seed = seed_tree(bank.seed, "search", asked.digest) if request.seed is None else request.seed
    with bank.store.session() as db, bank.store.snapshot(), bank.store.translated("reading"):
        found = asked.drawn(bank, asked.found(bank), seed)
        seen, texts = found.known or Records(db, bank, request, found.seqs).pool(found), _texts(db, found.seqs)
        pool = _rank(request, seen, found.cosine, seed)
        about = {row[0]: row for row in texts}
    return [_item(bank, request, pool, about, i) for i in pool.selected if i not in pool.omitted]


def recall(bank: Bank, requests: Sequence[Request]) -> list[Recall]:
    """Run recalls in their order and write their receipts (one transaction)."""
    asked = _asked(bank, requests)
    names = [holdout.attempt_of(r.attempt, "") for r in requests if r.attempt is not None]
    names += [r.draw.attempt for r in requests if r.draw is not None]
    with bank.store.session():
        found = [each.found(bank) for each in asked]
        # searched before taking the write lock, so that other processes wait for the receipts only
        with bank.store.write() as db:
            last_numbers = db.execute(f"SELECT {newest('recall')}, {_EMBEDDER}, {_MOMENT}")
            draws = holdout.Draws(db, bank.scope_id, bank.holdout, names)
            elsewhere = any(each.request.offered is not None for each in asked)
            if elsewhere:
                found = [
                    one if each.request.offered is None else each.found(bank, db)
                    for each, one in zip(asked, found, strict=True)
                ]
            read = _read(db, bank, asked[:_AT_ONCE], found[:_AT_ONCE])
            if bank.index.catch_up():
                requests = _within(bank, [each.request for each in asked], ask_expired(db, bank))
                asked = [replace(each, request=request) for each, request in zip(asked, requests, strict=True)]
                found = [each.found(bank, db) for each in asked]
                read = _read(db, bank, asked[:_AT_ONCE], found[:_AT_ONCE])
            last, model, *moment = last_numbers.fetchone()
            if model != json.dumps(bank.embedder.id):  # damaged, or changed by another thread since the index looked
                bank.store.same_embedder(bank.embedder.id)
            made = list[Recall]()
            while len(made) < len(asked):
                here = slice(len(made), len(made) + _AT_ONCE)
                read = read if not made else _read(db, bank, asked[here], found[here])
                for each, one, about in zip(asked[here], found[here], read, strict=True):
                    made.append(_written(db, bank, last + len(made) + 1, each, one, tuple(moment), about, draws))
            return made


def _read(
    db: Connection, bank: Bank, asked: Sequence[_Asked], found: Sequence[Found]
) -> list[tuple[Records | None, Iterable[tuple]]]:
    """Ask for the texts of candidates, and for their records unless a rule was shown them."""
    return [
        (None if one.known else Records(db, bank, each.request, one.seqs), _texts(db, one.seqs))
        for each, one in zip(asked, found, strict=True)
    ]


def _written(
    db: Connection,
    bank: Bank,
    number: int,
    asked: _Asked,
    found: Found,
    moment: tuple,
    read: tuple[Records | None, Iterable[tuple]],
    draws: holdout.Draws,
) -> Recall:
    """Rank the candidates of one recall, and write its receipt."""
    request, policy, (records, texts) = asked.request, asked.request.policy, read
    # a seed that is given again and again must not be the draw: it would leave out the same memories for ever
    seed = seed_tree(bank.seed if request.seed is None else request.seed, "recall", number)
    lots = asked.drawn(bank, found, seed, db)
    if lots is not found:
        found, records, texts = lots, None, _texts(db, lots.seqs)
    # what a rule was shown holds unless something happened since
    seen = found.known if moment == asked.moment else None
    if seen is None:
        seen = (records or Records(db, bank, request, found.seqs)).pool(found)
    pool = _rank(request, seen, found.cosine, seed, db)
    about = {row[0]: row for row in texts}
    if found.texts is not None:  # whether or not they are kept
        about = {seq: (*row[:5], found.texts[seq], row[6]) for seq, row in about.items()}
    if asked.vec is None:
        put_text(db, asked.digest, asked.task)
    else:
        put_vector(db, bank.embedder.id, asked.digest, asked.task, asked.vec)
    db.execute(
        "INSERT INTO recall(seq, scope_id, stage, query_hash, emb_id, policy, params, rng_seed, frozen, "
        "is_test, explored, store_seq, event_seq, audit_seq, n_scanned, n_pool, created_at) "
        f"VALUES(?,?,?,?,{EMB_ID},{marks(12)})",
        (
            number,
            bank.scope_id,
            request.stage,
            asked.digest,
            None if asked.vec is None else bank.embedder.id,
            asked.digest,
            policy.name,
            to_params(policy),
            seed,
            request.frozen,
            request.is_test,
            pool.explored,
            max(bank.index.newest, *found.seqs, 0) if request.offered else bank.index.newest,
            *moment,
            len(request.offered.candidates) if request.offered else bank.index.count(request.subset),
            len(pool.seen.ids),
            time.time(),
        ),
    )
    exposure = _exposed(db, number, request, pool, draws)
    held_out = exposure is not None and exposure.held_out
    _write_items(db, number, pool, about, held_out)
    handed = [] if held_out else pool.selected
    return Recall(
        id=receipt_id(number),
        items=tuple(_item(bank, request, pool, about, i) for i in handed if i not in pool.omitted),
        omitted=tuple(_item(bank, request, pool, about, i) for i in handed if i in pool.omitted),
        pool_size=len(pool.seen.ids),
        stage=request.stage,
        policy=policy.name,
        frozen=request.frozen,
        is_test=request.is_test,
        explored=pool.explored,
        held_out=held_out,
        handed=1.0 if exposure is None else 1.0 - exposure.rate,
    )


def _exposed(
    db: Connection, number: int, request: Request, pool: Pool, draws: holdout.Draws
) -> holdout.Exposure | None:
    """What chance decides of a recall as a whole; None: there is nothing to hold out, or nothing is measured."""
    if request.frozen or request.is_test or not pool.selected:
        return None
    attempt, rate = request.draw or (holdout.attempt_of(request.attempt, receipt_id(number)), None)
    exposure = draws.of(attempt, rate)
    if exposure.rate == 0.0 and request.attempt is None and request.task_id is None:
        return None
    holdout.write(db, number, exposure, None if request.task_id is None else content_hash(request.task_id))
    return exposure


def _rank(request: Request, seen: Candidates, cosine: np.ndarray, seed: int, db: Connection | None = None) -> Pool:
    """Rank by the rule, explore, and leave out; ``db``: where an outcome of it may come."""
    policy, n = request.policy, len(seen.ids)
    if n == 0:
        return Pool(seen, cosine, Ranking(seen.relevance), [], np.zeros(0))
    ranking = checked_ranking(rule_of(policy).rank(policy, seen), n, seen.k, policy.name)
    best = np.argsort(-ranking.score, kind="stable")[: seen.k].tolist() if ranking.best is None else ranking.best
    pool = Pool(seen, cosine, ranking, list(best), np.zeros(n))
    # a rule may withhold what harms by chance, also where nothing else is left out
    rng = np.random.default_rng(seed) if policy.epsilon > 0 or ranking.omit is not None else None
    _explore(request, pool, rng)
    if ranking.omit is not None:
        first = ranking.omit if ranking.omit_first is None else ranking.omit_first
        omit = {i: float(ranking.omit[i] if rank else first[i]) for rank, i in enumerate(pool.selected)}
        if db is not None and not request.frozen:
            omit |= _not_measured(db, pool, omit)
        _omit(pool, omit, rng)
    return pool


def _not_measured(db: Connection, pool: Pool, omit: Mapping[int, float]) -> dict[int, float]:
    """Rows that are not left out after all: where no outcome comes, leaving out measures nothing, and costs.

    What is left out more often than shown is so because outcomes speak against it, and stays so.
    """
    asked = {pool.seen.ids[i]: i for i, p in omit.items() if 0.0 < p < 0.5}
    return {asked[seq]: 0.0 for seq in unheard(db, list(asked))}


def _explore(request: Request, pool: Pool, rng: np.random.Generator | None) -> None:
    """Epsilon: k random members of the pool instead of the best; never outside the gate, always logged."""
    n, k, eps = len(pool.seen.ids), len(pool.selected), request.policy.epsilon
    if rule_of(request.policy).candidates == "any":
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
        pool.selected = sorted(drawn, key=lambda i: (-pool.ranking.score[i], i))


def _omit(pool: Pool, omit: Mapping[int, float], rng: np.random.Generator | None) -> None:
    """Leave out selected memories (rows) with these probabilities."""
    for i, p in omit.items():
        pool.propensity[i] = 1.0 - p  # given that it was selected: what shown and omitted outcomes are compared by
        if p >= 1.0 or (rng is not None and p > 0.0 and rng.random() < p):
            pool.omitted.add(i)


def _texts(db: Connection, seqs: Sequence[int]) -> Iterable[tuple]:
    """Ask what the receipt says about candidates."""
    return among(
        db,
        "SELECT m.seq, m.content_version, m.kind, m.polarity, k.body, b.body, m.meta FROM memory m "
        "JOIN text_blob k ON k.hash = m.key_hash JOIN text_blob b ON b.hash = m.body_hash WHERE m.seq IN ({})",
        seqs,
    )


def _write_items(db: Connection, number: int, pool: Pool, about: Mapping[int, tuple], held_out: bool) -> None:
    """Write the rows of the receipt; where all was held out, none of them is shown, or left out for itself."""
    seen, ranking, zero = pool.seen, pool.ranking, np.zeros(len(pool.seen.ids))
    columns = (
        seen.relevance,
        seen.q_N,
        pool.value,
        *(zero if part is None else part for part in ranking[1:4]),
        ranking.score,
        pool.propensity,
    )
    chosen = set(pool.selected)
    # settling goes by these places: what was handed out comes first, in its order
    rest = (i for i in np.argsort(-ranking.score, kind="stable").tolist() if i not in chosen)
    place = {i: rank for rank, i in enumerate((*pool.selected, *rest))}
    rows = []
    for i, numbers in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        sim, q, value, z_sim, z_q, bonus, score, propensity = numbers
        id_, taken, left = seen.ids[i], i in chosen, i in pool.omitted and not held_out
        rows.append(
            (
                number,
                id_,
                place[i],
                sim,
                q,
                value,
                seen.rows[i].value.n,
                z_sim,
                z_q,
                bonus,
                score,
                taken,
                left,
                propensity,
                taken and not left and not held_out,
                about[id_][1],
            )
        )
    db.executemany(f"INSERT INTO recall_item VALUES({marks(16)})", rows)


def _item(bank: Bank, request: Request, pool: Pool, about: Mapping[int, tuple], i: int) -> Recalled:
    seen, value = pool.seen, float(pool.value[i])
    _, _, kind, polarity, key, body, meta = about[seen.ids[i]]
    v = seen.rows[i].value
    spread = events.uncertainty(v, bank.reward_range, least_step(request.policy))
    return Recalled(
        id=memory_id(seen.ids[i], seen.rows[i].name),
        key=key,
        body=body,
        kind=kind,
        polarity=polarity,
        value=value,
        n=v.n,
        uncertainty=spread,
        similarity=float(pool.cosine[i]),
        relevance=float(seen.relevance[i]),
        score=float(pool.ranking.score[i]),
        propensity=float(pool.propensity[i]),
        why=_why(request, pool, i, value, spread),
        metadata=json.loads(meta) if meta else {},
    )


def _why(request: Request, pool: Pool, i: int, value: float, spread: float) -> str:
    if rule_of(request.policy).candidates == "any":
        return "drawn at random"
    v, effects = pool.seen.rows[i].value, pool.ranking.effects
    span = pool.seen.reward_range[1] - pool.seen.reward_range[0]
    parts = [f"{'similar' if request.offered is None else 'score'} {pool.cosine[i]:.2f}"]
    if request.policy.relevance == "hybrid" and request.offered is None:
        parts.append(f"relevant {pool.seen.relevance[i]:.2f} with its words")
    tried = counted(v.n, "outcome") if v.n else "no outcome yet"
    if v.n or rule_of(request.policy).credit is not None:  # else there is no value, and there will be none
        parts.append(f"value {in_units(value, span, 2)} ± {in_units(spread, span, 2)} ({tried})")
    if effects and effects[i].confidence > 0:
        parts.append(f"{effects[i].described(span)} (seen {v.n} times with it, {v.n_omitted} without)")
    if pool.explored:
        parts.append("shown to explore")
    if i in pool.omitted:
        p = 1.0 - float(pool.propensity[i])
        on_purpose = f"left out on purpose (probability {p:.2f}) to measure what it adds"
        guess = "left out: outcomes without it were better so far"
        parts.append("withheld: it harms" if i in pool.ranking.harmful else guess if request.frozen else on_purpose)
    return ", ".join(parts)
