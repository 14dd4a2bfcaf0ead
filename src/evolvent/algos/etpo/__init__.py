"""ETPO: soft Q-learning per token, with a KL penalty towards the initial model.

Paper: Wen et al. 2024, Entropy-Regularized Token-Level Policy Optimization for Language Agent Reinforcement,
arXiv 2402.06700.

    softV(o, w^{<j}) = sum_w pi(w) Qslow(o, w^{<j}, w) - beta KL(pi, rho)           rho: the model before training
    j < n:  y_j = softV(o_t, w^{<=j})                         no discount inside an action
    j = n:  y_n = r_t + gamma softV(o_{t+1})
    values  Huber(Q(o, w^{<j}, w^j) - y_j),     policy  KL(pi, rho exp(Q / beta) / Z),     Qslow <- .995 Qslow + .005 Q

The fixed point is ``pi ∝ rho exp(Q / beta)``. Sums run over the tokens that continue an allowed action, or over the
whole vocabulary where any text is allowed.

Deviations: policy and values are adapters on one frozen base, which is rho, and Q is a map of the hidden state onto the
output embeddings that starts at 0 (the published one reads a second language model's logits as values); AdamW without
weight decay for policy and values, with rates for LoRA, instead of Lion at 1e-6; temperature 1 over all tokens and
8 x 4 attempts an update instead of .5 among the 50 likeliest and 8 environments x 2 turns. Where a single token can
follow, its value is what it leads to. The released code averages the policy's loss over the vocabulary without pi and
without rho, and reads the KL inside actions one step late: this is the paper's equation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.credit import token_soft_bellman
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import LanguageConfig, Rule, open_language

PAPER = "arXiv 2402.06700"
LEVELS = ("token",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(LanguageConfig):
    """Settings of ETPO."""

    beta: float = 0.01
    """KL coefficient β towards the initial model, in units of reward per nat."""
    gamma: float = 0.99
    """Discount factor per action."""
    polyak: float = 0.005
    """Soft update rate (Polyak) of the target network of Q, at each step."""
    critic_lr: float = 1e-4
    """Learning rate of Q."""
    huber: float = 10.0
    """Error above which the Huber loss of Q is linear."""
    grad_clip: float = 10.0
    """Gradient norm above which a gradient is scaled down, for the policy and for Q."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.algos.etpo.soft_q_net import SLOW, Q, SoftQ, SoftQConfig

    if config.act != "trie":
        raise BadInput(
            "a soft backup needs a policy over tokens", got=f"--act {config.act}", expected="trie", where="--act"
        )
    rule = token_soft_bellman.Config(beta=config.beta, gamma=config.gamma)
    settings = SoftQConfig(
        beta=config.beta,
        gamma=config.gamma,
        polyak=config.polyak,
        temperature=config.temperature,
        delta=config.huber,
        grad_clip=config.grad_clip,
        micro_tokens=config.plan.micro_tokens,
    )
    with open_language(config, folder, live, resume=resume, others=(Q, SLOW)) as run:
        values = SoftQ(run.model, settings, lr=config.critic_lr)
        run.keep(values=values)
        for _ in run.updates():
            episodes = run.collect()  # ACT and STEP
            with run.clock("credit"):  # CREDIT
                values.note(episodes)
                ledger = token_soft_bellman.assign(episodes, rule)
            with run.clock("learn"):  # LEARN
                metrics = values.learn(
                    episodes,
                    ledger,
                    run.optimizers["policy"],
                    epochs=config.epochs,
                    minibatches=config.minibatches,
                    generator=run.generator,
                )
            run.log(episodes, ledger, **metrics)
        summary = "what the soft backup says the token is worth (a target, not an advantage)"
        return run.finish("etpo", Rule.of(token_soft_bellman, "etpo", summary, rule))
