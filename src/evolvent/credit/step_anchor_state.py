"""Anchor states: z-score of the return within the group, and of each step among visits of the same state (GiGPO).

Paper: Feng et al. 2025 (*Group-in-Group Policy Optimization*, arXiv 2505.10978).

    A_{i,t} = A^E_i + weight A^S_{i,t}
    A^E_i     = (R_i - mean_j R_j) / (std_j R_j + eps)                     over the attempts of the group
    A^S_{i,t} = (G_{i,t} - mean G) / (std G + eps)                         over the attempts that met the same state
    G_{i,t}   = sum_{k >= t} gamma^(k-t) r_{i,k}

A state is what an agent was shown since the decision before, word for word. Where a state is met by one attempt only,
the step has no credit of its own. Biased through both divisions and the discount (cosine 0.86 to 0.97 in the exact
test); without them (``scale = False, gamma = 1``) still a little (0.98 to 0.995), because how much of the own return
remains in a mean depends on how many met the state.

Deviations: an attempt that meets a state several times counts once in its mean and std, with the mean of its returns
there; the paper takes every visit for a member, which lets attempts that go in circles count more. Penalties for
invalid actions belong to the environment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._group import labels, totals, valid_rows
from evolvent.credit._turns import by_turn, turns_to_ledger
from evolvent.formulas.baselines import group_mean, group_std
from evolvent.formulas.returns import discounted

LEVEL = "step"
UNBIASED = False
COMPARES = True


@dataclass(frozen=True)
class Config:
    """Settings of GiGPO's advantage."""

    weight: float = 1.0
    """Coefficient of the advantage among attempts in the same state."""
    gamma: float = 0.95
    """Discount factor per step of the returns compared in one state."""
    scale: bool = True
    """Divide both advantages by their standard deviation (ddof 1)."""
    eps: float = 1e-6
    """Added to the standard deviations, against division by zero."""


CLAIMS = ((Config(weight=0.0, scale=False), "up to scale"), (Config(scale=False, gamma=1.0), False))

_State = tuple[str, str, tuple[str, ...]]


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Credit of every step of the valid episodes, in standard deviations (``scale``) or units of reward."""
    rows = valid_rows(episodes)
    group = labels(episodes, rows)
    to_go_NT = discounted(by_turn(episodes, rows, lambda e: e.rewards_T).T, gamma=config.gamma).T
    adv_NT = np.zeros_like(to_go_NT) + _normalised(totals(episodes, rows), group, config)[:, None]
    met: dict[tuple[_State, int], list[tuple[int, float]]] = {}
    for row, i in enumerate(rows):
        for t, (agent, seen) in enumerate(_states(episodes[i])):
            met.setdefault(((group[row], agent, seen), row), []).append((t, float(to_go_NT[row, t])))
    # one number an attempt and state, then its place among the attempts in that state
    own = np.array([fmean(g for _, g in visits) for visits in met.values()])
    states = [state for state, _ in met]
    mean, spread = group_mean(own, states), group_std(own, states, 1)
    attempts = Counter(states)
    for k, ((state, row), visits) in enumerate(met.items()):
        if attempts[state] > 1:
            for t, g in visits:
                adv_NT[row, t] += config.weight * (g - mean[k]) / (spread[k] + config.eps if config.scale else 1.0)
    return turns_to_ledger(episodes, rows, adv_NT)


def _normalised(x: np.ndarray, group: Sequence[object], config: Config) -> np.ndarray:
    centred = x - group_mean(x, group)
    return centred / (group_std(x, group, 1) + config.eps) if config.scale else centred


def _states(episode: Episode) -> list[tuple[str, tuple[str, ...]]]:
    """Who decided, and what was shown since the decision before on the way to it, for each step."""
    shown: list[tuple[str, ...]] = []
    out: list[tuple[str, tuple[str, ...]]] = []
    for node in episode.nodes:
        before = shown[node.parent] if node.parent >= 0 else ()
        if node.kind == "action":
            out.append((node.agent, before))
            before = ()
        shown.append((*before, node.text) if node.kind == "observation" else before)
    return out
