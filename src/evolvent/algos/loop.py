"""LOOP: PPO with a leave-one-out baseline, without critic or reference model; for long attempts with tools.

Paper: Chen et al. 2025, Reinforcement Learning for Long-Horizon Interactive LLM Agents (arXiv 2502.01600).

    A_i = R_i - 1/(K-1) sum_{j != i} R_j,         attempts with |A| < drop_below are left out
    L   = - mean_i mean_t min(r A, clip(r, 1 / (1 + eps), 1 + eps) A)

The range is symmetric in the logarithm. The ratio may be that of a token (the best in the paper), of a turn or of the
whole attempt. On its own benchmark the reward is the share of unit tests that pass.

Deviations: a step whose KL exceeds ``kl_stop`` is discarded where the paper ends the pass; no weight decay (released
.01); 8 tasks an update (40) and one optimiser step a pass (minibatches of 32). LoRA of rank 8 on q and v, and a
learning rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from evolvent.core.folder import RunFolder
from evolvent.credit import step_leave_one_out, step_left_out
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import LanguageConfig, Rule, learn, left_out, open_language

PAPER = "arXiv 2502.01600"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(LanguageConfig):
    """Settings of LOOP."""

    group: int = 6
    """Group size: attempts at each task (K)."""
    epochs: int = 2
    """Epochs: passes over the attempts of an update."""
    ratio: Literal["token", "turn", "trajectory"] = "token"
    """Unit of the importance ratio: token, turn (decision) or trajectory (whole attempt)."""
    clip: float = 0.1
    """Clip range of the logarithm of the ratio, symmetric around 0."""
    drop_below: float = 0.01
    """Attempts with an advantage smaller than this in size are not trained on."""
    kl_stop: float = 20.0
    """KL divergence from the sampling policy, in nats, above which an optimiser step is discarded."""
    grad_clip: float = 0.1
    """Gradient norm above which the gradient is scaled down."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import LOOP

    objective = replace(LOOP, ratio=config.ratio, clip_high=config.clip)
    base = partial(step_leave_one_out.assign, config=step_leave_one_out.Config(drop_below=config.drop_below))
    summary, settings = "the return against that of the others", step_left_out.Config(base=base)
    rule = Rule.of(step_left_out, "leave_one_out", summary, settings)
    with open_language(config, folder, live, resume=resume) as run:
        return learn(run, "loop", rule, objective, after=left_out, kl_stop=config.kl_stop)
