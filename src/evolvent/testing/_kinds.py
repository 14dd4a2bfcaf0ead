"""What the checks put into their episodes for rules that read more than rewards: kinds of reward, an answer, a budget.

All of it is arbitrary on purpose: a function of what was done so far and of nothing that was earned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.reward_kinds import keep_reward

KINDS = ("process", "progress", "format")
YES_OR_NO = ("executed", "compiles", "runs", "correct", "test:a", "test:b", "test:c")


def give_kinds(episode: Episode, number: Callable[[str], float], *, budget: int = 2) -> None:
    """Keep every kind of reward that a rule in ``credit/`` reads, and set ``answer`` and ``budget_tokens``.

    Args:
        episode: that has ended.
        number: an arbitrary number around 0 for a name, always the same.
        budget: tokens granted.
    """
    acted = [node.text for node in episode.nodes if node.kind == "action"]
    so_far = [" ".join(acted[: t + 1]) for t in range(len(acted))]
    for kind in KINDS:
        keep_reward(episode, kind, [number(f"{kind} {past}") for past in so_far])
    for kind in YES_OR_NO:
        keep_reward(episode, kind, [float(number(f"{kind} {past}") > 0) for past in so_far])
    keep_reward(episode, "ratio", [float(np.exp(number(f"ratio {past}"))) for past in so_far])
    keep_reward(episode, "verdict", [float(np.sign(number(f"verdict {past}"))) for past in so_far])
    said = number(f"answer {' '.join(acted)}")
    episode.answer = "" if said > 1.2 else ("yes" if said > 0 else "no")
    episode.budget_tokens = budget


@lru_cache(maxsize=1 << 16)
def arbitrary(seed: int, name: str) -> float:
    """An arbitrary number around 0 for a name, always the same."""
    return float(np.random.default_rng([seed, *name.encode()]).normal())


def embed(texts: Sequence[str]) -> np.ndarray:
    """An arbitrary vector for each text, always the same: ``[N, 4]``."""
    return np.array([np.random.default_rng([4, *text.encode()]).normal(size=4) for text in texts]).reshape(-1, 4)
