"""A population of policies for each player of a game."""

from __future__ import annotations

from evolvent.core.folder import RunFolder
from evolvent.runs.kind import Choice, Kind
from evolvent.runs.population.account import account


def _instead(folder: RunFolder) -> str:
    return f"the run judged its mixture by NashConv: {folder.path}/summary.json; mixture.json is the policy"


KIND = Kind(
    "population",
    "populations: policies of a game, grown by best responses",
    account,
    envs="game",
    instead=_instead,
    choices=(
        Choice(
            "a game of two or more players",
            "policies: best responses to a mixture of earlier ones",
            "evolvent run psro",
            "games",
            "not measured yet",
            "no",
            "not measured yet",
            "populations.md",
        ),
    ),
    needs=("pyspiel", "games"),
)
