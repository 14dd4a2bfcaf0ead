"""Clip and Delta: process rewards refined so that more steps do not earn more.

Paper: Gao et al. 2024, On Designing Effective RL Reward at Training Time (arXiv 2410.15115).

    Delta:  q_k = p_k - p_{k+1}, the last step q = p         Clip:  q_k = min(p_k - eta, 0)
    G_t = sum_{k >= t} (r_k + weight q_k),      A_t = G_t - mean_j G_{j,t}
    L   = - mean_tokens min(r A, clip(r, 1 +- eps) A)

Whatever an attempt does after step t, Delta pays it p_t in all; Clip never pays, it only costs. The scores p are the
environment's: ``Turn.info["rewards"] = {"process": number}`` after every decision (``microwave`` tells how far it got).

Deviations: a group at the same turn is the baseline where the paper has a critic; weight and eta are ours. LoRA instead
of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from evolvent.core.folder import RunFolder
from evolvent.credit import step_clip, step_delta
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import Needs, PPOConfig, Rule, learn, open_language

PAPER = "arXiv 2410.15115"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(PPOConfig):
    """Settings of Clip and Delta."""

    how: Literal["delta", "clip"] = "delta"
    """Refinement of the process scores: clip or delta."""
    eta: float = 0.75
    """Threshold of clip: process scores above it earn 0."""
    process_weight: float = 1.0
    """Coefficient of the refined process scores beside the task's reward."""
    process_kind: str = "process"
    """Kind of reward that holds the process scores."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import CLIP_DELTA

    objective = replace(CLIP_DELTA, clip_low=config.clip, clip_high=config.clip)
    weight, kind = config.process_weight, config.process_kind
    summary = "what is still to come, refined scores of steps included"
    rule = Rule.of(step_delta, "delta", summary, step_delta.Config(weight=weight, kind=kind))
    if config.how == "clip":
        rule = Rule.of(step_clip, "clip", summary, step_clip.Config(eta=config.eta, weight=weight, kind=kind))
    with open_language(config, folder, live, resume=resume, needs=Needs(kinds=(kind,), compares=True)) as run:
        return learn(run, "refine", rule, objective)
