"""A model of preferred attempts, trained by DPO on successes and failures at one task (OPRL, arXiv 2509.19199).

    loss = mean over pairs of - log sigma( f(success) - f(failure) ),     f = beta sum_t log(pi_phi / pi_old)

The reference is the sampling policy. Its log-probabilities are computed like the model's (``reference`` of
``learn.tokens.policy_gradient.improve``), not read from the record. ``credit.token_implicit`` turns them into rewards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.learn.tokens.batch import TokenBatch, token_batch


def success_pairs(episodes: Sequence[Episode]) -> list[tuple[int, int]]:
    """Every (success, failure) pair within a group, as positions; without attempts of unknown success or no tokens."""
    usable = [i for i, e in enumerate(episodes) if e.valid and e.success is not None and e.n_tokens]
    return [
        (i, j)
        for i in usable
        if episodes[i].success
        for j in usable
        if not episodes[j].success and episodes[j].group == episodes[i].group
    ]


def pair_batch(ledger: Ledger, *, constrained: bool) -> TokenBatch:
    """The pairs as a batch for ``learn.preference.objective.Preference``, yet without a reference.

    Args:
        ledger: sides of attempts, a success and a failure in turn: two are a pair; one attempt may be in several.
        constrained: as in ``token_batch``.
    """
    batch = token_batch(ledger.episodes, ledger, level="step", constrained=constrained)
    return replace(batch, units=replace(batch.units, group=batch.units.trajectory // 2))
