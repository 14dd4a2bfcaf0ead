"""Targets of the conservative Bellman backup per token: what follows if the model before training went on (B-Coder).

Paper: Yu et al. 2024, B-Coder (arXiv 2310.03173), eq. 2 and 14.

    y_k = gamma Q(s_{k+1}, w')        w' = argmax rho(. | s_{k+1}),   rho the model before training
    y_K = r                           at the last token: -1 does not compile, -.6 ends with an error, -.3 fails, 1 right

y_k is what Q(s_k, w_k) should be: credit here is a *target*, not an advantage. The backup does not ask which token is
best (that would need values of all tokens at all places) but follows greedy decoding by rho: a contraction by gamma,
whose fixed point is the action value of that policy. Taking the best token by that value does at least as well as
greedy decoding by rho.

Deviations: none in the targets; those of the system stand in ``algos/b_coder/__init__.py``.

Biased as a weight of the policy gradient: a target is no advantage, and grades are not the return (cosine -0.88 to 0.97
on ten random tasks of the exact test with an arbitrary critic). Needs no group, and ``notes["greedy_q"]``, Q(s_k, w')
before each token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._group import to_units, valid_rows
from evolvent.credit._tokens import noted
from evolvent.credit.step_graded_outcome import grade_of
from evolvent.formulas.process_rewards import GRADES

LEVEL = "token"
UNBIASED = False
NEEDS = ("greedy_q", "kind:compiles", "kind:runs", "kind:correct")


@dataclass(frozen=True)
class Config:
    """Settings of B-Coder's targets."""

    gamma: float = 0.999
    """Discount factor per token."""
    grades: tuple[float, float, float, float] = GRADES
    """Rewards of: does not compile, ends with an error, fails a test, passes all."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Target of the action value of every token of the valid episodes, in grades.

    Raises:
        BadInput: no note ``greedy_q`` for every token, or an attempt that lacks one of the three kinds of reward.
    """
    rows = valid_rows(episodes)
    return to_units(episodes, LEVEL, rows, [_targets(episodes[i], config) for i in rows])


def _targets(episode: Episode, config: Config) -> np.ndarray:
    ahead_K = config.gamma * noted(episode, "greedy_q", "credit.token_conservative_bellman")[1:]
    return np.append(ahead_K, grade_of(episode, config.grades))
