"""KTO: preference learning without pairs: each attempt is desirable or undesirable.

Paper: Ethayarajh et al. 2024, KTO: Model Alignment as Prospect Theoretic Optimization (arXiv 2402.01306).

    L = mean_i w_i (1 - sigmoid(+-beta (d_i - z))),     d_i = sum over its tokens of log pi - log ref

with + for an attempt that succeeded; z is the mean of d over the optimiser step, at least 0, without gradient. Attempts
are the policy's own, or recorded (``--pairs``, as in ``dpo``).

Deviations: z is estimated from the attempts at hand (released: from mismatched pairs of prompt and answer). LoRA by
default, with the frozen base as reference, and learning rates that suit it (published: 5e-7 on all weights).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import step_wanted
from evolvent.evaluate.live import Live
from evolvent.runs.language.pairs import attempts, find_pairs
from evolvent.runs.language.system import REFERENCE, ClippedConfig, Needs, Rule, compared, learn, open_language

PAPER = "arXiv 2402.01306"
LEVELS = ("step",)
STATUS = "lightly tested"
RULE = Rule.of(step_wanted, "wanted", "+1 for an attempt that succeeded, -1 for another (a side, not an advantage)")


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of KTO."""

    pairs: str = ""
    """File of attempts: episodes.jsonl of a run, or JSON lines of prompt, chosen, rejected; empty = its own."""
    beta: float = 0.1
    """KL coefficient β: a larger one keeps the policy closer to the reference model."""
    wanted: float = 1.0
    """Weight of the loss of desirable attempts (those that succeeded)."""
    unwanted: float = 1.0
    """Weight of the loss of undesirable attempts (the others)."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import KTO

    objective, pairs = (
        replace(KTO, beta=config.beta, weights=(config.wanted, config.unwanted)),
        find_pairs(config.pairs),
    )
    needs = Needs(base=REFERENCE, recorded=pairs is not None)
    with open_language(config, folder, live, resume=resume, needs=needs) as run:
        return learn(run, "kto", RULE, objective, collect=attempts(run, pairs), after=compared)
