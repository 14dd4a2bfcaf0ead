"""memlift, our default: what a memory adds, estimated from leaving it out now and then. Pure functions.

A memory that is always shown beside a useful one earns the same rewards, and an average of rewards cannot tell them
apart. Leaving each selected memory out with a known probability can: the difference between outcomes with and
without it, weighted by the inverse of those probabilities, is its marginal effect.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evolvent.formulas.anytime import Outcomes, less_than
from evolvent.formulas.causal import ArmSums, contrast, omission_lift
from evolvent.formulas.effect import LEAST, e_value, half_width
from evolvent.memory.text import in_units

# prior standard deviation of a marginal effect, as a share of the reward range: most memories matter a little
EFFECT_SPREAD = 0.3
# a shown memory that the action did not use still answers for this share of the outcome
IDLE_WEIGHT = 0.25
# and where nothing tells what was used, what stands behind the first answers for this share: many follow the first
BEHIND_WEIGHT = 0.5
# a harmless memory is ever taken for a harmful one with at most this probability
HARM_LEVEL = 0.05
NO_OUTCOMES = Outcomes(0.0, 0.0)
Range = tuple[float, float]

# kana, Han, Thai and Lao are written without spaces: every character is a word
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\u0e00-\u0eff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W\d{_UNSPACED}][^\W{_UNSPACED}]*|\d+|[^\s\w]")


class Effect(NamedTuple):
    """Marginal effect of showing a memory: ``raw`` estimate, ``confidence`` 0..1 in it, and the posterior spread."""

    raw: float
    confidence: float
    spread: float
    half: float = math.inf  # half-width of the 95 % interval around ``raw``
    e_harm: float = 1.0  # e-value against "it does not harm"

    @property
    def shrunk(self) -> float:
        """Posterior mean under a prior centred on no effect."""
        return self.confidence * self.raw

    def described(self, span: float) -> str:
        """In words: the difference with its interval, or that it is too early to say; rewards span ``span``."""
        if not self.known:
            return "what it adds: too early to say"
        lo, hi = max(-span, self.raw - self.half), min(span, self.raw + self.half)
        return f"adds {in_units(self.raw, span, 2, '+')} [{in_units(lo, span, 2, '+')}, {in_units(hi, span, 2, '+')}]"

    @property
    def harms(self) -> bool:
        """Whether outcomes with it are worse than those without, where chance decided which.

        Recalls look at this all the time, so it is the test that goes with the interval of ``formulas.effect``, which
        stays valid under continuous looking: it is wrong about some ``HARM_LEVEL`` of the harmless memories, ever.
        """
        return self.e_harm >= 1.0 / HARM_LEVEL

    @property
    def known(self) -> bool:
        """Whether the interval, which may be read after every outcome, leaves out no effect."""
        return abs(self.raw) > self.half


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
    gap, n = contrast(shown, omitted)
    found = Effect(gap, confidence, prior * math.sqrt(1.0 - confidence))
    if min(shown.size, omitted.size) < LEAST:
        return found
    width, of_sum = hi - lo, n * variance / (hi - lo) ** 2
    return found._replace(half=width * half_width(of_sum) / n, e_harm=e_value(-n * gap / width, of_sum))


def source_prior(q_init: float, sum_q: float, n: float, strength: float) -> float:
    """What to expect of a memory from a source whose ``n`` tried memories realised ``sum_q`` in all."""
    return (q_init * strength + sum_q) / (strength + n)


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


def fails(n: float, total: float, span: Range) -> bool:
    """Whether ``n`` rewards with this sum, four or more, are within a tenth of the range above failure on average."""
    x = outcomes(n, total, span)
    return x.n >= 4 and x.total <= 0.1 * x.n


def worse(a: Outcomes, b: Outcomes, among: int = 1) -> bool:
    """Whether outcomes ``a`` are worse than ``b``, which was picked from so many, at ``HARM_LEVEL``, whenever asked."""
    return less_than(a, b) >= math.log(among / HARM_LEVEL)


def harms(arms: tuple[ArmSums, ArmSums], span: Range) -> bool:
    """``Effect.harms`` of outcomes with a memory and without it."""
    return marginal(*arms, span).harms


def best_record(records: Sequence[Outcomes]) -> list[int]:
    """Places of the records with the most successes times success rate, at most two of them."""
    worth = [x.total * x.total / x.n if x.n > 0.0 else 0.0 for x in records]
    return sorted(range(len(records)), key=lambda i: (-worth[i], i))[:2]


def use_weights(bodies: Sequence[str], action: str | None) -> list[float]:
    """How much each shown body, in the order shown, answers for an action: ``IDLE_WEIGHT`` (not used) to 1.

    The body that is most like the action (Dice overlap of word pairs) gets weight 1, any other its share of what it has
    of the action and none that is more like it: what a better one explains, such as the words that every answer
    begins with, says nothing of the others. Without an action, or when nothing overlaps, the first gets 1 and what
    stands behind it ``BEHIND_WEIGHT``.
    """
    said, target = [_pairs(body) for body in bodies], _pairs(action or "")
    overlap = [_dice(mine, target) for mine in said]
    best = max(overlap, default=0.0)
    if best <= 0.0:
        return [BEHIND_WEIGHT if i else 1.0 for i in range(len(bodies))]
    have = [mine & target for mine in said]
    most, pairs = len(have[overlap.index(best)]), list(zip(have, overlap, strict=True))
    left = [len(mine.difference(*(theirs for theirs, y in pairs if y > x))) for mine, x in pairs]
    return [IDLE_WEIGHT + (1.0 - IDLE_WEIGHT) * min(1.0, n / most) for n in left]


def part_rewards(bodies: Sequence[str], parts: Sequence[tuple[str, float]]) -> list[float]:
    """The reward of each shown body: of the parts that took after it, by how much; of all parts where none did."""
    said = [_pairs(body) for body in bodies]
    overlap = np.array([[_dice(mine, target) for mine in said] for target in (_pairs(text) for text, _ in parts)])
    none = overlap.sum(0) <= 0.0
    weight = np.where(none, 1.0, overlap)
    return (np.array([reward for _, reward in parts]) @ weight / weight.sum(0)).tolist()


def _dice(a: set[tuple[str, str]], b: set[tuple[str, str]]) -> float:
    """Dice overlap of two sets of word pairs, 0..1."""
    return 2.0 * len(a & b) / (len(a) + len(b)) if a and b else 0.0


def _pairs(text: str) -> set[tuple[str, str]]:
    """Pairs of neighbouring words, the ends of the text among them; none of a text without words."""
    pairs, before = set[tuple[str, str]](), ""
    for found in _WORD.finditer(text.lower()):  # one by one: one call for a megabyte would stop all other threads
        pairs.add((before, before := found.group()))
    return pairs | {(before, "")} if pairs else pairs
