"""KL-Cov: a KL penalty on the few tokens with the highest covariance, instead of PPO's clip.

Paper: Cui et al. 2025, The Entropy Mechanism of Reinforcement Learning (arXiv 2505.22617).

    cov_t = (A_t - mean A) (log pi(w_t) - mean log pi)          over the tokens of a step
    L     = - mean_tokens r A  +  weight |log pi - log pi_old| on the tokens of largest cov,   A as in GRPO

The change of the entropy is minus the covariance of advantage and log-probability, and few tokens carry most of it.
It takes several optimiser steps an update: in the first one nothing has moved and the penalty has no slope.

Deviations: the share is that of the released scripts, the code's default is 2e-4; it is at least one token of a step.
LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import step_group_std
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import ClippedConfig, Needs, Rule, learn, open_language

PAPER = "arXiv 2505.22617"
LEVELS = ("step",)
STATUS = "lightly tested"
RULE = Rule.of(step_group_std, "group_std", "the return against its group, over the group's spread")


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of KL-Cov."""

    minibatches: int = 8
    """Minibatches in an epoch: optimiser steps for each pass over the attempts."""
    kl_cov: float = 0.002
    """Share of the tokens of an optimiser step, those of largest covariance, that get a KL penalty."""
    kl_cov_weight: float = 1.0
    """Coefficient of that KL penalty."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import KL_COV

    objective = replace(KL_COV, kl_cov=config.kl_cov, kl_cov_weight=config.kl_cov_weight)
    with open_language(config, folder, live, resume=resume, needs=Needs(compares=True)) as run:
        return learn(run, "kl_cov", RULE, objective)
