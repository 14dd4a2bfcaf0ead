"""Recorded attempts, from which a policy is learned without acting."""

from __future__ import annotations

from evolvent import envs
from evolvent.runs.kind import Choice, Kind
from evolvent.runs.offline.account import account

KIND = Kind(
    "offline",
    "recorded data: a policy from attempts that somebody made",
    account,
    envs.TEAM,
    choices=(
        Choice(
            "recorded attempts of a robot, a game or a team (Minari, D4RL's columns, your own)",
            "a policy, without acting in the environment while it learns",
            "evolvent run bc --data data/hopper --env gymnasium:Hopper-v5",
            "marl",
            "about a minute for 20,000 gradient steps of Hopper",
            "no",
            "imitation is as good as the data; `iql` and `td3_bc` can do better where they hold good and bad attempts",
            "recorded.md",
        ),
    ),
    needs=("torch", "marl"),
)
