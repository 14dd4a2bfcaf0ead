"""Critic weights: the graded outcome of a program, where a critic foresees it (CodeRL).

Paper: Le et al. 2022, CodeRL (arXiv 2207.01780).

    A_k = p_k (r - baseline)      p_k: the critic's probability, behind token k, of the outcome that came

Tokens that give the outcome away carry its credit; grades and baseline are those of ``step_graded_outcome``, which this
is where p = 1 everywhere. Biased: the grades are not the return, and p_k depends on what came after the token (cosine
-0.63 to 0.56 on ten random tasks of the exact test, where kinds and p have nothing to do with the return).

Needs ``notes["outcome_p"]`` of every token, and the kinds ``compiles``, ``runs`` and ``correct``.

Deviations: those of ``step_graded_outcome``; the critic's stand in ``algos/policy_gradient/foreseen.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit import step_graded_outcome
from evolvent.credit._tokens import pooled, spread_steps

LEVEL = "token"
UNBIASED = False
NEEDS = ("outcome_p", *step_graded_outcome.NEEDS)
Config = step_graded_outcome.Config


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Advantage of every token of the valid episodes, in grades.

    Raises:
        BadInput: no note ``outcome_p`` for every token, or an attempt that lacks a kind of reward.
    """
    ledger, adv_K = spread_steps(episodes, partial(step_graded_outcome.assign, config=config))
    rows, p = pooled(ledger, "outcome_p", "credit.token_outcome_critic")
    adv_K[rows] *= p
    ledger.set(LEVEL, adv_K)
    return ledger
