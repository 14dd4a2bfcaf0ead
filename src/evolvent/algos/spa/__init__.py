"""SPA-RL: an estimator splits the outcome over the turns, and PPO learns from these rewards.

Paper: Wang et al. 2025, SPA-RL: Reinforcing LLM Agents via Stepwise Progress Attribution (arXiv 2505.20732).

    estimator:  (sum_t c_t - R)^2,  c_t read behind the last token of turn t
    r'_t = c_t + grounding executed_t,   A_t = GAE of r' with a critic
    L = - mean_tokens min(r A, clip(r, 1 +- eps) A)

Whether an action could be carried out is the environment's to say: ``Turn.info["rewards"]["executed"]``; a choice from
a list of allowed commands counts as carried out.

Deviations: the estimator is an MLP on the frozen base's hidden state and learns along, from each update's attempts
before they are scored; the paper trains it once, on attempts collected before. The released code leaves the last turn
nothing; here the equations. No KL penalty (its weight is not known). LoRA rates for a small model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.core.seeding import seed_tree
from evolvent.credit import step_progress
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import CRITIC, EXECUTED, Needs, PPOConfig, Rule, learn, open_language

PAPER = "arXiv 2505.20732"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(PPOConfig):
    """Settings of SPA-RL."""

    gamma: float = 0.99
    """Discount factor per turn."""
    gae_lambda: float = 0.95
    """λ of GAE."""
    grounding: float = 0.5
    """Reward of an action that could be executed."""
    progress_lr: float = 1e-3
    """Learning rate of the progress estimator."""
    progress_passes: int = 4
    """Epochs of the progress estimator over the attempts of an update, eight optimiser steps each."""
    critic_lr: float = 1e-4
    """Learning rate of the critic."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.algos.spa.progress import ProgressEstimator
    from evolvent.learn.tokens.objectives_of_papers import SPA

    objective = replace(SPA, clip_low=config.clip, clip_high=config.clip)
    settings = step_progress.Config(weight=config.grounding, gamma=config.gamma, gae_lambda=config.gae_lambda)
    rule = Rule.of(step_progress, "progress", "estimated progress of each turn, with a critic", settings)
    needs = Needs(base=CRITIC, kinds=(EXECUTED,) if config.grounding else ())
    with open_language(config, folder, live, resume=resume, needs=needs) as run:
        critic, model, seed = run.critic(config.critic_lr, config.clip), run.model, seed_tree(config.seed, "progress")
        estimator = ProgressEstimator(
            model.states,
            model.width,
            context=model.context,
            lr=config.progress_lr,
            seed=seed % 2**31,
            device=config.plan.device,
        )
        run.keep(critic=critic, progress=estimator)

        def attribute(episodes: list[Episode]) -> dict[str, float]:
            turns = estimator.see(episodes)
            error = estimator.learn(turns, passes=config.progress_passes, minibatches=8, generator=run.generator)
            estimator.write_rewards(turns)
            return {"progress_loss": error}

        return learn(run, "spa", rule, objective, before=attribute, critic=critic)
