"""TWOSOME: PPO over whole actions, scored by log-probability per word among those that are allowed.

Paper: Tan et al. 2024, True Knowledge Comes from Practice (arXiv 2401.14151).

    P(a_k | o) = softmax_k( 1/words(a_k) sum_j log pi(w_k^j | o, w_k^{<j}) )
    L_pi = mean_t max(-r A, -clip(r, 1 +- eps) A) - c H,   one ratio, one advantage and one entropy an action

The critic is an MLP on the frozen base's hidden state before the action's first token. It is the action-level
baseline of POAD: ``poad`` says which defaults are those of the released comparison (Overcooked) and which are ours.
TWOSOME's own scripts have entropy .01, 32 minibatches for the policy and 4 for the critic, and a rate that falls.

Deviations: advantages are normalised once an optimiser step, not in each micro-batch; the critic makes all its passes
before the policy's first. Learning rates suit LoRA on a small model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import step_gae
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import CRITIC, CriticConfig, Needs, Rule, Way, check_stages, learn, open_language

PAPER = "arXiv 2401.14151"
LEVELS = ("step",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(CriticConfig):
    """Settings of TWOSOME."""

    act: Way = "word"
    """How whole actions are scored: log-probability per word, per token, or summed."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import TWOSOME

    objective = replace(TWOSOME, clip_low=config.clip, clip_high=config.clip, entropy=config.entropy)
    settings = step_gae.Config(gamma=config.gamma, gae_lambda=config.gae_lambda)
    rule = Rule.of(step_gae, "turn_gae", "action-level PPO: one advantage an action", settings)
    check_stages(config.updates, config.plan.warmup, "--warmup")
    with open_language(config, folder, live, resume=resume, needs=Needs(base=CRITIC, whole=True)) as run:
        critic = run.critic(config.critic_lr, config.clip)
        return learn(
            run,
            "twosome",
            rule,
            objective,
            critic=critic,
            unit="action",
            kl_stop=config.kl_stop,
        )
