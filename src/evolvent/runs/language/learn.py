"""From attempts and their credit to the batch of ``learn.tokens.policy_gradient``; its metrics for the log.

``imitate`` is what all have that learn from what was done well: examples, kept samples, paths that a search found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.runs.language.config import LanguageConfig
from evolvent.runs.language.start import not_whole

if TYPE_CHECKING:
    from evolvent.learn.tokens.batch import TokenBatch, Unit
    from evolvent.learn.tokens.logprobs import ActionLogprobs, TokenLogprobs
    from evolvent.models.language.model import LanguageModel
    from evolvent.runs.language.run import LanguageRun


def training_batch(
    ledger: Ledger, config: LanguageConfig, agent: str, *, level: str, unit: Unit, fresh: int
) -> TokenBatch:
    """What ``agent`` learns from; in the first ``fresh`` attempts ratios start from the current log-probabilities."""
    from evolvent.learn.tokens.batch import token_batch

    how = {"constrained": config.act == "trie", "truncated": config.plan.truncated}
    batch = token_batch(ledger.episodes, ledger, level=level, unit=unit, **how)
    batch = batch.of_agent(agent) if len(batch.agents) > 1 else batch
    return batch.fresh_until(fresh) if fresh else batch


def logprobs_of(
    model: LanguageModel, adapter: str | None, config: LanguageConfig, unit: Unit
) -> TokenLogprobs | ActionLogprobs:
    """The model with some adapter (``None``: the frozen base): log-probabilities of what a run samples.

    Raises:
        BadInput: whole actions that are not sampled as such.
    """
    from evolvent.learn.tokens.logprobs import ActionLogprobs, TokenLogprobs

    if unit == "token":
        return TokenLogprobs(model, adapter, config.temperature)
    if config.act == "trie":
        raise not_whole()
    return ActionLogprobs(model, adapter, config.temperature, config.act)


def with_shares(metrics: Mapping[str, float]) -> dict[str, float]:
    """Metrics of a learner, with the shares of skipped steps and of clipped units."""
    steps = metrics["updates"] + metrics["discarded"] + metrics["empty"]
    clipped = metrics.get("clip_low", 0.0) + metrics.get("clip_high", 0.0)
    return {**metrics, "skipped": metrics["discarded"] / steps, "clipped": clipped}


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
