"""PSRO: policy-space response oracles; a population grows by best responses to the mixture that a meta-solver finds.

Paper: Lanctot et al. 2017, A unified game-theoretic approach to multiagent reinforcement learning (arXiv 1711.00832);
double oracle (McMahan et al. 2003) where responses and payoffs are exact.

    meta-game   U_p[k_0, k_1, …] = what player p earns where every player plays its member k
    mixture     sigma = solver(U): nash (two, zero-sum), alpha_rank, replicator, projected, uniform (= fsp), last
                (= self_play)
    response    pi_p = best response to sigma_-p, each opponent drawing a member once a play
    stop        NashConv = sum_p [ max u_p(., sigma_-p) - u_p(sigma) ] below --tolerance; where it is not judged, what
                the responses gain, with its error

NashConv is computed by OpenSpiel from the whole game, not in the population. With ``nash`` and exact responses it
reaches 0 in finitely many iterations, though not at every step. With other solvers, with more than two players or
payoffs that do not sum to 0 it need not fall.

Options: ``--rectified`` (Balduzzi et al. 2019, arXiv 1901.08106): each member in the mixture answers only those that
it beats. ``--response ppo`` (or dqn) learns in the seat of a player; what it does greedily is written down for every
information state.

Deviations: payoffs are exact by default; ``--plays`` draws plays, more of them where the meta-game is uncertain (the
paper: a fixed number). The released code of rectified responses is of symmetric games; here a member beats those
against which it earns more than the value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.formulas import meta_games
from evolvent.runs.population.config import PopulationConfig
from evolvent.runs.population.run import Answer, Population, open_population

PAPER = "arXiv 1711.00832"
LEVELS = ("component",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(PopulationConfig):
    """Settings of PSRO."""

    solver: Literal["nash", "alpha_rank", "replicator", "projected", "uniform", "last"] = "nash"
    """What makes a mixture of the payoffs."""
    rectified: bool = False
    """Each member in the mixture gets a response of its own, to those that it beats; two players."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Grow the populations, and return the summary that stands in ``summary.json``."""
    with open_population(config, folder, live, meta_games.SOLVERS[config.solver], resume=resume) as population:
        _check(config, population)
        for _ in population.updates():
            mixture = population.judge()
            population.respond(answers(config, population, mixture))  # LEARN
            population.match()  # ACT and STEP; CREDIT is what members add, at the end
            population.log()
        return population.finish("psro")


def _check(config: Config, population: Population) -> None:
    """What would be refused later is refused at once."""
    players, most = population.game.players, meta_games.PROFILES
    if config.rectified and players != 2:
        do = "leave --rectified out"
        raise BadInput("rectified responses are of games of two", got=f"{players} players", where="--rectified", do=do)
    choices = math.prod(len(own) + config.iterations - population.shell.update for own in population.members)
    if config.solver == "alpha_rank" and choices > most:
        do = f"--iterations {round(most ** (1 / players)) - 1}, or another --solver"
        got = f"{choices:,} joint choices after {config.iterations} iterations"
        raise BadInput("too much for alpha-rank", got=got, expected=f"at most {most:,}", where="--solver", do=do)


def answers(config: Config, population: Population, mixture: meta_games.Mixture) -> list[Answer]:
    """What new members answer: the mixture, or with ``rectified`` what each member of it beats."""
    players = range(population.game.players)
    if not config.rectified:
        return [(p, mixture) for p in players]
    beaten = {p: meta_games.rectified(population.payoffs.mean, mixture, p) for p in players}
    return [(p, [mixture[p], w] if p == 0 else [w, mixture[p]]) for p in players for w in beaten[p]]
