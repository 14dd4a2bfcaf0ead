"""MemQ: ranked by similarity and value; TD(λ) over the memories that a shown one was made from.

Paper: MemQ, arXiv 2605.08374 (TD(lambda) over the provenance graph).

    score(m) = (1 - weight) similarity + weight Q(m)            epsilon-greedy, above the gate
    d(m0)  = R + gamma Q(m_new) - Q(m0)                         for each memory m0 shown
    dQ(m) += alpha (gamma trace)^depth(m0, m) d(m0)             for m0 and each of its ancestors m

All errors of an outcome use the values before it; the shortest path to an ancestor counts, once per shown memory.
``gamma = 0`` is MemRL's update exactly.

Deviations: the full text and the code were not available; defaults lie inside the ranges of its README (alpha .1-.5,
gamma .3-.8, lambda .5-.9, weight 0-.7, epsilon 0-.1), Q starts at 0 (our reading). The equations are meant for failure
0 and success 1: under another reward range the score takes Q as a share of it, and Q(m_new) counts from failure, so
that a scale of rewards changes nothing. Values are clipped to the reward range, whose upper end is moved away by
``1 / (1 - gamma)``: without it a hub of the graph collects several changes from one outcome and leaves any range. A
memory that is shown in several recalls of an attempt moves once for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.formulas.values import spread_back
from evolvent.memory.ledger import Known, ledger_of
from evolvent.memory.rule import Candidates, Change, Ranking, Settled, reach, within
from evolvent.memory.rules import memrl

LEVEL = "memory"
UNBIASED = None


@dataclass(frozen=True)
class Config(memrl.Config):
    """Settings of MemQ: those of MemRL, and how far credit flows back."""

    name: str = "memq"
    epsilon: float = 0.1
    q_init: float | Literal["low", "middle", "high"] = "low"
    gamma: float = 0.5
    """Discount of the new memory's value, and of credit per link back."""
    trace: float = 0.5
    """λ: decay of credit per link back."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, 0.0, 1.0, "gamma", "trace")


def rank(config: Config, pool: Candidates) -> Ranking:
    """By the weighted sum of relevance and value."""
    return Ranking((1.0 - config.weight) * pool.relevance + config.weight * pool.share_N)


def walk(config: Config) -> tuple[int, bool]:
    """As far as credit matters, past memories of failures too."""
    return reach(config.gamma * config.trace), True


def bounds(config: Config, reward_range: tuple[float, float]) -> tuple[float, float]:
    """The reward range, widened upwards where values bootstrap: what comes of a new memory is added."""
    lo, hi = reward_range
    if config.gamma <= 0.0:
        return lo, hi
    return lo, lo + (hi - lo) / (1.0 - min(config.gamma, 0.99))


def credit(config: Config, settled: Settled) -> list[Change]:
    """The error of each shown memory, spread back over the graph; all from the values before."""
    r, values, used = settled.reward, settled.values, set(settled.used)
    target = r + config.gamma * settled.child_value
    errors = {m: target - values[m].value.q for m in settled.used}
    decay = config.gamma * config.trace
    lo, hi = bounds(config, settled.reward_range)
    made: list[Change] = []
    for m, change in spread_back(errors, settled.depths, alpha=config.alpha, decay=decay).items():
        if m not in used and (change == 0.0 or m not in values):
            continue
        q = values[m].value.q
        # a start outside the bounds stays allowed, leaving them further is not
        q_after = min(max(q + change, min(lo, q)), max(hi, q))
        if m in used:
            made.append(Change(m, "shown", q, q_after, target, step=config.alpha))
        else:
            depth = min(d[m] for d in settled.depths.values() if m in d)
            # a sum of other memories' errors is no step towards a target of its own: step 0
            made.append(Change(m, "ancestor", q, q_after, target, weight=decay**depth, ipw=0.0, depth=depth))
    return made


def assign(episodes: Sequence[Episode], config: Config = Config(), known: Known = Known()) -> Ledger:
    """Change of value of every memory shown in a valid episode, in units of reward; see ``memory/ledger.py``."""
    return ledger_of(credit, episodes, config, known)
