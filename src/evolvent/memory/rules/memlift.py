"""memlift, our own and the default: ranked by relevance and measured effect; credit by use and by omission.

    score(m) = (1 - w) (1 - (1 - trust) known) z(relevance) + w z(value + c lift / 2)
    Q(m) <- Q(m) + s (R - Q(m))        for each memory shown; s = use max(alpha, 1 / (n + 2)), use: share of the
                                          action, ½ behind the best where none is told

Relevance is a guess at what outcomes will say: the more of a memory's value is outcomes, the less relevance counts.
Outcomes count by how near a memory was where they came from, compared with how near it is now, in both directions.

Of answers to one question, one is shown: a memory written under the key and kind of one that had been tried is another
answer, and the higher value counts, on a tie the newer. So a correction takes the place of what failed, and gives it
back when it fails more. Each selected memory but the best is left out with a logged probability that falls with its
omissions; lift is the difference of outcomes with and without it, weighted by inverse propensity, and c how far it can
be trusted. What is known to harm is withheld, and takes no place in the pool. The pure parts stand in
``memory/lift.py``, the numbers behind each in docs/memlift.md. ``credit/memory_omission.py`` gives the lift itself as
a ledger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.formulas.values import ema
from evolvent.memory import lift
from evolvent.memory.events import Loaded
from evolvent.memory.ledger import Known, ledger_of
from evolvent.memory.policies import Policy, start_value, within
from evolvent.memory.rule import Candidates, Change, Ranking, Settled

LEVEL = "memory"
UNBIASED = None
SOURCES = BODIES = RIVALS = NEARNESS = True
# a spread of values below so many typical errors of luck is not scaled up when ranking
LUCK = 1.5
# settings of older receipts that mean nothing any more: ancestors earn no credit (it made failures look like
# successes), and relevance gives way memory by memory
RETIRED = frozenset({"gamma", "trace", "boost"})


@dataclass(frozen=True)
class Config(Policy):
    """Settings of memlift, chosen in surrogate and synthetic worlds (LOG.md)."""

    name: str = "memlift"
    relevance: Literal["cosine", "hybrid"] = "hybrid"
    margin: float = 0.2
    q_init: float | Literal["low", "middle", "high"] = "high"
    weight: float = 0.5
    """Weight of the value in the score: 0 = relevance only, 1 = value only."""
    trust: float = 0.2
    """Share of its weight that relevance keeps where outcomes have said all they can of a memory."""
    alpha: float = 0.3
    """Least learning rate of the value."""
    omit: float = 0.2
    """Probability of leaving out a selected memory, to measure what it adds; not the best one; falls as ``omit n0 / (n0
    + omissions)``."""
    omit_n0: float = 20.0
    """Omissions after which the omission probability has halved."""
    omit_harmful: float = 0.9
    """Probability of leaving out a selected memory known to harm, and upper bound for one that may harm. A frozen
    recall shows neither."""
    strength: float = 4.0
    """Weight of a source's prior, as a number of outcomes."""
    decay: float = 1.0
    """Factor on older lift statistics at each new outcome; below 1 old evidence fades, for drifting tasks."""
    spread_floor: float = 0.1
    """Smallest spread of values, as a share of the reward range, that is scaled up to 1 when ranking."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, 0.0, 1.0, "weight", "trust", "alpha", "omit", "omit_harmful", "decay")
        within(self, 0.0, np.inf, "omit_n0", "strength", "spread_floor", inside=True)
        if self.omit >= 1.0 or self.omit_harmful >= 1.0:
            raise BadInput(
                "an omission rate of 1 shows nothing", got=(self.omit, self.omit_harmful), expected="below 1",
                where=f"policy {self.name!r}", code="bad_policy",
            )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- rank
def rank(config: Config, pool: Candidates) -> Ranking:
    """By relevance and worth; says with what probability each is left out."""
    rows = _here(config, pool)
    judged = _judge(config, pool, rows)
    value_N, effects = np.array([j.value for j in judged]), [j.effect for j in judged]
    lo, hi = pool.reward_range
    share_N, known_N = (value_N - lo) / (hi - lo), np.array([1.0 - row.value.carry for row in rows])
    trust_N, luck = 1.0 - (1.0 - config.trust) * known_N, LUCK * lift.noise(share_N, known_N, config.alpha)
    parts = lift.rank(
        pool.relevance, trust_N, lo + (value_N - lo) * _carries_over(config, pool), effects, weight=config.weight,
        reward_range=pool.reward_range, spread_floor=math.hypot(config.spread_floor, luck),
    )  # fmt: skip
    # nothing is left out before an outcome came: where nobody settles, there is nothing to measure
    rates = [
        lift.omission_rate(row.value.n_omitted, rate=config.omit, n0=config.omit_n0) if row.value.n else 0.0
        for row in pool.rows
    ]
    best = lift.one_answer_each(parts[0], share_N, pool.newer, pool.repeated)
    return Ranking(
        *parts, value=value_N, effects=effects, best=best[: pool.k],
        omit=[_omission(config, pool, i, j, rate) for i, (j, rate) in enumerate(zip(judged, rates, strict=True))],
        omit_first=[_omission(config, pool, i, j, 0.0) for i, j in enumerate(judged)],
        harmful=frozenset(i for i, j in enumerate(judged) if j.harmful),
    )  # fmt: skip


def bars(config: Config, pool: Candidates) -> np.ndarray:
    """What harms or seems to fail always takes no place from others: bool ``[N]``."""
    rows = _here(config, pool)
    # where a source gave no value of its own, its track record speaks for the lesson
    tried = [row.value.n + (0.0 if row.q_given else pool.sources.get(row.source, (0.0,))[0]) for row in rows]
    return np.array([
        j.harmful or j.leans or lift.fails(j.value, n, pool.reward_range)
        for j, n in zip(_judge(config, pool, rows), tried, strict=True)
    ])  # fmt: skip


def _omission(config: Config, pool: Candidates, i: int, judged: _Judged, rate: float) -> float:
    """Probability of leaving out a candidate once it is selected; what harms nearly always, when frozen always.

    What outcomes speak against, without being sure, is left out as often, and what fails always often at first, so
    that both arms grow and the truth comes out. The first is not left out otherwise: that would cost the most, and if
    it is a mere companion of a useful memory, leaving the useful one out shows so. Evidence is counted in omissions, of
    which there are always too few.
    """
    if pool.frozen:  # nothing is measured: the better guess counts
        return float(judged.leans or judged.harmful)
    look = lift.omission_rate(pool.rows[i].value.n_omitted, rate=judged.look, n0=config.omit_n0)
    p = max(rate, min(config.omit_harmful, 1.0 if judged.leans else look))
    return max(p, config.omit_harmful) if judged.harmful else p


class _Judged(NamedTuple):
    """What is made of one candidate's record."""

    value: float  # with the prior of its source
    harmful: bool
    leans: bool
    look: float
    effect: lift.Effect


def _judge(config: Config, pool: Candidates, rows: Sequence[Loaded]) -> list[_Judged]:
    """What is made of each candidate's record, beside those of its neighbours and its source's."""
    span = pool.reward_range
    start = start_value(config, span)
    records = [lift.outcomes(row.value.n, row.value.sum_r, span) for row in rows]
    best = lift.best_record(records)
    judged = []
    for i, (v, q_init, q_given, source) in enumerate(rows):
        n, total = pool.sources.get(source, (0.0, 0.0))
        prior = lift.source_prior(start, total, n, config.strength)
        # a starting value that was given on purpose is kept; the policy's own start gives way to the source's record
        value = v.q if q_given else lift.with_prior(v.q, v.carry, q_init, prior)
        beside = [records[j] for j in best if j != i]
        other = beside[0] if beside else lift.NO_OUTCOMES
        judged.append(_Judged(value, *lift.judge(v.arms, records[i], other, len(rows) - 1, value, span)))
    return judged


def _here(config: Config, pool: Candidates) -> list[Loaded]:
    """The records as far as they say something about the task at hand.

    What came of a memory at tasks for which it was farther than it is for this one says less here: the outcomes count
    by how far above the gate it was there, as a share of how far it is here. A lesson that was shown beside strange
    questions, because nothing nearer was there, and failed, is still the lesson for its own.
    """
    gate, rows = config.gate or 0.0, []
    for id_, row, here in zip(pool.ids, pool.rows, pool.relevance.tolist(), strict=True):
        there = pool.nearness.get(id_, here)
        if there < here and here > gate:
            row = row._replace(value=row.value.share(max(0.0, there - gate) / (here - gate), row.q_init))
        rows.append(row)
    return rows


def _carries_over(config: Config, pool: Candidates) -> np.ndarray:
    """Share of each value that holds for the task at hand: ``[N]``, 1 where it is as near as its own outcomes were.

    What helped at nearer tasks is worth less here, in proportion to how far above the gate it is: a lesson of another
    kind of task, that always succeeds there, is no better here than its distance allows.
    """
    gate, share_N = config.gate or 0.0, np.ones(len(pool.ids))
    for i, (id_, here) in enumerate(zip(pool.ids, pool.relevance.tolist(), strict=True)):
        there = pool.nearness.get(id_, here)
        if there > max(here, gate):
            share_N[i] = max(0.0, here - gate) / (there - gate)
    return share_N


# ----------------------------------------------------------------------------------------------------------- credit
def credit(config: Config, settled: Settled) -> list[Change]:
    """Shown memories by how much they were used, omitted ones to their statistics. Nothing else changes.

    What was handed out and dropped counts among the outcomes with it: whether a memory has room is not chance, so only
    handing it out and leaving it out can be compared. Where much is dropped, effects come out smaller, not biased.
    """
    r, values, made = settled.reward, settled.values, []
    for m, shown, propensity, dropped in settled.items:
        v = values[m].value
        # only where it might have been left out is there anything to compare with: an outcome under a propensity of 1
        # (best of its pool, alone, frozen) says nothing about the effect, and would bias it if it counted
        ipw = 1.0 / propensity if 0.0 < propensity < 1.0 else 0.0
        if shown:
            w = settled.weights[m]
            step = w * lift.step_size(v.n, config.alpha)
            made.append(Change(m, "shown", v.q, ema(v.q, r, step), r, step, w, ipw, config.decay))
        elif dropped:
            if ipw:
                made.append(Change(m, "omitted", v.q, v.q, r, weight=0.0, ipw=ipw, decay=config.decay))
        elif propensity > 0.0:
            # left out by chance; what was withheld for certain has no counterpart to be compared with
            ipw = 1.0 / (1.0 - propensity)
            made.append(Change(m, "omitted", v.q, v.q, r, ipw=ipw, decay=config.decay))
    return made


def assign(episodes: Sequence[Episode], config: Config = Config(), known: Known = Known()) -> Ledger:
    """Change of value of every memory shown in a valid episode, in units of reward; see ``memory/ledger.py``.

    Where ``known`` has no bodies, the place in the prompt tells how much each was used.

    Raises:
        BadInput: a memory was left out without a logged propensity.
    """
    return ledger_of(credit, episodes, config, known)
