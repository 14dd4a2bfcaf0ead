"""NTPO: PPO with every token as a step, discounted like one. The naive baseline of POAD.

Paper: Wen et al. 2024 (arXiv 2405.15821), as the baseline of naive token-level policy optimisation.

    delta_j = gamma V(o, w^{<=j}) - V(o, w^{<j})  inside an action,   r + gamma V(o') - V  at its last token

so what is best depends on how many tokens an action has, and long actions are undervalued. Everything else is ``poad``:
which defaults are published and which are ours, and the deviations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import token_ntpo
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import CRITIC, CriticConfig, Needs, Rule, check_stages, learn, open_language

PAPER = "arXiv 2405.15821"
LEVELS = ("token",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(CriticConfig):
    """Settings of NTPO."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import NTPO

    objective = replace(NTPO, clip_low=config.clip, clip_high=config.clip, entropy=config.entropy)
    settings = token_ntpo.Config(gamma=config.gamma, gae_lambda=config.gae_lambda)
    rule = Rule.of(token_ntpo, "ntpo", "token by token, discount at every token", settings)
    check_stages(config.updates, config.plan.warmup, "--warmup")
    with open_language(config, folder, live, resume=resume, needs=Needs(base=CRITIC)) as run:
        critic = run.critic(config.critic_lr, config.clip)
        return learn(run, "ntpo", rule, objective, critic=critic, kl_stop=config.kl_stop)
