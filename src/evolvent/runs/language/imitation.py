"""Imitation: what all have that learn from what was done well: examples, kept samples, paths that a search found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.runs.language.learn import training_batch, with_shares

if TYPE_CHECKING:
    from evolvent.runs.language.run import LanguageRun


def imitated(episodes: Sequence[Episode]) -> Ledger:
    """Credit 1 for every decision of these attempts: all are examples."""
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", np.ones(ledger.size("step")))
    return ledger


def imitate(
    run: LanguageRun,
    ledger: Ledger,
    *,
    adapter: str = "policy",
    epochs: int = 1,
    minibatches: int = 1,
    distance: bool = True,
) -> dict[str, float]:
    """Make what was done more likely: L = - sum_tokens c log pi / number of tokens, c the credit of the decision.

    With credit 1 (``imitated``) it is the cross-entropy of supervised fine-tuning: a mean over the tokens of an
    optimiser step, whatever row they stand in. Decisions without credit (NaN) are in no sum and no number.

    Args:
        run: whose model learns.
        ledger: attempts and the credit of their decisions, at least 0.
        adapter: whose weights move.
        epochs: passes over these attempts.
        minibatches: optimiser steps of a pass.
        distance: log ``kl_ref``, the divergence from where training began; costs two passes over some of the rows.
    """
    from evolvent.learn.tokens.objectives_of_papers import REINFORCE
    from evolvent.learn.tokens.policy_gradient import improve, reference_kl

    config, plan, away = run.config, run.config.plan, dict[str, float]()
    batch = training_batch(ledger, config, adapter, level="step", unit="token", fresh=0)
    if not len(batch.units):
        return {"untrained": 1.0}
    policy = run.logprobs(adapter)
    if distance and plan.lora_rank:
        base = run.logprobs(run.reference)
        away["kl_ref"] = reference_kl(batch, policy, base, micro_tokens=plan.micro_tokens, which=run.update)
    metrics = improve(
        REINFORCE,
        batch,
        policy,
        run.optimizers[adapter],
        epochs=epochs,
        minibatches=minibatches,
        micro_tokens=plan.micro_tokens,
        grad_clip=config.grad_clip,
        generator=run.generator,
    )
    return away | with_shares(metrics)
