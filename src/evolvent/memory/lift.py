"""memlift, our default: what a memory adds, estimated from leaving it out now and then. Pure functions.

A memory that is always shown beside a useful one earns the same rewards, and an average of rewards cannot tell them
apart. Leaving each selected memory out with a known probability can: the difference between outcomes with and
without it, weighted by the inverse of those probabilities, is its marginal effect. The evidence is thin at first,
so it is added to the ordinary learned value by how much of it there is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence, Set
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from evolvent.formulas.anytime import Outcomes, less_than
from evolvent.formulas.causal import ArmSums, contrast, omission_lift
from evolvent.memory.text import in_units

# prior standard deviation of a marginal effect, as a share of the reward range: most memories matter a little
EFFECT_SPREAD = 0.3
# smallest spread of similarities in a pool that is scaled up to 1 when ranking
SIM_FLOOR = 0.05
# a shown memory that the action did not use still answers for this share of the outcome
IDLE_WEIGHT = 0.25
# and where nothing tells what was used, what stands behind the first answers for this share: many follow the first
BEHIND_WEIGHT = 0.5
# share of a measured effect that counts beside the value, which has seen the same outcomes. It must not replace the
# value: leaving out what stands behind the one that is followed changes nothing, however much that would help in front
MEASURED = 0.5
# a harmless memory is ever taken for a harmful one with at most this probability, by each of two tests
HARM_LEVEL = 0.05
# probability of leaving out, at first, what seems to fail always: to find out
DOUBT = 0.7
NO_OUTCOMES = Outcomes(0.0, 0.0)
# decimals of scores and of shares of the reward range that count: what is equal on one scale of rewards differs in its
# last bits on another
_DIGITS = 9

Range = tuple[float, float]

# kana, Han, Thai and Lao are written without spaces: every character is a word
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\u0e00-\u0eff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W\d{_UNSPACED}][^\W{_UNSPACED}]*|\d+|[^\s\w]")


class Effect(NamedTuple):
    """Marginal effect of showing a memory: ``raw`` estimate, ``confidence`` 0..1 in it, and the posterior spread."""

    raw: float
    confidence: float
    spread: float

    @property
    def shrunk(self) -> float:
        """Posterior mean under a prior centred on no effect."""
        return self.confidence * self.raw

    def told(self, span: float) -> str:
        """In words: the posterior mean with its spread, or that it is too early to say; rewards span ``span``."""
        if abs(self.shrunk) <= self.spread:
            return "what it adds: too early to say"
        return f"adds {in_units(self.shrunk, span, 2, '+')} ± {in_units(self.spread, span, 2)}"


def omission_rate(n: float, *, rate: float, n0: float) -> float:
    """Probability of leaving out a memory with ``n`` outcomes behind it: ``rate n0 / (n0 + n)``."""
    return rate * n0 / (n0 + n)


def marginal(shown: ArmSums, omitted: ArmSums, reward_range: tuple[float, float]) -> Effect:
    """Effect of showing a memory from its outcomes with and without it: ``formulas.causal.omission_lift``.

    The prior is no effect, with standard deviation ``EFFECT_SPREAD × range``; the reward variance, which says what
    that prior is worth in outcomes, is bounded by ``(m − lo)(hi − m)`` at the pooled mean (exact for two values).
    """
    lo, hi = reward_range
    prior = EFFECT_SPREAD * (hi - lo)
    if shown.weight <= 0.0 or omitted.weight <= 0.0:
        return Effect(0.0, 0.0, prior)
    total = sum(arm.size * arm.reward / arm.weight for arm in (shown, omitted))
    # one pseudo-outcome at each end keeps the variance above zero while all outcomes were equal
    pooled = (total + lo + hi) / (shown.size + omitted.size + 2.0)
    variance = (pooled - lo) * (hi - pooled)
    _, confidence = omission_lift(shown, omitted, prior=0.0, strength=variance / prior**2)
    return Effect(contrast(shown, omitted)[0], confidence, prior * math.sqrt(1.0 - confidence))


def source_prior(q_init: float, sum_q: float, n: float, strength: float) -> float:
    """What to expect of a memory from a source whose ``n`` tried memories realised ``sum_q`` in all."""
    return (q_init * strength + sum_q) / (strength + n)


def with_prior(q: float, carry: float, q_init: float, prior: float) -> float:
    """``q`` as if it had started at ``prior``: ``carry`` is the share of the start that is still in it."""
    return q + carry * (prior - q_init)


def realised(q: float, carry: float, q_init: float) -> float:
    """The average outcome inside ``q``, its starting value taken out; needs ``carry < 1``."""
    return (q - carry * q_init) / (1.0 - carry)


def step_size(n: int, floor: float) -> float:
    """Step of the value: a plain mean with one pseudo-outcome at the start, never below ``floor`` (drift)."""
    return max(floor, 1.0 / (n + 2.0))


def outcomes(n: float, total: float, reward_range: tuple[float, float]) -> Outcomes:
    """``n`` rewards with this sum, on the scale 0..1."""
    lo, hi = reward_range
    return Outcomes(n, (total - n * lo) / (hi - lo))


def arm_outcomes(arm: ArmSums, reward_range: tuple[float, float]) -> Outcomes:
    """What an arm of weighted outcomes is worth in plain ones, on the scale 0..1."""
    return outcomes(arm.size, arm.size * arm.reward / arm.weight if arm.weight > 0.0 else 0.0, reward_range)


def fails(value: float, n: float, reward_range: tuple[float, float]) -> bool:
    """Whether a memory seems to fail always: at least four outcomes, and a value within a tenth of the range above
    failure. That is a suspicion, no more: where little succeeds, a memory that doubles it still mostly fails.
    """
    lo, hi = reward_range
    return n >= 4 and value <= lo + 0.1 * (hi - lo)


def worse(a: Outcomes, b: Outcomes, among: int = 1) -> bool:
    """Whether outcomes ``a`` are worse than ``b``, which was picked from so many, at ``HARM_LEVEL``, whenever asked."""
    return less_than(a, b) >= math.log(among / HARM_LEVEL)


def best_record(records: Sequence[Outcomes]) -> list[int]:
    """Places of the records with the most successes times success rate, at most two of them."""
    worth = [x.total * x.total / x.n if x.n > 0.0 else 0.0 for x in records]
    return sorted(range(len(records)), key=lambda i: (-worth[i], i))[:2]


class Judgement(NamedTuple):
    """What is known of the harm of showing a memory.

    ``harmful``: known to hurt. ``leans``: outcomes speak against it, without being sure. ``look``: how often to leave
    it out to find out, where it seems to fail always. ``effect``: what showing it adds, as far as that was measured.
    """

    harmful: bool
    leans: bool
    look: float
    effect: Effect


def judge(
    arms: tuple[ArmSums, ArmSums], record: Outcomes, best: Outcomes, among: int, value: float, span: Range
) -> Judgement:
    """Whether showing a memory is known to hurt, or worth finding out.

    It hurts when outcomes with it are worse than those without it, or when it fails always where another memory for
    such tasks does not. Never while the outcomes with it are better than those without. Recalls look at this all the
    time, so both are tests that stay valid under continuous looking; each is wrong about at most ``HARM_LEVEL`` of the
    harmless memories, ever. Until a test has spoken there is doubt: a reason to look, not a verdict.

    Args:
        arms: outcomes with it and without it, where chance decided.
        record: all outcomes with it, on the scale 0..1.
        best: those of the memory with the best record of all that are recalled beside it; none when it is alone.
        among: how many those are.
        value: its value now, in units of reward.
        span: the reward range.
    """
    shown, omitted = arms
    if record.n <= 0.0 >= max(shown.weight, omitted.weight):
        return Judgement(False, False, 0.0, marginal(*arms, span))  # nothing is known: most memories, of most stores
    a, b = arm_outcomes(shown, span), arm_outcomes(omitted, span)
    better = a.n > 0.0 and b.n > 0.0 and a.total / a.n > b.total / b.n
    effect = marginal(*arms, span)
    failing = fails(value, record.n, span)
    beaten = failing and worse(record, best, max(1, among))
    chance = 0.5 * math.erfc(effect.shrunk / effect.spread / math.sqrt(2.0))  # that it hurts, after all that was seen
    look = 1.0 if beaten else DOUBT * min(1.0, 2.0 * chance) if failing else 0.0
    return Judgement(not better and (beaten or worse(a, b)), effect.shrunk + 0.5 * effect.spread < 0.0, look, effect)


def rank(
    sim: ArrayLike,
    trust: ArrayLike,
    value: ArrayLike,
    effects: Sequence[Effect],
    *,
    weight: float,
    reward_range: Range,
    spread_floor: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores of a pool of N candidates, and their parts: ``(score, z_sim, z_value, bonus)``, float64 ``[N]``.

    ``score = (1-w) z_sim + w z_value``; the bonus is the part of measured effects.

    The worth of each is its learned value, and ``MEASURED`` of its measured effect as far as that can be trusted.
    Similarity and worth are centred and divided by their spread, but never by less than a floor, so that noise among
    equals is not blown up to a preference. Similarity is a guess at what outcomes will say: of each candidate it counts
    for the share ``trust``, 0..1 (all of it where the weight is 0).
    """
    sim_N, value_N = np.asarray(sim, np.float64), np.asarray(value, np.float64)
    bonus_N = MEASURED * np.array([e.shrunk for e in effects])
    span = reward_range[1] - reward_range[0]
    z_sim = _scaled(sim_N, SIM_FLOOR)
    if weight > 0.0:
        z_sim = np.asarray(trust, np.float64) * z_sim
    z_value = _scaled(value_N + bonus_N, spread_floor * span)
    return (1.0 - weight) * z_sim + weight * z_value, z_sim, z_value, bonus_N


def noise(share: ArrayLike, known: ArrayLike, alpha: float) -> float:
    """Typical error of a pool's values by luck alone, as a share of the reward range.

    A running mean with step ``alpha`` of outcomes that succeed with probability p varies by ``p (1-p) alpha /
    (2-alpha)`` around it; of a value, ``share`` of the range above failure, only what is ``known`` are outcomes.
    """
    p = np.clip(np.asarray(share, np.float64), 0.0, 1.0)
    return math.sqrt(float(np.mean(np.asarray(known) * p * (1.0 - p))) * alpha / (2.0 - alpha))


def one_answer_each(
    score: np.ndarray, value: np.ndarray, newer: Sequence[Sequence[int]], repeated: Set[int]
) -> list[int]:
    """Rows by falling score, without those that stand back for another answer to the same question.

    Args:
        score: of each candidate, ``[N]``.
        value: of each, as a share of the reward range, ``[N]``: of two answers the one with the lower value stands
            back, on a tie the older.
        newer: by candidate, the rows of newer answers to its question; empty: there are none.
        repeated: rows that a newer one repeats: they stand back, so that a lesson has one value.
    """
    beaten, value = set(repeated), np.round(value, _DIGITS)
    for old, rows in enumerate(newer):
        if old not in repeated:
            beaten.update(old if value[new] >= value[old] else new for new in rows if new not in repeated)
    return [i for i in np.argsort(-np.round(score, _DIGITS), kind="stable").tolist() if i not in beaten]


def use_weights(bodies: Sequence[str], action: str | None) -> list[float]:
    """How much each shown body, in the order shown, answers for an action: ``IDLE_WEIGHT`` (not used) to 1.

    Similarity is the overlap (Dice) of word pairs of body and action; the most similar body gets weight 1 and the
    others their share of its overlap. Without an action, or when nothing overlaps, the first gets 1 and what stands
    behind it ``BEHIND_WEIGHT``.
    """
    overlap = _overlaps(bodies, action or "")
    top = max(overlap, default=0.0)
    if top <= 0.0:
        return [BEHIND_WEIGHT if i else 1.0 for i in range(len(bodies))]
    return [IDLE_WEIGHT + (1.0 - IDLE_WEIGHT) * x / top for x in overlap]


def part_rewards(bodies: Sequence[str], parts: Sequence[tuple[str, float]]) -> list[float]:
    """The reward of each shown body: of the parts that took after it, by how much; of all parts where none did."""
    overlap = np.array([_overlaps(bodies, text) for text, _ in parts])  # [parts, bodies]
    none = overlap.sum(0) <= 0.0
    weight = np.where(none, 1.0, overlap)
    return (np.array([reward for _, reward in parts]) @ weight / weight.sum(0)).tolist()


def _overlaps(bodies: Sequence[str], action: str) -> list[float]:
    """Dice overlap of word pairs of an action with each body, 0..1."""
    target = _pairs(action)
    return [2.0 * len(p & target) / (len(p) + len(target)) if p and target else 0.0 for p in map(_pairs, bodies)]


def _pairs(text: str) -> set[tuple[str, str]]:
    words = _WORD.findall(text.lower())
    return {*zip(["", *words], [*words, ""], strict=True)} if words else set()


def _scaled(x_N: np.ndarray, floor: float) -> np.ndarray:
    centred = x_N - x_N.mean()
    return centred / max(float(np.sqrt(np.mean(centred**2))), floor)
