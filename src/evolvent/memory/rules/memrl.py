"""MemRL: ranked by z-scores of similarity and value; every memory shown moves towards the outcome.

Paper: MemRL, arXiv 2601.03192: two-phase retrieval, and the single-step update that all its results use.

    score(m) = (1 - weight) z(similarity) + weight z(Q(m))     z over the pool
    Q(m) <- Q(m) + alpha (R - Q(m))                            for each memory m shown

All memories shown together receive the same target: a useful memory and its constant companion cannot be
distinguished (see ``memlift``).

Deviations: a memory that is shown in several recalls of an attempt moves once for each. From table 8 are alpha .3,
weight .5, and a start in the middle of the reward range (0 for rewards of -1 and +1). Ours are k1/k2 10/3 (the table
has 10/5 and 5/3), so that all rules show as many of as many, and the gate, which belongs to the embedder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.formulas.selection import blended
from evolvent.formulas.values import ema
from evolvent.memory.ledger import Known, ledger_of
from evolvent.memory.rule import Candidates, Change, Policy, Ranking, Settled, within

LEVEL = "memory"
UNBIASED = None


@dataclass(frozen=True)
class Config(Policy):
    """Settings of MemRL."""

    name: str = "memrl"
    weight: float = 0.5
    """Weight of the value in the score: 0 = similarity only, 1 = value only."""
    alpha: float = 0.3
    """Learning rate of the value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, 0.0, 1.0, "weight", "alpha")


def rank(config: Config, pool: Candidates) -> Ranking:
    """By the blend; ties go to the more similar, then to the older."""
    return blend(pool, config.weight)


def blend(pool: Candidates, weight: float) -> Ranking:
    """Scores ``(1 - weight) z(similarity) + weight z(value)``."""
    chosen, score, z_sim, z_q = blended(pool.ids, pool.relevance, pool.share_N, k=pool.k, weight=weight)
    return Ranking(score, z_sim, z_q, best=chosen.tolist())


def credit(config: Config, settled: Settled) -> list[Change]:
    """Every shown memory moves towards the reward by the same step."""
    r, made = settled.reward, []
    for m in settled.used:
        q = settled.values[m].value.q
        made.append(Change(m, "shown", q, ema(q, r, config.alpha), r, step=config.alpha))
    return made


def assign(episodes: Sequence[Episode], config: Config = Config(), known: Known = Known()) -> Ledger:
    """Change of value of every memory shown in a valid episode, in units of reward; see ``memory/ledger.py``."""
    return ledger_of(credit, episodes, config, known)
