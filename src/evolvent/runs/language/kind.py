"""A language model whose weights are trained, alone or in a workflow of several."""

from __future__ import annotations

from typing import Any

from evolvent import envs
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.runs.kind import Choice, Kind
from evolvent.runs.language.account import account


def evaluate(
    config: type[Any], folder: RunFolder, live: Live, episodes: int | None = None, *, env: str = "", attempts: int = 0
) -> dict[str, Any]:
    """``evaluate_language``; torch is imported where it is called."""
    from evolvent.runs.language.frozen import evaluate_language

    return evaluate_language(config, folder, live, episodes, env=env, attempts=attempts)


KIND = Kind(
    "language",
    "language: weights of a language model",
    account,
    envs.TASKS,
    evaluate,
    choices=(
        Choice(
            "a language model that may be trained",
            "its weights (LoRA, or all of them), with credit down to the token",
            "evolvent run grpo --env arithmetic:largest --lr 5e-4 --kl 0 --updates 20",
            "train",
            "1 min on one core",
            "not for 135M; for larger ones, yes",
            "a small model learns small tasks; what is published here is of a model of 135M parameters",
            "algos/README.md",
        ),
        Choice(
            "a workflow of language agents",
            "one adapter each, or the planner alone",
            "evolvent run marft --env arithmetic:largest --agents solver checker",
            "train",
            "not measured apart",
            "not for 135M; for larger ones, yes",
            "a pair learns what one of them could; that more agents help is not shown here",
            "algos/marft.md",
            ("marft", "flow_grpo"),
        ),
    ),
    needs=("torch", "train"),
)
