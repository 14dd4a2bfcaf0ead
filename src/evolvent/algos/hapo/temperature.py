"""A sampling temperature that follows entropy: warmer where the course forks, cooler where it is clear (HAPO)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.models.language.acting import Acting
from evolvent.models.language.model import TemperatureSchedule

_LEAST = 1e-8


class AdaptiveTemperature:
    """Sets the temperature schedule of ``acting`` from the entropies of the attempts before; part of a checkpoint.

    Source: HAPO (arXiv 2509.16591), ``T (1 + strength h)`` with h as in ``formulas.entropy.relative_entropy``. While a
    token is sampled the quantile of its update is not known, so that of the last update stands in; the first update is
    sampled at T.
    """

    def __init__(self, acting: Acting, strength: float, quantile: float = 0.8) -> None:
        self._acting, self.strength, self.quantile = acting, strength, quantile

    def follow(self, episodes: Sequence[Episode]) -> None:
        """Learn the scale of h from attempts with entropies."""
        found = [e.notes["entropy"] for e in episodes if e.valid and "entropy" in e.notes]
        e_K = np.log(np.maximum(np.concatenate([np.zeros(0), *found]), _LEAST))
        if self.strength == 0.0 or not len(e_K):
            return
        pivot = float(np.sort(e_K)[round(self.quantile * (len(e_K) - 1))])
        above, below = max(float(e_K.max()) - pivot, 1e-6), max(pivot - float(e_K.min()), 1e-6)
        self._acting.temperature_schedule = TemperatureSchedule(self.strength, pivot, above, below)

    def state_dict(self) -> dict[str, Any]:
        """The scale."""
        schedule = self._acting.temperature_schedule
        return {} if schedule is None else {"pivot": schedule.pivot, "above": schedule.above, "below": schedule.below}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self._acting.temperature_schedule = TemperatureSchedule(self.strength, **state) if state else None
