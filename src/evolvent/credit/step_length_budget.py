"""Length budgets: a correct answer earns by how well it keeps its token budget (HBPO).

Paper: Lyu et al. 2025 (*Hierarchical Budget Policy Optimization*, arXiv 2507.15844).

    R_i = beta cos(pi max(n, b) / 2L) - alpha max(n - b, 0)   if correct, else 0      n tokens, budget b
    A_i = (mean of R over the attempts with budget b  -  beta cos(pi b / 2L)) + (R_i - mean R) / std R

The attempts at a task are sampled under several budgets. The first part compares a budget with what it could have paid,
the second all attempts with one another (ddof 1; 0 in a group of equal rewards). Biased against the return, which it
does not maximise: it pays for brevity (cosine 0.22 to 0.94 in the exact test). An attempt says ``budget_tokens``; it is
correct when its environment says so, or when its return is above ``correct_above``.

Deviations: none known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.core.reward_kinds import succeeded
from evolvent.credit._group import labels, to_steps, valid_rows
from evolvent.formulas.baselines import group_mean, group_std
from evolvent.formulas.process_rewards import length_budget_reward

LEVEL = "step"
UNBIASED = False
NEEDS = ("budget_tokens",)


@dataclass(frozen=True)
class Config:
    """Settings of HBPO; the paper's budgets are 512, 1024, 2048 and 2560 tokens."""

    alpha: float = 1e-4
    """Penalty per token over the budget."""
    beta: float = 1.0
    """Reward of a correct answer of length 0."""
    limit: int = 4096
    """Largest number of tokens of an answer (L)."""
    correct_above: float | None = None
    """Return above which an attempt counts as correct; None = where the environment reports success."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The advantage of its episode on every step of the valid episodes.

    Raises:
        BadInput: an attempt without a budget, or of unknown success.
    """
    rows = valid_rows(episodes)
    group, budget = labels(episodes, rows), np.array([_budget(episodes[i]) for i in rows], dtype=np.float64)
    length = np.array([episodes[i].n_tokens for i in rows], dtype=np.float64)
    alpha, beta, limit = config.alpha, config.beta, float(config.limit)
    paid = length_budget_reward(length, budget, alpha=alpha, beta=beta, limit=limit)
    correct = np.array([succeeded(episodes[i], config.correct_above) for i in rows], dtype=np.bool_)
    reward = np.where(correct, paid, 0.0)
    most = length_budget_reward(np.zeros_like(budget), budget, alpha=alpha, beta=beta, limit=limit)
    inside = group_mean(reward, list(zip(group, budget.tolist(), strict=True))) - most
    centred, spread = reward - group_mean(reward, group), group_std(reward, group, 1)
    return to_steps(episodes, rows, inside + np.where(spread > 1e-12, centred / np.maximum(spread, 1e-12), 0.0))


def _budget(episode: Episode) -> float:
    budget = episode.budget_tokens
    if budget is None or not budget > 0:
        raise BadInput(
            "the episode has no length budget",
            got=budget,
            expected="Episode.budget_tokens above 0",
            where=f"credit.step_length_budget, episode {episode.id}",
        )
    return float(budget)
