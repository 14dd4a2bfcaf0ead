"""POAD: PPO per token, with GAE that discounts between actions and not inside them.

Paper: Wen et al. 2024, Reinforcing Language Agents via Policy Optimization with Action Decomposition, arXiv 2405.15821.

    j < n:  Q(o, w^{<j}, w^j) = E V(o, w^{<=j})                      no reward, no discount inside an action
    j = n:  Q(o, w^{<n}, w^n) = r + gamma E V(o')                    as the action-level problem has it
    L_pi = mean_t max(-r A, -clip(r, 1 +- eps) A) - c H,   L_V = max((R - V)^2, (R - V_clipped)^2) / 2

so what is best for the token problem is best for the action problem, and search is linear in the length of an action.
The critic is an MLP on the frozen base's hidden state before each token. Its baselines are ``ntpo`` (discount at every
token) and ``twosome`` (one advantage an action).

Those of the released Overcooked script are gamma, lambda, clip, entropy, kl_stop and grad_clip. Ours are the sizes,
``prompts`` times ``group`` whole attempts and one pass of one step (released: 4 x 32 steps, 5 passes of 2 minibatches);
the length of an action, as the environment asks (10 tokens); Adam's epsilon, 1e-8 (1e-5); the weight of the critic's
loss, 1 (.5); and the learning rates, which suit LoRA on a small model (5e-7 and 1e-5 on all weights).

Deviations: actions are sampled token by token inside the allowed ones (``--act trie``), so the ratio starts at 1; the
released code samples whole actions by likelihood a word and trains unconstrained tokens (``--act word`` does that).
Advantages are normalised once an optimiser step, not in each micro-batch. A step is discarded at KL ``kl_stop``; the
critic's is not. The critic makes all its passes before the policy's first (released: both in each minibatch).
``--gae-lambda-inside 1`` (ours) pays the trace between actions only, as the discount is; long actions need it (LOG.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import token_bad
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import (
    CRITIC,
    CriticConfig,
    CriticPlan,
    Needs,
    Rule,
    check_stages,
    learn,
    open_language,
)

PAPER = "arXiv 2405.15821"
LEVELS = ("token",)
STATUS = "tested"


@dataclass(frozen=True)
class PoadPlan(CriticPlan):
    """What the released settings leave open."""

    gae_lambda_inside: float = 0.0
    """λ of GAE between tokens of one action; 0 = the same as --gae-lambda. 1 is ours: see Deviations."""


@dataclass(frozen=True)
class Config(CriticConfig):
    """Settings of POAD."""

    plan: PoadPlan = field(default_factory=PoadPlan)
    """Device, prompts, budgets, evaluations, checkpoints, critic."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import POAD

    objective = replace(POAD, clip_low=config.clip, clip_high=config.clip, entropy=config.entropy)
    settings = token_bad.Config(
        gamma=config.gamma, gae_lambda=config.gae_lambda, gae_lambda_inside=config.plan.gae_lambda_inside or None
    )
    rule = Rule.of(token_bad, "poad", "token by token, discount between actions only", settings)
    check_stages(config.updates, config.plan.warmup, "--warmup")
    with open_language(config, folder, live, resume=resume, needs=Needs(base=CRITIC)) as run:
        critic = run.critic(config.critic_lr, config.clip)
        return learn(run, "poad", rule, objective, critic=critic, kl_stop=config.kl_stop)
