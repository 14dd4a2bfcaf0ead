"""Shapley values of the parts of a workflow, from runs with some of them switched off or replaced.

Paper: ShapleyFlow / CapaBench, arXiv 2502.00510 (a coalition = the slots that use the model under test).

    phi_i = sum_{S without i} |S|! (n-|S|-1)! / n! [v(S + i) - v(S)]

where v(S) is the mean of the runs with exactly the components S. Without ``reference`` a component is in S where it
ran. With it every slot always runs, as in the paper, and is in S where its implementation is not the one of reference.

Every (episode, component) of a valid episode carries the component's value, or 0 where it is not in S, so an episode
with all of them sums to v(all) - v(none). Within one group of comparable episodes (``group``, or the whole list where
none is named) every coalition of the components seen must have been run: a missing one is an error, never 0. With
``missing="orders"`` it is enough that some orders of the components were run as wholes
(``formulas.coalitions.antithetic_orders``).

Deviations: the released scripts weight every coalition equally, which is the Banzhaf value, and keep the best of
several runs; here the weights are Shapley's (``index="banzhaf"`` for comparison) and runs are averaged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.core.nodes import USAGE
from evolvent.formulas import coalitions

LEVEL = "component"
UNBIASED = None
_INDICES = {
    "shapley": coalitions.shapley,
    "banzhaf": coalitions.banzhaf,
    "leave_one_out": coalitions.leave_one_out,
    "first_in": coalitions.first_in,
}


@dataclass(frozen=True)
class Config:
    """Settings of component credit."""

    index: Literal["shapley", "banzhaf", "leave_one_out", "first_in"] = "shapley"
    """Shapley values sum to the gain; Banzhaf values are what the released scripts compute; what is lost without a
    component; what it adds alone."""
    of: Literal["reward", "prompt", "cached", "completion", "seconds", "cost_usd"] = "reward"
    """What is shared out: the return, or what the decisions took (``core.nodes.USAGE``)."""
    reference: Mapping[str, str] = field(default_factory=dict[str, str])
    """Implementation that stands for absence, by component; empty = components are absent where they did not run."""
    missing: Literal["refuse", "orders"] = "refuse"
    """Where a coalition was never run: refuse, or the mean over all orders whose coalitions were."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Value of every component that ran in a valid episode, in units of what is shared out.

    Raises:
        BadInput: a coalition of the components of a group was never run (or no order was, with ``missing="orders"``);
            too many of them; a component that ran in two implementations, or is not in ``reference``; an episode that
            does not say what it took.
    """
    worth: dict[str, dict[frozenset[str], list[float]]] = defaultdict(lambda: defaultdict(list))
    present = [_present(e, config.reference) if e.valid else frozenset[str]() for e in episodes]
    for e, there in zip(episodes, present, strict=True):
        if e.valid:
            worth[e.group][there].append(_number(e, config.of))
    phi: dict[tuple[str, str], float] = {}
    for group, runs in worth.items():
        players = sorted(frozenset[str]().union(*runs))
        if players:
            values = _values(players, {s: fmean(r) for s, r in runs.items()}, config)
            phi.update({(group, name): float(x) for name, x in zip(players, values, strict=True)})
    ledger = Ledger.for_episodes(episodes)
    ledger.set(
        "component",
        [
            (phi[e.group, name] if name in there else 0.0) if e.valid else float("nan")
            for e, there in zip(episodes, present, strict=True)
            for name in e.components
        ],
    )
    return ledger


def _present(e: Episode, reference: Mapping[str, str]) -> frozenset[str]:
    if not reference:
        return frozenset(e.components)
    ran = dict(e.implementations)
    if len(ran) < len(e.implementations) or not ran.keys() <= reference.keys():
        raise BadInput(
            "a component in two implementations, or one without a reference",
            got=e.implementations,
            expected=f"one implementation each of {sorted(reference)}",
            where=f"Episode {e.id}",
        )
    return frozenset(name for name, implementation in ran.items() if implementation != reference[name])


def _number(e: Episode, of: str) -> float:
    if of not in USAGE:
        return e.total_reward
    taken = e.usage[of]
    if taken is None:
        raise BadInput(
            f"not every decision says its {of}", got=f"Episode {e.id}", where="component_shapley", do="Episode.spend"
        )
    return taken


def _values(players: Sequence[str], worth: Mapping[frozenset[str], float], config: Config) -> np.ndarray:
    if config.missing == "orders" and len(worth) < 1 << len(players):
        if config.index != "shapley":
            raise BadInput("needs all coalitions", got=config.index, expected="shapley", where="component_shapley")
        bit = {name: 1 << i for i, name in enumerate(players)}
        return coalitions.shapley_of_measured(
            len(players), {sum(bit[name] for name in s): value for s, value in worth.items()}
        )[0]
    return _INDICES[config.index](coalitions.tabulate(players, worth))
