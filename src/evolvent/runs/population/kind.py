"""A population of policies for each player of a game."""

from __future__ import annotations

from evolvent.core.folder import RunFolder
from evolvent.runs.kind import Choice, Kind
from evolvent.runs.population.account import account


def _instead(folder: RunFolder) -> str:
    return f"NashConv there is of the whole game; {folder.path}/mixture.json is the policy"


KIND = Kind(
    "population",
    "populations: policies of a game, grown by best responses",
    account,
    envs="game",
    instead=_instead,
    choices=(
        Choice(
            "a game of two or more players that fits into tables: small poker, a matrix, one of OpenSpiel",
            "policies: each a best response to a mixture of the earlier ones; nothing is trained",
            "evolvent run psro",
            "games",
            "2 s on one core; Leduc poker, 120 iterations, 1 to 3 minutes",
            "no",
            "an equilibrium of Kuhn poker in 6 iterations, and a page that shows who beats whom; `fsp` and `self_play` "
            "are the controls",
            "populations.md",
        ),
    ),
    needs=("pyspiel", "games"),
)
