"""AEPO: uncertain tokens count more, and a clipped one keeps a gradient.

Paper: Dong et al. 2025, Agentic Entropy-Balanced Policy Optimization (arXiv 2510.14545).

    A_t = A_GRPO (1 + alpha z(H_t))                       z-score of the entropy over the tokens of the update
    L   = - mean_tokens min(r A, clip(r) A),              beyond 1 + eps the bound is (1 + eps) r / sg(r)

Exploring tokens of agents (where to search, which tool) are those of high entropy, and PPO's clip takes their gradient
away first. The value of the loss is PPO's, its gradient is not.

Deviations: the paper also branches attempts at uncertain tokens, within a budget of samples; here every attempt starts
from the task. LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import token_entropy_weight
from evolvent.evaluate.live import Live
from evolvent.learn.objectives_of_papers import AEPO
from evolvent.rollout.language import open_language
from evolvent.rollout.language_config import LanguageConfig
from evolvent.rollout.language_credit import Rule
from evolvent.rollout.language_frozen import evaluate_language

PAPER = "arXiv 2510.14545"
LEVELS = ("token",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(LanguageConfig):
    """Settings of AEPO."""

    alpha: float = 0.2
    """How much a token one standard deviation more uncertain counts."""

    clip: float = 0.2
    """Clip range of the ratio."""

    grad_clip: float = 1.0
    """Largest norm of the gradient."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    objective = replace(AEPO, clip_low=config.clip, clip_high=config.clip)
    rule = token_entropy_weight.Config(alpha=config.alpha)
    with open_language(config, folder, live, resume=resume) as run:
        for _ in run.updates():
            episodes = run.collect()  # ACT and STEP
            with run.clock("credit"):  # CREDIT
                ledger = token_entropy_weight.assign(episodes, rule)
            with run.clock("learn"):  # LEARN
                told = run.improve(objective, episodes, ledger, level="token", grad_clip=config.grad_clip)
            run.log(episodes, ledger, **told)
        summary = "GRPO, times 1 + alpha z(entropy)"
        return run.finish("aepo", Rule("aepo", "token", summary, lambda e: token_entropy_weight.assign(e, rule)))


def evaluate(folder: RunFolder, live: Live, episodes: int | None = None, *, env: str = "") -> dict[str, Any]:
    """Attempt held-out tasks with the newest checkpoint, frozen; ``env`` may be another world."""
    return evaluate_language(Config, folder, live, episodes, env=env)
