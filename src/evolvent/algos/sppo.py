"""SPPO: self-play preference learning: log-ratios move towards an attempt's win rate in its group minus one half.

Paper: Wu et al. 2024, Self-Play Preference Optimization for Language Model Alignment (arXiv 2405.00675).

    L = mean_i 1/2 (d_i - (P_i - 1/2) / beta)^2,     d_i = sum over its tokens of log pi - log ref

P is the share of the others of its group that an attempt beats, a tie being half a win; in a recorded pair 1 and 0. The
policy is repeated on its own attempts, update by update; or attempts are recorded (``--pairs``, as in ``dpo``).

Deviations: P is computed from the returns within the group, not by a preference model; every attempt of a group takes
part, not two; the reference stays the first model (released: the policy of the iteration before). With the
published beta of 0.001 a win asks for a move of 500 nats, so the gradient is clipped all the time and the size of a
step is the learning rate's; rates suit LoRA.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import step_win_rate
from evolvent.evaluate.live import Live
from evolvent.runs.language.pairs import attempts, find_pairs
from evolvent.runs.language.system import REFERENCE, ClippedConfig, Needs, Rule, compared, learn, open_language

PAPER = "arXiv 2405.00675"
LEVELS = ("step",)
STATUS = "lightly tested"
RULE = Rule.of(step_win_rate, "win_rate", "how often it beats the others of its group, less one half")


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of SPPO."""

    pairs: str = ""
    """File of attempts: episodes.jsonl of a run, or JSON lines of prompt, chosen, rejected; empty = its own."""
    beta: float = 0.001
    """KL coefficient β: a larger one keeps the policy closer to the reference model."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import SPPO

    objective, pairs = replace(SPPO, beta=config.beta), find_pairs(config.pairs)
    needs = Needs(base=REFERENCE, compares=pairs is None, recorded=pairs is not None)
    with open_language(config, folder, live, resume=resume, needs=needs) as run:
        return learn(run, "sppo", RULE, objective, collect=attempts(run, pairs), after=compared)
