"""Agents that act in an environment and learn together."""

from __future__ import annotations

from evolvent import envs
from evolvent.runs.kind import Choice, Kind
from evolvent.runs.team.account import account

KIND = Kind(
    "team",
    "team: agents in environments",
    account,
    envs.TEAM,
    choices=(
        Choice(
            "a team of controlled bodies",
            "a joint policy, or one for each agent",
            "evolvent run mat --env spread:n=3 --steps 200000",
            "marl",
            "8 min for 500,000 steps of simple_spread",
            "no",
            "it learns the games, robots and navigation that were measured (few seeds); random actions are on each "
            "curve",
            "results/marl.md",
        ),
    ),
    needs=("torch", "marl"),
)
