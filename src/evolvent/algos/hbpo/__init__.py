"""HBPO: attempts get different token budgets, and rewards that teach how long an answer should be.

Paper: Lyu et al. 2025, Hierarchical Budget Policy Optimization (arXiv 2507.15844).

    R_i = beta cos(pi max(n, b) / 2L) - alpha max(n - b, 0)   if right, else 0        n tokens, budget b
    A_i = (mean of R under budget b - beta cos(pi b / 2L)) + (R_i - mean R) / std R
    L   = - mean_i mean_t min(r A, clip(r, 1 +- eps) A)

The prompt of each attempt states its budget; a group has each budget equally often, held-out tasks have none. An
attempt is right if the environment reports success, whatever its reward, unless ``correct_above`` is set. ``beta`` is
1.

Deviations: the budget is stated below the observation; in the paper the answer begins with it. With G = 4 each budget
has one attempt, the paper has 4. LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import step_length_budget
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import ClippedConfig, Rule, learn, open_language

PAPER = "arXiv 2507.15844"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of HBPO."""

    budgets: tuple[int, ...] = (512, 1024, 2048, 2560)
    """Token budgets; the attempts of a group are spread over them."""
    over_cost: float = 1e-4
    """Penalty per token over the budget (alpha)."""
    limit: int = 4096
    """Largest number of tokens of an attempt (L)."""
    correct_above: float | None = None
    """Return above which an attempt counts as correct; None = where the environment reports success."""

    clip: float = 0.2
    """Clip range of the probability ratio (PPO's epsilon)."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.algos.hbpo.budgets import check_budgets, granted
    from evolvent.learn.tokens.objectives_of_papers import HBPO

    objective = replace(HBPO, clip_low=config.clip, clip_high=config.clip)
    settings = step_length_budget.Config(alpha=config.over_cost, limit=config.limit, correct_above=config.correct_above)
    rule = Rule.of(step_length_budget, "length_budget", "right within the tokens that were granted", settings)
    check_budgets(config.budgets)
    with open_language(config, folder, live, resume=resume) as run:
        return learn(run, "hbpo", rule, objective, collect=lambda _: (run.collect(granted(run, config.budgets)), {}))
