"""Shapley values of the parts of a workflow, from runs with some of them switched off or replaced.

Paper: ShapleyFlow / CapaBench, arXiv 2502.00510 (a coalition = the slots that use the model under test).

    phi_i = sum_{S without i} |S|! (n-|S|-1)! / n! [v(S + i) - v(S)]

where v(S) is the mean return of the runs with exactly the components S. Every (episode, component) of a valid episode
carries the component's value, so an episode that ran all of them sums to v(all) - v(none). Within one group of
comparable episodes (``group``, or the whole list where none is named) every coalition of the components seen must
have been run: a missing one is an error, never 0.

Deviations: the released scripts weight every coalition equally, which is the Banzhaf value, and keep the best of
several runs; here the weights are Shapley's (``index="banzhaf"`` for comparison) and runs are averaged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.formulas import coalitions

LEVEL = "component"
UNBIASED = None


@dataclass(frozen=True)
class Config:
    """Settings of component credit."""

    index: Literal["shapley", "banzhaf"] = "shapley"
    """Shapley values sum to the gain; Banzhaf values are what the released scripts compute."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Value of every component that ran in a valid episode, in units of reward.

    Raises:
        BadInput: a coalition of the components of a group was never run, or there are more than 20 of them.
    """
    worth: dict[str, dict[frozenset[str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for e in episodes:
        if e.valid:
            worth[e.group][frozenset(e.components)].append(e.total_reward)
    phi: dict[tuple[str, str], float] = {}
    for group, runs in worth.items():
        players = sorted(frozenset[str]().union(*runs))
        if players:
            v = coalitions.tabulate(players, {s: fmean(r) for s, r in runs.items()})
            values = coalitions.shapley(v) if config.index == "shapley" else coalitions.banzhaf(v)
            phi.update({(group, name): float(x) for name, x in zip(players, values, strict=True)})
    ledger = Ledger.for_episodes(episodes)
    ledger.set(
        "component",
        [phi[e.group, name] if e.valid else float("nan") for e in episodes for name in e.components],
    )
    return ledger
