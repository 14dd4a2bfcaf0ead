"""OPMD: policy mirror descent: policy gradient without ratio or clip, also for off-policy attempts.

Paper: Pan et al. 2025, Trinity-RFT (arXiv 2505.17826), online policy mirror descent.

    A_i = R_i - mean_j R_j,   or   R_i - tau log( 1/G sum_j exp(R_j / tau) )
    L   = - mean_tokens A log pi(w) / (1 + tau)

``tau`` (here ``opmd``) is how strongly a new policy is held to the one that sampled. Dividing the loss by 1 + tau is
all that is left of it beside the mean as baseline; Adam takes such a factor out, the clip of the gradient does not.

Deviations: LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from evolvent.core.folder import RunFolder
from evolvent.credit import step_group_mean, step_log_avg_exp
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import ClippedConfig, Needs, Rule, learn, open_language

PAPER = "arXiv 2505.17826"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of OPMD."""

    baseline: Literal["mean", "log_avg_exp"] = "mean"
    """Baseline: mean return of the group, or its log-mean-exp at temperature tau."""
    opmd: float = 1.0
    """Temperature τ, in units of reward: strength of the regularisation towards the sampling policy."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import OPMD

    rule = Rule.of(step_group_mean, "group_mean", "the return against the mean of its group")
    if config.baseline == "log_avg_exp":
        soft = step_log_avg_exp.Config(tau=config.opmd)
        rule = Rule.of(step_log_avg_exp, "log_avg_exp", "the return against a soft maximum over its group", soft)
    with open_language(config, folder, live, resume=resume, needs=Needs(compares=True)) as run:
        return learn(run, "opmd", rule, replace(OPMD, opmd=config.opmd))
