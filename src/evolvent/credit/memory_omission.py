"""Omission credit: effect of a memory, from leaving it out at random (our own).

A selected memory is left out with a logged probability. Over the episodes given, its credit is

    lift(m) = [strength prior + n (mean reward when shown - mean reward when left out)] / (strength + n)

where "shown" means handed out, with both means weighted by inverse propensity (self-normalised) and n the precision of
their difference in outcomes: ``formulas.causal.omission_lift``. Every (episode, memory shown) of a valid episode
carries the memory's lift: the part of the outcome that is owed to showing it. Shared credit (``memrl``) gives a useful
memory and its constant companion the same value; this gives the companion 0. The price is the omitted tasks, and
variance: with a 20 % rate and 300 tasks the standard deviation of a lift is about .07 for rewards of 0 and 1.

Needs propensities in the recall nodes. A memory shown with certainty (propensity 1 or not logged) contributes no
contrast and is left out of the estimate: such tasks differ from those where it was at stake. The reward of a use is
the reward to go from the first decision it could influence. Episodes are treated as independent of one another.
A memory that was handed out and then had no place in the prompt is on the side of the shown ones, as chance decided
that: without those, "with it" would mean "where there was room". Records from before it was kept say nothing of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.formulas.causal import ArmSums, omission_lift, push_outcome
from evolvent.formulas.returns import discounted

LEVEL = "memory"
UNBIASED = None


@dataclass(frozen=True)
class Config:
    """Settings of omission credit."""

    prior: float = 0.0
    """Prior mean of a memory's effect, in units of reward."""
    strength: float = 4.0
    """Weight of the prior, as a number of outcomes."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Lift of every memory shown in a valid episode, in units of reward.

    Raises:
        BadInput: a memory was left out without a logged propensity below 1.
    """
    shown: dict[str, ArmSums] = {}
    omitted: dict[str, ArmSums] = {}
    for episode in episodes:
        if not episode.valid:
            continue
        to_go = discounted(episode.rewards_T)
        for use in episode.memory_uses:
            certain, handed_out = use.propensity is None or use.propensity >= 1.0, use.shown or use.dropped
            if certain and not handed_out:
                raise BadInput(
                    "a memory was left out without a propensity",
                    got=use.propensity,
                    expected="the probability below 1 of showing it",
                    where=f"credit.memory_omission, episode {episode.id}, receipt {use.receipt}, memory {use.id}",
                    do="log it: Episode.recall(…, propensity={id: p})",
                )
            if use.propensity is None or certain or use.step >= episode.n_steps:
                continue
            arm, p = (shown, use.propensity) if handed_out else (omitted, 1.0 - use.propensity)
            arm[use.id] = push_outcome(arm.get(use.id, ArmSums()), float(to_go[use.step]), p)
    lift = {
        m: omission_lift(arm, omitted.get(m, ArmSums()), prior=config.prior, strength=config.strength)[0]
        for m, arm in shown.items()
    }
    ledger = Ledger.for_episodes(episodes)
    ledger.set(
        "memory",
        [lift.get(m, config.prior) if e.valid else float("nan") for e in episodes for m in e.shown_memories],
    )
    return ledger
