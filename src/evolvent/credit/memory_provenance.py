"""MemQ: credit flows from a memory that was shown back to the memories it was made from.

Paper: MemQ, arXiv 2605.08374 (TD(lambda) over the provenance graph).

    d(m0)  = R + gamma Q(m_new) - Q(m0)                       for each shown memory m0
    dQ(m) += alpha (gamma trace)^depth(m0, m) d(m0)           for m0 and each of its ancestors m

All errors of an episode use the values before it; the shortest path to an ancestor counts, once per shown memory.
``gamma = 0`` is ``memory_ema`` exactly. The credit of (episode, memory) is the change of value that the episode
caused, the episodes taken in order. Ancestors that were not shown change too but have no address in the ledger of an
episode in which they did not appear: ``changes`` returns every change.

Deviations: the paper's code was not available. Values are not clipped here, so that credits add up (the store clips);
a memory recalled several times within an episode counts once; a memory the episode created enters the values with
``q_init``. Defaults lie inside the ranges the authors give (alpha .1-.5, gamma .3-.8, lambda .5-.9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.formulas.values import backward_credit

LEVEL = "memory"
UNBIASED = None


@dataclass(frozen=True)
class Config:
    """Settings of MemQ's update."""

    alpha: float = 0.3
    """Step size."""
    gamma: float = 0.5
    """Discount of the new memory's value, and of each link back."""
    trace: float = 0.5
    """Trace decay of each link back (lambda)."""
    q_init: float = 0.0
    """Value of a memory not in ``values``; the paper does not say, an optimistic one leaks into every parent."""
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    """Values before the first episode."""
    parents: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Provenance: memory id to the ids shown when it was made."""
    created: Mapping[str, str] = field(default_factory=dict[str, str])
    """Episode id to the memory it created; absent = none."""


def changes(episodes: Sequence[Episode], config: Config = Config()) -> list[dict[str, float]]:
    """Change of every memory's value by each episode, ancestors included; empty for an invalid one."""
    q = dict(config.values)
    out: list[dict[str, float]] = []
    for episode in episodes:
        shown = episode.shown_memories if episode.valid else []
        for m in shown:
            q.setdefault(m, config.q_init)
        child = config.created.get(episode.id)
        change = backward_credit(
            q,
            config.parents,
            shown,
            q.get(child, config.q_init) if child is not None else 0.0,
            episode.total_reward,
            alpha=config.alpha,
            gamma=config.gamma,
            trace=config.trace,
        )
        for m, step in change.items():
            q[m] = q.get(m, config.q_init) + step
        out.append(change)
    return out


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Change of value of every memory shown in a valid episode, in units of reward."""
    ledger = Ledger.for_episodes(episodes)
    by_episode = changes(episodes, config)
    ledger.set(
        "memory",
        [by_episode[i].get(m, float("nan")) for i, e in enumerate(episodes) for m in e.shown_memories],
    )
    return ledger
