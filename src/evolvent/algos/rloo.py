"""RLOO: REINFORCE with a leave-one-out baseline: the mean return of the other attempts at the same task.

Paper: Ahmadian et al. 2024, Back to Basics (arXiv 2402.14740), after Kool et al. 2019.

    R_i = return - kl_reward sum_t log(pi_old(w_t) / ref(w_t))
    A_i = R_i - 1/(G-1) sum_{j != i} R_j
    L   = - mean_i A_i sum_t log pi(w_t)

Unbiased: the baseline does not depend on attempt i. The KL divergence from the model without its adapter is part of the
reward, not of the loss; its log-probabilities are computed in float32, after sampling (``runs.language.notes``). There
is no ratio: with more than one optimiser step an update the later ones are off policy and not corrected.

Deviations: LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.credit import step_leave_one_out
from evolvent.evaluate.live import Live
from evolvent.runs.language.notes import write_divergence
from evolvent.runs.language.system import REFERENCE, ClippedConfig, Needs, Rule, learn, open_language

PAPER = "arXiv 2402.14740"
LEVELS = ("step",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of RLOO."""

    kl_reward: float = 0.05
    """KL coefficient inside the reward, in units of reward per nat; 0 = no KL term and no reference model."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import RLOO

    settings = step_leave_one_out.Config(kinds=("return", "kl") if config.kl_reward else ("return",))
    rule = Rule.of(step_leave_one_out, "leave_one_out", "the return against that of the others", settings)
    needs = Needs(base=REFERENCE if config.kl_reward else "", tokens=config.kl_reward != 0.0)
    with open_language(config, folder, live, resume=resume, needs=needs) as run:

        def away(episodes: list[Episode]) -> dict[str, float]:
            return {"kl_attempt": write_divergence(run, episodes, config.kl_reward) if config.kl_reward else 0.0}

        return learn(run, "rloo", rule, RLOO, before=away)
