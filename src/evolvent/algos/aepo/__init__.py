"""AEPO: attempts branch at turns of high entropy; advantages grow with token entropy; clipped tokens keep a gradient.

Paper: Dong et al. 2025, Agentic Entropy-Balanced Policy Optimization (arXiv 2510.14545).

    whole attempts = floor(G sigmoid((H_task - mean H_turn) / 2)) + 1,    H = entropy of first tokens / log V
    an attempt is tried again after a turn where (u + weight (H_turn - H_task)) (1 - penalty l) >= threshold,
        u uniform, l = turns in a row with branches, up to G attempts in all
    A_t = A_GRPO (1 + alpha z(H_t))                       z-score of the entropy over the tokens of the update
    L   = - mean_tokens min(r A, clip(r) A),              beyond 1 + eps the bound is (1 + eps) r / sg(r)

Exploring tokens of agents (where to search, which tool) are those of high entropy, and PPO's clip takes their gradient
away first. The value of the loss is PPO's, its gradient is not. A branch is an attempt like any other: tokens that
several share are trained on in each of them, with the advantage of each, as published; the model computes them once.

Deviations: the attempt whose entropies decide how many start afresh is one of them (released: a further one, thrown
away); what is left of the budget in the end starts from the task and does not branch. H_task is that of the attempt's
first turn. G is 4 by default (released: 12, 6 of them whole at first). LoRA instead of all weights, and a learning rate
that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import token_entropy_weight
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import Needs, PPOConfig, Rule, learn, open_language

PAPER = "arXiv 2510.14545"
LEVELS = ("token",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(PPOConfig):
    """Settings of AEPO."""

    alpha: float = 0.2
    """Weight of entropy: a token one standard deviation above the mean entropy counts 1 + alpha times."""

    whole: int = 0
    """Attempts that start from the task, not as branches; 0 = by the entropies of the first; ``group`` = all."""
    branch_from: float = 0.5
    """Score above which an attempt branches at a turn."""
    branch_weight: float = 0.2
    """Weight of the entropy gained since the task in the branching score."""
    branch_penalty: float = 0.05
    """Reduction of the branching score for each branch in a row."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.algos.aepo.branching import Branching, collect_branching
    from evolvent.learn.tokens.objectives_of_papers import AEPO

    objective = replace(AEPO, clip_low=config.clip, clip_high=config.clip)
    settings = token_entropy_weight.Config(alpha=config.alpha)
    rule = Rule.of(token_entropy_weight, "aepo", "GRPO, times 1 + alpha z(entropy)", settings)
    branching = Branching(config.whole, config.branch_from, config.branch_weight, config.branch_penalty)
    with open_language(config, folder, live, resume=resume, needs=Needs(tokens=True, compares=True, even=True)) as run:
        return learn(run, "aepo", rule, objective, collect=lambda _: collect_branching(run, branching))
