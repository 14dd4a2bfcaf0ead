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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.credit import step_token_average
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import Needs, PPOConfig, Rule, learn, open_language

PAPER = "arXiv 2509.16591"
LEVELS = ("step",)
STATUS = "lightly tested"
RULE = Rule.of(step_token_average, "token_average", "the return among all tokens of its group")


@dataclass(frozen=True)
class Config(PPOConfig):
    """Settings of HAPO."""

    adapt_temperature: float = 0.05
    """How much the temperature varies with the entropy of a token; 0 = constant temperature."""
    dual: float = 10.0
    """Dual clip: bound on the ratio of a token with a negative advantage."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import HAPO

    objective = replace(HAPO, clip_low=config.clip, clip_high=config.clip, dual=config.dual)
    with open_language(config, folder, live, resume=resume, needs=Needs(tokens=True, compares=True)) as run:
        temperature = AdaptiveTemperature(run.acting, config.adapt_temperature)
        run.keep(temperature=temperature)
        return learn(run, "hapo", RULE, objective, before=temperature.follow)


_LEAST = 1e-8


class AdaptiveTemperature:
    """Sets the temperature schedule of ``acting`` from the entropies of the attempts before; part of a checkpoint.

    Source: HAPO (arXiv 2509.16591), ``T (1 + strength h)`` with h as in ``formulas.entropy.relative_entropy``. While a
    token is sampled the quantile of its update is not known, so that of the last update stands in; the first update is
    sampled at T.
    """

    def __init__(self, acting: Any, strength: float, quantile: float = 0.8) -> None:
        self._acting, self.strength, self.quantile = acting, strength, quantile

    def follow(self, episodes: Sequence[Episode]) -> None:
        """Learn the scale of h from attempts with entropies."""
        found = [e.notes["entropy"] for e in episodes if e.valid and "entropy" in e.notes]
        e_K = np.log(np.maximum(np.concatenate([np.zeros(0), *found]), _LEAST))
        if self.strength == 0.0 or not len(e_K):
            return
        pivot = float(np.sort(e_K)[round(self.quantile * (len(e_K) - 1))])
        above, below = max(float(e_K.max()) - pivot, 1e-6), max(pivot - float(e_K.min()), 1e-6)
        self.load_state_dict({"pivot": pivot, "above": above, "below": below})

    def state_dict(self) -> dict[str, Any]:
        """The scale."""
        schedule = self._acting.temperature_schedule
        return {} if schedule is None else {"pivot": schedule.pivot, "above": schedule.above, "below": schedule.below}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        from evolvent.models.language.model import TemperatureSchedule

        self._acting.temperature_schedule = TemperatureSchedule(self.strength, **state) if state else None
