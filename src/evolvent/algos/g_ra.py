"""G-RA: rewards for format and conduct count only where the outcome exceeds a threshold (gate).

Paper: Gated Reward Accumulation (arXiv 2508.10548).

    R_i = R_out + 1[R_out > gate] sum_t r_t^low
    A_i = (R_i - mean_j R_j) / (std_j R_j + eps)
    L   = - mean_tokens min(r A, clip(r, 1 +- eps) A)

Added up without a gate, immediate rewards are farmed and the outcome is forgotten. ``kinds`` are levels below the
outcome, the one that matters most first, ``a+b`` for two kinds on one level; each has its gate. The environment pays
them: ``Turn.info["rewards"] = {kind: number}`` (``arithmetic`` tells ``format``).

Deviations: the chain of levels is ours, with one it is the paper's rule. LoRA instead of all weights, and a learning
rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import step_gated
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import Needs, PPOConfig, Rule, learn, open_language

PAPER = "arXiv 2508.10548"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(PPOConfig):
    """Settings of G-RA."""

    kinds: tuple[str, ...] = ("format",)
    """Kinds of reward that are gated, from the level below the outcome downwards; "a+b" puts two on one level."""
    gates: tuple[float, ...] = (0.0,)
    """Thresholds, one for each level: it counts where the reward of the level above (first: the outcome) is larger."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import GATED

    objective = replace(GATED, clip_low=config.clip, clip_high=config.clip)
    rule = step_gated.Config(levels=tuple(tuple(kind.split("+")) for kind in config.kinds), gates=config.gates)
    needs = Needs(kinds=tuple(kind for level in rule.levels for kind in level), compares=True)
    with open_language(config, folder, live, resume=resume, needs=needs) as run:
        gated = Rule.of(step_gated, "gated", "GRPO on the outcome and what it lets through", rule)
        return learn(run, "g_ra", gated, objective)
