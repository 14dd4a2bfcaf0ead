"""memlift, our own and the default: shown is what promises most, by outcomes where there are some, by nearness else.

    expected(m) = mean(m) (1 - max over m' nearer of kept(m') (1 - exp(-(s(m') - s(m)) / l)))
    kept(m') = min(1, mean(m') / min(P0(m'), mean(m)))
    mean(m) = sum_r p(r) (n0 P(m) + sum_{j<=r} c_j R_j) / (n0 + sum_{j<=r} c_j),   c_j = w_j exp(-|s_j - s(m)| / l)
    P(m) = (strength P0(m) + sum_j b_j R_j) / (strength + sum_j b_j),   b_j = w_j exp(-|s_j - s(m)| / 2 l)

The success of showing a memory has a posterior mean. Before any outcome it is the track record of its source (``P0``).
Each of its newest outcomes ``R_j`` counts by how much of it the memory answers for (``w_j``), and less where the task
there was another one (``s_j``: its cosine to that task), the less so for its own record, which takes the place of its
source's. What is nearer to the task (cosine ``s``) leaves the less to expect of a memory the farther that is: what
helped at many tasks does not stand before what was said about this one. But it does so only as far as it has kept what
was expected of it, or does as well as the farther one: what is nearer and fails gives way.

Answers change: ``p(r)`` is the posterior probability that its success rate has been the same for ``r`` outcomes and was
another one before; before the j-th it may have changed with probability ``w_j hazard``, so that failures of others do
not look like a change of its own. The k that promise most are shown, of equals the nearest, then the newest; what
promises less than ``hide`` of the best is not. Of two answers to one question (a key), one that was used there and only
failed is not shown where the other promises more (it less than ``outdone`` of that): a model that reads both takes
either, or makes a third of them.

``w`` is the share of the action that it explains and none that is more like the action, if that is known (what was used
behind the first answers for half of a failure), else 1 for the first in the prompt and ½ for the others; and of those
that were not used behind the first, less where the first was the likelier to succeed or to fail: with values ``q`` at
the recall, of a success ``q / q_first``, of a failure ``(1 - q) / (1 - q_first)``, at most 1.

Where ``omit`` is above 0, selected memories but the best are left out with a logged probability, so that what each adds
can be distinguished from what came with it (``memory/lift.py``); what is shown to harm by that is withheld.
docs/memlift.md says what was measured; ``credit/memory_omission.py`` gives that lift as a ledger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.formulas.values import ema, mean_since_change
from evolvent.memory import lift
from evolvent.memory.ledger import Known, ledger_of
from evolvent.memory.rule import Candidates, Change, Id, Policy, Ranking, Settled, start_value, within

LEVEL = "memory"
UNBIASED = None
SOURCES = BODIES = HISTORY = True
# settings of older receipts that mean nothing any more: settling one of them changes what it changed, but for these
RETIRED = frozenset({"gamma", "trace", "boost", "weight", "trust", "spread_floor", "decay", "discount"})
# decimals of expected success that count: what is equal on one scale of rewards differs in its last bits on another
_DIGITS = 9
# nothing is held to succeed less often, or to fail
_LEAST = 0.02
_TINY = 1e-12


@dataclass(frozen=True)
class Config(Policy):
    """Settings of memlift, chosen in random worlds and judged in others (docs/memlift.md)."""

    name: str = "memlift"
    q_init: float | Literal["low", "middle", "high"] = "high"
    prior_n0: float = 3.0
    """Weight of what is expected before any outcome, as a number of outcomes."""
    length: float = 0.25
    """Difference in relevance over which falls to 37 % what an outcome says, and what is left to expect beside a nearer
    memory that keeps what was expected of it; 1 is from the gate to a cosine of 1."""
    hazard: float = 0.1
    """Probability, before an outcome that is all a memory's own, that its answer has changed (Adams and MacKay
    2007)."""
    hide: float = 0.2
    """What promises less than this share of the best is not shown."""
    outdone: float = 0.8
    """What was used at the task of its key and only failed, and promises there less than this share of another under
    the key, is not shown."""
    strength: float = 4.0
    """Weight of a start at ``q_init`` beside the track record of a source, as a number of tried memories, and of that
    beside a memory's own outcomes, as a number of them."""
    alpha: float = 0.3
    """Least learning rate of the value."""
    omit: float = 0.0
    """Probability of leaving out a selected memory, to measure what it adds; not the best one; falls as ``omit n0 / (n0
    + omissions)``."""
    omit_n0: float = 20.0
    """Omissions after which the omission probability has halved."""
    omit_harmful: float = 0.9
    """Probability of leaving out a memory that is shown to harm; a frozen recall never shows it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, 0.0, 1.0, "hazard", "hide", "outdone", "alpha", "omit", "omit_harmful")
        within(self, 0.0, np.inf, "prior_n0", "length", "omit_n0", "strength", inside=True)
        for name, why in (("omit", "shows"), ("omit_harmful", "shows"), ("hazard", "remembers")):
            if getattr(self, name) >= 1.0:
                raise BadInput(
                    f"{name} of 1 {why} nothing",
                    got=getattr(self, name),
                    expected="below 1",
                    where=f"policy {self.name!r}",
                    code="bad_policy",
                )


# ------------------------------------------------------------------------------------------------------------- rank
def rank(config: Config, pool: Candidates) -> Ranking:
    """By expected success, of equals the nearest, then the newest; says with what probability each is left out."""
    lo, hi = pool.reward_range
    share_N = np.round(expected(config, pool), _DIGITS)
    order = sorted(range(len(share_N)), key=lambda i: (-share_N[i], -pool.relevance[i], -pool.ids[i]))
    outdone = _outdone(config, pool)
    order = [i for i in order if i not in outdone][: pool.k]
    best = [i for i in order if share_N[i] >= config.hide * share_N[order[0]]]
    effects = [lift.marginal(*row.value.arms, pool.reward_range) for row in pool.rows]
    harmful = frozenset(i for i, effect in enumerate(effects) if effect.harms)
    withheld = 1.0 if pool.frozen else config.omit_harmful
    # nothing is left out before an outcome came: where nobody settles, there is nothing to measure
    rates = [
        lift.omission_rate(row.value.n_omitted, rate=config.omit, n0=config.omit_n0)
        if row.value.n and not pool.frozen
        else 0.0
        for row in pool.rows
    ]
    return Ranking(
        share_N,
        value=lo + (hi - lo) * share_N,
        best=best,
        harmful=harmful,
        effects=effects,
        omit=[withheld if i in harmful else rate for i, rate in enumerate(rates)],
        omit_first=[withheld if i in harmful else 0.0 for i in range(len(rates))],
    )


def _outdone(config: Config, pool: Candidates) -> set[int]:
    """Rows that were used at the task of their own key and only failed, where another under that key promises more.

    The other must not have failed there, too, and what the agent did must have been told: what was read together says
    little about either.
    """
    under: dict[str, list[int]] = {}
    for i, row in enumerate(pool.rows):
        under.setdefault(row.key, []).append(i)
    found = set[int]()
    for key, rows in under.items():
        if not key or len(rows) < 2:
            continue
        at_key = {i: _mean(config, pool, i, 1.0) for i in rows}
        won = {i: _won(config, pool, i) for i in rows}
        best = max((at_key[i] for i, share in won.items() if share is None or share >= 0.5), default=0.0)
        found |= {i for i in rows if won[i] == 0.0 and at_key[i] < config.outdone * best}
    return found


def _won(config: Config, pool: Candidates, i: int) -> float | None:
    """The share of successes among its outcomes at the task of its key; ``None``: less than one of a note behind."""
    lo, hi = pool.reward_range
    past, length = [p for p in pool.history.get(pool.ids[i], ()) if p.told], _length(config)
    counts = [p.weight * math.exp(-abs(p.relevance - 1.0) / length) for p in past]
    if sum(counts) < lift.BEHIND_WEIGHT:
        return None
    return sum(c * (p.reward - lo) / (hi - lo) for c, p in zip(counts, past, strict=True)) / sum(counts)


def _length(config: Config) -> float:
    """The length in units of relevance."""
    return config.length * (1.0 - max(0.0, config.gate or 0.0))


def expected(config: Config, pool: Candidates) -> np.ndarray:
    """Expected success of showing each candidate, as a share of the reward range: float64 ``[N]``."""
    s_N = np.asarray(pool.relevance, np.float64)
    start_N = np.array([_start(config, pool, i) for i in range(len(s_N))])
    mean_N = np.array([_mean(config, pool, i, here) for i, here in enumerate(s_N.tolist())])
    length, left = _length(config), list[float]()
    for here, mean in zip(s_N, mean_N, strict=True):
        apart_N = -np.expm1(np.minimum(0.0, here - s_N) / length)  # 0 for what is not nearer
        kept_N = np.minimum(1.0, mean_N / np.maximum(_TINY, np.minimum(start_N, mean)))
        left.append(mean * (1.0 - np.max(kept_N * apart_N)))
    return np.array(left)


def _start(config: Config, pool: Candidates, i: int) -> float:
    """What is expected of a candidate before any outcome: the value it was given, or the record of its source."""
    lo, hi = pool.reward_range
    row = pool.rows[i]
    if row.q_given:
        return (row.q_init - lo) / (hi - lo)
    start = (start_value(config, pool.reward_range) - lo) / (hi - lo)
    tried, realised = pool.sources.get(row.source, (0.0, 0.0))
    return lift.source_prior(start, (realised - tried * lo) / (hi - lo), tried, config.strength)


def _mean(config: Config, pool: Candidates, i: int, here: float) -> float:
    """Posterior mean of the success of a candidate at a task to which its relevance is ``here``."""
    lo, hi = pool.reward_range
    length, past = _length(config), pool.history.get(pool.ids[i], ())
    won = [min(1.0, max(0.0, (p.reward - lo) / (hi - lo))) for p in past]
    close = [math.exp(-abs(p.relevance - here) / (2.0 * length)) for p in past]
    around = [p.weight * c for p, c in zip(past, close, strict=True)]
    own = sum(c * share for c, share in zip(around, won, strict=True))
    return mean_since_change(
        config.prior_n0 * lift.source_prior(_start(config, pool, i), own, sum(around), config.strength),
        config.prior_n0,
        [b * c for b, c in zip(around, close, strict=True)],
        won,
        [p.weight * config.hazard for p in past],
    )


def bars(config: Config, pool: Candidates) -> np.ndarray:
    """What seems to fail always takes no place from others: bool ``[N]``.

    Its own outcomes say so, or of a memory without any, those of its source.
    """
    bar = [
        lift.fails(row.value.n, row.value.sum_r, pool.reward_range)
        if row.value.n or row.q_given
        else lift.fails(*pool.sources.get(row.source, (0.0, 0.0)), pool.reward_range)
        for row in pool.rows
    ]
    return np.array(bar, np.bool_)


# ----------------------------------------------------------------------------------------------------------- credit
def credit(config: Config, settled: Settled) -> list[Change]:
    """Shown memories by how much they were used, omitted ones to their statistics. Nothing else changes.

    What was handed out and dropped counts among the outcomes with it: whether a memory has room is not chance, so only
    handing it out and leaving it out can be compared. Where much is dropped, effects come out smaller, not biased.
    """
    r, values, made = settled.reward, settled.values, []
    lo, hi = settled.reward_range
    success = min(1.0, max(0.0, (r - lo) / (hi - lo)))
    answers_for = _answers_for(settled)
    for m, shown, propensity, dropped in settled.items:
        v = values[m].value
        # only where it might have been left out is there anything to compare with: an outcome under a propensity of 1
        # (best of its pool, alone, frozen) says nothing about the effect, and would bias it if it counted
        ipw = 1.0 / propensity if 0.0 < propensity < 1.0 else 0.0
        if shown:
            won, lost = answers_for[m]
            w = success * won + (1.0 - success) * lost
            step = w * lift.step_size(v.n, config.alpha)
            made.append(Change(m, "shown", v.q, ema(v.q, r, step), r, step, w, ipw))
        elif dropped:
            if ipw:
                made.append(Change(m, "omitted", v.q, v.q, r, weight=0.0, ipw=ipw))
        elif ipw:
            # left out by chance; what was withheld for certain has no counterpart to be compared with
            ipw = 1.0 / (1.0 - propensity)
            made.append(Change(m, "omitted", v.q, v.q, r, ipw=ipw))
    return made


def _answers_for(settled: Settled) -> dict[Id, tuple[float, float]]:
    """How much each shown memory answers for a success, and for a failure: 0 to 1 each."""
    lo, hi = settled.reward_range
    first = settled.first if settled.first is not None else next(iter(settled.used), None)
    rate = {m: (settled.recalled.get(m, settled.values[m].value.q) - lo) / (hi - lo) for m in settled.used}
    rate = {m: min(1.0 - _LEAST, max(_LEAST, share)) for m, share in rate.items()}
    found = {}
    for m in settled.used:
        won = lost = settled.weights[m]
        if m != first and won > lift.BEHIND_WEIGHT:
            # it was used, and may have failed for want of what was not shown: it answers as if its use were not known
            lost = lift.BEHIND_WEIGHT
        elif m != first and first in rate:
            won, lost = won * min(1.0, rate[m] / rate[first]), lost * min(1.0, (1.0 - rate[m]) / (1.0 - rate[first]))
        found[m] = (won, lost)
    return found


def assign(episodes: Sequence[Episode], config: Config = Config(), known: Known = Known()) -> Ledger:
    """Change of value of every memory shown in a valid episode, in units of reward; see ``memory/ledger.py``.

    Where ``known`` has no bodies, the place in the prompt tells how much each was used.

    Raises:
        BadInput: a memory was left out without a logged propensity.
    """
    return ledger_of(credit, episodes, config, known)
