"""A frozen model that makes games, which a browser plays."""

from __future__ import annotations

from evolvent.runs.games.account import account
from evolvent.runs.kind import Choice, Kind

KIND = Kind(
    "games",
    "games: a frozen model makes games that a browser plays",
    account,
    choices=(
        Choice(
            "a model that writes pages, and a browser",
            "lineages of small games, and a memory of ideas, mechanics and failures; the model stays as it is",
            "evolvent run creative_game",
            "llama",
            "not measured yet",
            "no",
            "a real browser judges, in a sandbox; a small model is asked for mechanics of a few lines, templates stand "
            "in; how often its pages play, and whether the values help, has not been measured",
            "algos/creative_game.md",
        ),
    ),
)
