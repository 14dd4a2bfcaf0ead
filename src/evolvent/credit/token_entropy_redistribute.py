"""Entropy redistribution: advantages moved towards uncertain tokens, away from certain ones (HAPO).

Paper: Liu et al. 2025, "From Uniform to Heterogeneous" (HAPO), arXiv 2509.16591; token-level group average and
advantage redistribution.

    A_step from ``step_token_average``: mean and std over the tokens of the group, GRPO where any |A| >= 5
    h_k in [-1, 1]: log-entropy of token k against the .8 quantile of the batch, over the largest above or below it
    A_k = A (1 + h_k)   for h_k > 0 outside the neutral band of ratios (1 - low/2, 1 + high/2), for h_k <= 0 inside it
    A_k = A             otherwise

The ratio is that of the policy under training to the one that sampled: ``notes["new_logp"]`` against ``episode.logp``.
Without that note it is 1, as before the first update: all tokens are inside, certain ones are weakened.

Biased, as its base is and as any weight is that differs from token to token (exact test, batches of one group of two,
ratio 1: cosine 0.86 to 0.998 with the unbiased ``step_leave_one_out`` as base, 0.51 to 0.997 as published). Groups as
the base has them; the quantile pools over all episodes that are given.

Needs ``episode.notes["entropy"]``.

Deviations: the released code divides log-entropies below the pivot by their own minimum, so that certain tokens get a
positive h; this is the equation, ``Config(released=True)`` the code (which changes nothing before the first update).
HAPO's temperature and clip belong to sampler and loss (``learn.tokens.surrogates``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit import step_leave_one_out, step_token_average
from evolvent.credit._tokens import pooled, sampled_logp, spread_steps
from evolvent.formulas.entropy import redistributed, relative_entropy

LEVEL = "token"
SCOPE = "batch"
UNBIASED = False
COMPARES = True
NEEDS = ("entropy",)


@dataclass(frozen=True)
class Config:
    """Settings of HAPO's redistribution."""

    base: Callable[[Sequence[Episode]], Ledger] = step_token_average.assign
    """Credit rule of the steps whose advantage is redistributed."""
    quantile: float = 0.8
    """Quantile of the entropy that separates high from low."""
    low: float = 0.2
    """Lower clip range; half of it is neutral."""
    high: float = 0.2
    """Upper clip range; half of it is neutral."""
    released: bool = False
    """Use the sign of h below the pivot as in the released code."""


CLAIMS = ((Config(base=step_leave_one_out.assign), False),)
_WHERE = "credit.token_entropy_redistribute"


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Redistributed advantage of every token of the valid episodes, in units of the base rule.

    Raises:
        BadInput: no entropies, ``new_logp`` of some episodes only, or what the base rule raises.
    """
    ledger, adv = spread_steps(episodes, config.base)
    rows, entropy = pooled(ledger, "entropy", _WHERE)
    ratio = np.ones(len(rows))
    if any("new_logp" in e.notes for e in episodes if e.valid):
        ratio = np.exp(pooled(ledger, "new_logp", _WHERE)[1] - sampled_logp(ledger, _WHERE)[1])
    h = relative_entropy(entropy, quantile=config.quantile, released=config.released)
    adv[rows] = redistributed(adv[rows], h, ratio, low=config.low, high=config.high)
    ledger.set(LEVEL, adv)
    return ledger
