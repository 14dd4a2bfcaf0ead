"""A frozen model that looks ahead."""

from __future__ import annotations

from evolvent import envs
from evolvent.runs.kind import Choice, Kind
from evolvent.runs.search.account import account

KIND = Kind(
    "search",
    "search: a frozen model looks ahead",
    account,
    envs.TASKS,
    choices=(
        Choice(
            "a frozen model that may think longer",
            "a search over its answers, at a budget of tokens",
            "evolvent run search --env game24:shots=4 --model train:smollm2-135m --tasks 24",
            "train",
            "not measured yet",
            "not for 135M; for larger ones, yes",
            "what it finds is only as good as the value that judges it; compare with best_of_n at the same budget",
            "search.md",
        ),
    ),
)
