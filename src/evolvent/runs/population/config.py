"""Settings of a run that grows populations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evolvent.core.config import at_least
from evolvent.core.errors import BadInput, closest
from evolvent.runs.population.response import RESPONSES


@dataclass(frozen=True)
class PopulationConfig:
    """Settings that every system with populations has."""

    KIND = "population"
    EXTENDABLE = (("iterations", "step"),)

    env: str = "openspiel:kuhn_poker"
    """A game, small enough for tables: openspiel:NAME, or one of `evolvent list envs` that OpenSpiel has, too."""
    seed: int = 0
    """Random seed of plays and matches; exact responses and payoffs draw nothing."""
    response: str = "exact"
    """How a new member is found: exact = a best response to the mixture, by OpenSpiel; ppo or dqn learn one."""
    budget: int = 20_000
    """Moves from which a learned response learns; exact ones need none."""
    iterations: int = 40
    """The most iterations; each adds members to every population."""
    tolerance: float = 0.001
    """Stop where NashConv is below this; without --judge where the gain of the responses surely is (1.96 errors)."""
    judge: bool = True
    """Judge the mixture by NashConv after every iteration; it costs as much as the responses do."""
    plays: int = 0
    """Plays of each new pair of members; 0 = what they earn exactly, from the whole game."""
    more: int = 20
    """Times that as many plays are spent after them, where the meta-game is uncertain; exact payoffs need none."""
    first: Literal["uniform", "pure"] = "uniform"
    """The first member of each player: every legal move alike, or always the first legal move."""
    start: str = ""
    """Run folder whose population this one begins with, in place of a first member."""
    matches: int = 8
    """Plays of the final mixture that are recorded move by move."""
    workers: int | str = 0
    """Where responses, plays and judging are done: 0 = here, N = processes, ray or ray:N = on a Ray cluster."""

    def __post_init__(self) -> None:
        bounds = {"budget": 0, "iterations": 1, "tolerance": 0.0, "plays": 0, "more": 0, "matches": 0}
        at_least(self, bounds, {"matches": 100})
        if self.plays == 1:
            do = "--plays 100"
            raise BadInput(
                "one play says nothing of its error", got=1, expected="0 or 2 and more", where="--plays", do=do
            )
        if self.response not in RESPONSES:
            expected = closest(self.response, RESPONSES)
            raise BadInput("no such response", got=self.response, expected=expected, where="--response")
