"""Guided preference: the label of an answer, weighted by a reward model's log-ratio at each token (TGDPO).

Paper: Zhu et al. 2025, TGDPO: Harnessing Token-Level Reward Guidance for Enhancing DPO (arXiv 2506.14574).

    A_k = 1 + alpha beta r_k in the preferred answer,    -(1 - alpha beta r_k) in the other,    r = log pi_rm / pi_ref

so that the margin is ``sum_k A_k log(pi / ref)_k`` and the loss is DPO's of it. Like any label it is no advantage, and
biased as the weight of a policy gradient. The group is that of ``step_preferred``; what is in no pair is not scored.

Needs ``notes["guide"]``, r of every token of the pairs.

Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit import step_preferred
from evolvent.credit._tokens import noted, spread_steps, units_of

LEVEL = "token"
UNBIASED = False
COMPARES = True
LEAVES_OUT = True
NEEDS = ("guide",)


@dataclass(frozen=True)
class Config:
    """Settings of TGDPO's weights."""

    alpha: float = 0.5
    """Coefficient α of the token rewards in the margin."""
    beta: float = 0.1
    """KL coefficient β of DPO."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Weight of every token of the pairs, with the sign of its answer.

    Raises:
        BadInput: no note ``guide`` for every token of a pair.
    """
    ledger, side_K = spread_steps(episodes, step_preferred.assign)
    for episode, span in zip(episodes, units_of(ledger, LEVEL), strict=True):
        if not np.isnan(side_K[span]).all():
            share = config.alpha * config.beta * noted(episode, "guide", "credit.token_guided")
            side_K[span] = np.where(side_K[span] > 0, 1.0 + share, -(1.0 - share))
    ledger.set(LEVEL, side_K)
    return ledger
