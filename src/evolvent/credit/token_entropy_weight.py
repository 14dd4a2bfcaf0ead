"""Entropy weight: any step advantage, multiplied by a weight that grows with the token's entropy (AEPO).

Paper: Dong et al. 2025, "Agentic Entropy-Balanced Policy Optimization" (AEPO), arXiv 2510.14545, as released.

    A_k = A_step(k) (1 + alpha z(H_k))          z over all tokens of the batch, ddof 1

with A of a group rule (GRPO by default) and H the entropy of the policy where token k was sampled, in nats.

Biased, twice: GRPO is, and a weight that differs from token to token pulls the gradient towards uncertain choices
whatever they earned (exact test, batches of one group of two: cosine 0.982 to 0.9995 with the unbiased
``step_leave_one_out`` as base, 0.80 to 0.994 with GRPO, which alone has 0.86 to 0.993). Groups as the base has them;
the z-score pools over all episodes that are given.

Needs ``episode.notes["entropy"]``.

Deviations: none in the advantage; branching (``algos.aepo.branching``) and the clip that keeps a gradient stand
elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit import step_group_std, step_leave_one_out
from evolvent.credit._tokens import pooled, spread_steps
from evolvent.formulas.entropy import z_scores

LEVEL = "token"
SCOPE = "batch"
UNBIASED = False
COMPARES = True
NEEDS = ("entropy",)


@dataclass(frozen=True)
class Config:
    """Settings of AEPO's advantage."""

    base: Callable[[Sequence[Episode]], Ledger] = step_group_std.assign
    """Credit rule of the steps whose advantage is weighted."""
    alpha: float = 0.2
    """Weight of entropy: a token one standard deviation above the mean entropy counts 1 + alpha times."""


CLAIMS = (
    (Config(base=step_leave_one_out.assign, alpha=0.0), True),
    (Config(base=step_leave_one_out.assign), False),
)


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Weighted advantage of every token of the valid episodes, in units of the base rule.

    Raises:
        BadInput: no entropies, or what the base rule raises.
    """
    ledger, adv = spread_steps(episodes, config.base)
    rows, entropy = pooled(ledger, "entropy", "credit.token_entropy_weight")
    adv[rows] *= 1.0 + config.alpha * z_scores(entropy)
    ledger.set(LEVEL, adv)
    return ledger
