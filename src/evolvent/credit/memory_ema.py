"""MemRL: every memory that was shown moves its value a step towards the outcome.

Paper: MemRL, arXiv 2601.03192, the single-step update that all its results use.

    Q(m) <- Q(m) + alpha (R - Q(m))        for each memory m shown in the episode

The credit of (episode, memory) is the *change* of value that the episode caused, with the episodes taken in the order
given; so the credits of one memory add up to its final value minus its first. All memories shown together receive the
same target: a useful memory and its constant companion cannot be told apart (see ``memory_omission``).

Deviations: none. A memory recalled several times within an episode is updated once, as the paper updates after the
task has ended. Invalid episodes change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger

LEVEL = "memory"
UNBIASED = None


@dataclass(frozen=True)
class Config:
    """Settings of MemRL's update."""

    alpha: float = 0.3
    """Step size."""
    q_init: float = 0.0
    """Value of a memory not in ``values``; 0 belongs to rewards of -1 and +1 (with 0 and 1 it starves: use 1)."""
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    """Values before the first episode."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Change of value of every memory shown in a valid episode, in units of reward."""
    ledger = Ledger.for_episodes(episodes)
    q = dict(config.values)
    credit: list[float] = []
    for episode in episodes:
        for m in episode.shown_memories:
            before = q.get(m, config.q_init)
            # the step of formulas.values.ema, kept apart from the value so that no rounding comes between them
            change = config.alpha * (episode.total_reward - before) if episode.valid else math.nan
            if episode.valid:
                q[m] = before + change
            credit.append(change)
    ledger.set("memory", credit)
    return ledger
