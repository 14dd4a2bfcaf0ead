"""AsymRE: REINFORCE with a baseline below the group mean, so that successes count more than failures.

Paper: Arnal et al. 2025, Asymmetric REINFORCE for off-Policy Reinforcement Learning (arXiv 2506.20520).

    A_i = R_i - (mean_j R_j + shift),   shift < 0
    L   = - mean_tokens A log pi(w)

On policy the shift changes nothing in expectation. Off policy (attempts of an older model, several passes) a baseline
above the mean return drives the policy away from all it used to do and collapses it; below, it cannot.

Deviations: LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import step_shift
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import ClippedConfig, Needs, Rule, learn, open_language

PAPER = "arXiv 2506.20520"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of AsymRE."""

    shift: float = -0.1
    """Added to the group mean to form the baseline, in units of reward; below 0 successes count more."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import ASYMRE

    summary, settings = "the return against a baseline below the mean of its group", step_shift.Config(config.shift)
    with open_language(config, folder, live, resume=resume, needs=Needs(compares=True)) as run:
        rule = Rule.of(step_shift, "shift", summary, settings)
        return learn(run, "asymre", rule, ASYMRE)
