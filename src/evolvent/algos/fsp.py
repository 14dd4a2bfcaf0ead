"""FSP: fictitious self-play; every new policy is a best response to the mean of all before it.

Papers: Brown 1951, Iterative solution of games by fictitious play; Heinrich, Lanctot and Silver 2015, Fictitious
self-play in extensive-form games (ICML).

    sigma_p = uniform over the members of p, mixed by own reach         pi_p = best response to sigma_-p

It is PSRO with the meta-solver ``uniform``. In zero-sum games of two NashConv falls to 0, slowly, and never gets
there; what the members earn against each other is not needed for it, and is shown.

Deviation: the paper learns responses and means from samples (FQI and supervised learning); here both are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.formulas import meta_games
from evolvent.runs.population.config import PopulationConfig
from evolvent.runs.population.run import open_population

PAPER = "ICML 2015 (Heinrich, Lanctot, Silver)"
LEVELS = ("component",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(PopulationConfig):
    """Settings of FSP."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Grow the populations, and return the summary that stands in ``summary.json``."""
    with open_population(config, folder, live, meta_games.uniform, resume=resume) as population:
        for _ in population.updates():
            mixture = population.judge()
            population.respond([(p, mixture) for p in range(population.game.players)])  # LEARN
            population.match()  # ACT and STEP; CREDIT is what members add, at the end
            population.log()
        return population.finish("fsp")
