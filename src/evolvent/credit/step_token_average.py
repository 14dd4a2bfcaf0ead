"""Token average: z-score of a return, with mean and deviation over the *tokens* of the group (HAPO).

Paper: Liu et al. 2025 (*From Uniform to Heterogeneous*, arXiv 2509.16591), token-level group average.

    mean, std over the tokens of the group:  mean = sum_j L_j R_j / sum_j L_j
    A_i = (R_i - mean) / (std + eps)         for every step of attempt i, L_j its number of sampled tokens

With a loss that averages over tokens this makes the advantages of a group sum to zero as they are used. Where any |A|
of a group reaches ``limit`` (one short success among long failures), the group falls back to ``step_group_std``.
Biased, for both reasons that bias its parts: the own length in the mean, the own return in the std (cosine 0.78 to 0.99
in the exact test). An attempt without others, or a group of equal returns, gets 0.

Deviations: none here; HAPO's redistribution of the advantage by entropy is a token rule of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._group import labels, to_steps, totals, valid_rows
from evolvent.credit._turns import lengths
from evolvent.formulas.baselines import group_mean, group_z, weighted_mean

LEVEL = "step"
UNBIASED = False
COMPARES = True


@dataclass(frozen=True)
class Config:
    """Settings of HAPO's group average."""

    limit: float = 5.0
    """Largest |A| of a group from which on the group is scored as in GRPO."""
    eps: float = 1e-6
    """Added to the standard deviation, against division by zero."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The advantage of its episode on every step of the valid episodes, in standard deviations.

    Raises:
        BadInput: an attempt whose tokens were not recorded.
    """
    rows = valid_rows(episodes)
    ret, group = totals(episodes, rows), labels(episodes, rows)
    size = lengths(episodes, rows, "credit.step_token_average")
    centred = ret - weighted_mean(ret, size, group)
    adv = centred / (np.sqrt(weighted_mean(centred**2, size, group)) + config.eps)
    extreme = group_mean(np.abs(adv) >= config.limit, group) > 0.0
    return to_steps(episodes, rows, np.where(extreme, group_z(ret, group, eps=config.eps), adv))
