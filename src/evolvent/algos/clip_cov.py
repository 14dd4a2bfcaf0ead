"""Clip-Cov: drops the gradient of a few tokens with high covariance, which would reduce entropy the most.

Paper: Cui et al. 2025, The Entropy Mechanism of Reinforcement Learning (arXiv 2505.22617).

    cov_t = (A_t - mean A) (log pi(w_t) - mean log pi)          over the tokens of a step
    L     = - mean_tokens k min(r A, clip(r, 1 +- eps) A),   A as in GRPO

The change of the entropy is minus the covariance of advantage and log-probability, and few tokens carry most of it.
k = 0 for a share of all tokens drawn at random among those with ``low < cov < high`` that PPO's clip does not cut.

Deviations: some released scripts clip at 1 / 1, that is not at all. At least one token is left out where any is
eligible, as in the released code, whose steps have 10^5 tokens; in a step of 16 that is 6 %, not 2e-4. LoRA instead of
all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import step_group_std
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import Needs, PPOConfig, Rule, learn, open_language

PAPER = "arXiv 2505.22617"
LEVELS = ("step",)
STATUS = "lightly tested"
RULE = Rule.of(step_group_std, "group_std", "the return against its group, over the group's spread")


@dataclass(frozen=True)
class Config(PPOConfig):
    """Settings of Clip-Cov."""

    minibatches: int = 8
    """Minibatches in an epoch: optimiser steps for each pass over the attempts."""
    keep_share: float = 2e-4
    """Share of the tokens of an optimiser step whose gradient is dropped."""
    keep_range: tuple[float, float] = (1.0, 5.0)
    """Range of the covariance (least, most) in which tokens may be dropped."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import CLIP_COV

    low_high = {"clip_low": config.clip, "clip_high": config.clip}
    objective = replace(CLIP_COV, **low_high, keep_share=config.keep_share, keep_range=config.keep_range)
    with open_language(config, folder, live, resume=resume, needs=Needs(compares=True)) as run:
        return learn(run, "clip_cov", RULE, objective)
