"""Dr. GRPO: GRPO without its two biases, the division by the standard deviation and by the length.

Paper: Liu et al. 2025, Understanding R1-Zero-Like Training (arXiv 2503.20783).

    A_i = R_i - mean_j R_j                                            on every token of attempt i
    L   = - 1 / (B length) sum_i sum_t min(r A, clip(r, 1 +- eps) A)   B attempts in the step

``length`` is one number for all attempts, the most tokens there can be, so that none counts less for being long. Adam
takes out its scale: it matters beside another term of the loss, and for the clip of the gradient.

Deviations: LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import step_group_mean
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import Needs, PPOConfig, Rule, learn, open_language

PAPER = "arXiv 2503.20783"
LEVELS = ("step",)
STATUS = "tested"
RULE = Rule.of(step_group_mean, "group_mean", "the return against the mean of its group")


@dataclass(frozen=True)
class Config(PPOConfig):
    """Settings of Dr. GRPO."""

    length: int = 3000
    """Length that the summed loss is divided by: the largest number of tokens of an attempt."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import DR_GRPO

    objective = replace(DR_GRPO, clip_low=config.clip, clip_high=config.clip, length=config.length)
    with open_language(config, folder, live, resume=resume, needs=Needs(compares=True)) as run:
        return learn(run, "dr_grpo", RULE, objective)
