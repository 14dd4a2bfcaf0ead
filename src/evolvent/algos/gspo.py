"""GSPO: GRPO with one importance ratio per attempt, the geometric mean over its tokens.

Paper: Zheng et al. 2025, Group Sequence Policy Optimization (arXiv 2507.18071).

    A_i = (R_i - mean_j R_j) / (std_j R_j + eps)
    s_i = exp( mean_t log(pi(w_t) / pi_old(w_t)) ),     L = - mean_i min(s A, clip(s, 1 - low, 1 + high) A)

A reward is paid to an attempt, so the correction for the policy having moved is that of the attempt; noise of single
tokens averages out. It takes several optimiser steps an update to matter: in the first one every ratio is 1.

Deviations: an attempt of several turns is one sequence. LoRA instead of all weights, and a learning rate that suits it.
The range is a hundred times the published 3e-4 and 4e-4, which are for a mean over thousands of tokens and steps of
1e-6. A step of LoRA at 1e-4 moves the mean over a few tokens by .01 to .09, and bfloat16 alone by .05: within the
published range 54 % of the units were clipped in float32 and 46 % in bfloat16 (75 % without the first step); now it is
4 % and 16 % (arithmetic:largest, 4 updates of 4 steps, one seed, by hand: LOG.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import step_group_std
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import ClippedConfig, Needs, Rule, learn, open_language

PAPER = "arXiv 2507.18071"
LEVELS = ("step",)
STATUS = "lightly tested"
RULE = Rule.of(step_group_std, "group_std", "the return against its group, over the group's spread")


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of GSPO."""

    minibatches: int = 4
    """Minibatches in an epoch: optimiser steps for each pass over the attempts."""
    clip_low: float = 0.03
    """Lower clip range: the ratio of an attempt is clipped below 1 - clip_low."""
    clip_high: float = 0.04
    """Upper clip range: the ratio of an attempt is clipped above 1 + clip_high."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import GSPO

    objective = replace(GSPO, clip_low=config.clip_low, clip_high=config.clip_high)
    with open_language(config, folder, live, resume=resume, needs=Needs(compares=True)) as run:
        return learn(run, "gspo", RULE, objective)
