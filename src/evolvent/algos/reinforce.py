"""REINFORCE: policy gradient with reward to go and no baseline.

Paper: Williams 1992, Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning.

    A_t = sum_{k >= t} gamma^(k-t) r_k
    L   = - mean_tokens A log pi(w)

There is no ratio: with more than one optimiser step an update the later ones are off policy and not corrected.
``--normalise minibatch`` brings the credit of a step to mean 0 and deviation 1, a baseline of a kind.

Deviations: rewards to go instead of the whole return (the same where an attempt is one decision); the mean over the
tokens of an update, not over its attempts. LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from evolvent.core.folder import RunFolder
from evolvent.credit import step_return_to_go
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import ClippedConfig, Rule, learn, open_language

PAPER = "Williams 1992"
LEVELS = ("step",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of REINFORCE."""

    gamma: float = 1.0
    """Discount factor per decision."""
    normalise: Literal["none", "minibatch"] = "none"
    """Normalise advantages to mean 0 and standard deviation 1: none, or minibatch = in each optimiser step."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import REINFORCE

    objective, settings = replace(REINFORCE, normalise=config.normalise), step_return_to_go.Config(gamma=config.gamma)
    rule = Rule.of(step_return_to_go, "to_go", "what was earned from here on", settings)
    with open_language(config, folder, live, resume=resume) as run:
        return learn(run, "reinforce", rule, objective)
