"""HAPO: GRPO whose temperature, advantage and clip range depend on the entropy of each token.

Paper: Liu et al. 2025, From Uniform to Heterogeneous (arXiv 2509.16591).

    h   = log-entropy of a token against the .8 quantile, scaled to [-1, 1]
    T_t = T (1 + adapt_temperature h)                                       when sampling
    A   = (R - mean) / std over the *tokens* of the group; A (1 + h) for h > 0 outside the neutral band of ratios
          (1 - eps/2, 1 + eps/2) and for h <= 0 inside it
    low = eps (1 - min(h, 0)),  high = eps (1 + max(h, 0)),   L = mean_tokens PPO(r, A, low, high), at most dual |A|

Deviations: the quantile that sampling needs is that of the update before. h is that of the equations; the released code
divides negative values by their minimum, which turns their sign. Ratios are those of the policy at T, as released. No
weight decay (released .1). LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import step_token_average
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import ClippedConfig, Needs, Rule, learn, open_language

PAPER = "arXiv 2509.16591"
LEVELS = ("step",)
STATUS = "lightly tested"
RULE = Rule.of(step_token_average, "token_average", "the return among all tokens of its group")


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of HAPO."""

    adapt_temperature: float = 0.05
    """How much the temperature varies with the entropy of a token; 0 = constant temperature."""

    clip: float = 0.2
    """Clip range of the probability ratio (PPO's epsilon)."""

    dual: float = 10.0
    """Dual clip: bound on the ratio of a token with a negative advantage."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.algos.hapo.temperature import AdaptiveTemperature
    from evolvent.learn.tokens.objectives_of_papers import HAPO

    objective = replace(HAPO, clip_low=config.clip, clip_high=config.clip, dual=config.dual)
    with open_language(config, folder, live, resume=resume, needs=Needs(tokens=True, compares=True)) as run:
        temperature = AdaptiveTemperature(run.acting, config.adapt_temperature)
        run.keep(temperature=temperature)
        return learn(run, "hapo", RULE, objective, before=temperature.follow)
