"""Self-play: every new policy is a best response to the newest one alone.

    sigma_p = the newest member of p         pi_p = best response to sigma_-p

It is PSRO with the meta-solver ``last``, and the control for it: where one policy beats another in a circle, as in
rock-paper-scissors or in poker, it goes round and NashConv does not fall.

Source: Samuel 1959 for learning against oneself; Balduzzi et al. 2019 (arXiv 1901.08106) for why it goes round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.formulas import meta_games
from evolvent.runs.population.config import PopulationConfig
from evolvent.runs.population.run import open_population

PAPER = "arXiv 1901.08106"
LEVELS = ("component",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(PopulationConfig):
    """Settings of self-play."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Grow the populations, and return the summary that stands in ``summary.json``."""
    with open_population(config, folder, live, meta_games.last, resume=resume) as population:
        for _ in population.updates():
            mixture = population.judge()
            population.respond([(p, mixture) for p in range(population.game.players)])  # LEARN
            population.match()  # ACT and STEP; CREDIT is what members add, at the end
            population.log()
        return population.finish("self_play")
