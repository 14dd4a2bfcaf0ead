"""GRPO: PPO without a critic; the advantage is the z-score of a return within the attempts at the same task.

Paper: Shao et al. 2024, DeepSeekMath (arXiv 2402.03300), outcome supervision.

    A_i = (R_i - mean_j R_j) / (std_j R_j + eps)        on every token of attempt i
    L   = - mean_i mean_t min(r A, clip(r, 1 +- eps) A) + kl KL(pi || ref),   r = pi(w_t) / pi_old(w_t)

KL is the estimator k3 against the model as training began. Dividing by the spread and averaging over the length of
each attempt bend the gradient (``credit/step_group_std``); ``dr_grpo`` leaves both out.

Deviations: LoRA instead of all weights by default, and learning rates that suit it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import step_group_std
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import REFERENCE, Needs, PPOConfig, Rule, learn, open_language

PAPER = "arXiv 2402.03300"
LEVELS = ("step",)
STATUS = "tested"
RULE = Rule.of(step_group_std, "group_std", "the return against its group, over the group's spread")


@dataclass(frozen=True)
class Config(PPOConfig):
    """Settings of GRPO."""

    kl: float = 0.04
    """Coefficient of the KL penalty towards the reference model; 0 = no penalty."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import GRPO

    objective = replace(GRPO, clip_low=config.clip, clip_high=config.clip, kl=config.kl)
    needs = Needs(base=REFERENCE if config.kl else "", compares=True)
    with open_language(config, folder, live, resume=resume, needs=needs) as run:
        return learn(run, "grpo", RULE, objective)
