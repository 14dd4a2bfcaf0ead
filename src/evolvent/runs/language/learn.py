"""From attempts and their credit to the batch of ``learn.tokens.policy_gradient``; its metrics for the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from evolvent.core.ledger import Ledger
from evolvent.runs.language.config import LanguageConfig
from evolvent.runs.language.start import not_whole

if TYPE_CHECKING:
    from evolvent.learn.tokens.batch import TokenBatch, Unit
    from evolvent.learn.tokens.logprobs import ActionLogprobs, TokenLogprobs
    from evolvent.models.language.model import LanguageModel


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
