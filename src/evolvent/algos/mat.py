"""MAT: a team as a sequence: an encoder reads all observations, a decoder chooses the actions agent by agent.

Paper: Wen et al. 2022, Multi-Agent Reinforcement Learning is a Sequence Modeling Problem (arXiv 2205.14953).

    A(s, a^1..a^n) = sum_m A^m(s, a^1..a^{m-1}, a^m)          each agent answers to those before it
    L_pi  = - mean_agents sum_parts min(r A, clip(r, 1 +- eps) A),   r = pi(a^m | o^1..o^n, a^1..a^{m-1}) / pi_old
    L_V   = max(H(R - V), H(R - V_clipped)),  one value an agent;   loss = L_pi + L_V - c H

``actor="local"`` is MAT-Dec (actors see their own observation only, the encoder is the critic), ``"encoder"`` acts from
the encoder's output, all agents at once. The defaults are those of the released SMAC script.

Deviations: Huber loss on both sides; time limits are bootstrapped from the observation where the attempt stopped;
value targets are normalised once a rollout and the value head is rescaled with them (``learn.team.value_norm``); acting
caches keys and values and MAT-Dec acts in one pass (same probabilities); entropy is the mean over agents of the sum
over the parts of an action; dead agents may be masked out of attention (``mask_dead``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from evolvent.core.folder import RunFolder
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.learn.losses import clipped_share, clipped_surrogate, masked_mean, normalised, value_loss
from evolvent.learn.team.batch import Batch, View
from evolvent.learn.team.critic import scaled_targets
from evolvent.learn.team.descent import Rows, descend
from evolvent.learn.team.value_norm import ValueNorm
from evolvent.models.team.joint import JointPolicy
from evolvent.runs.team.evaluation import Act
from evolvent.runs.team.frozen import evaluate_team
from evolvent.runs.team.run import TeamConfig, TeamRun, open_team

PAPER = "arXiv 2205.14953"
LEVELS = ("agent", "step")
STATUS = "tested"


@dataclass(frozen=True)
class Config(TeamConfig):
    """Settings of MAT."""

    actor: Literal["decoder", "local", "encoder"] = "decoder"
    """Policy: decoder = agent by agent (MAT), local = MAT-Dec, encoder = all agents at once from the encoder."""
    width: int = 64
    """Embedding width of the transformer."""
    blocks: int = 1
    """Transformer blocks of the encoder and of the decoder."""
    heads: int = 1
    """Attention heads in each block."""
    mask_dead: bool = False
    """Mask dead agents out of attention."""
    epochs: int = 15
    """Epochs over a rollout."""
    minibatches: int = 1
    """Minibatches that a rollout is split into; the actions of one joint step stay together."""
    lr: float = 5e-4
    """Learning rate (Adam, eps 1e-5)."""
    clip: float = 0.05
    """Clip range of probability ratios and of values (PPO's epsilon)."""
    entropy: float = 0.01
    """Coefficient of the entropy bonus."""
    grad_clip: float = 10.0
    """Gradient norm above which the gradient is scaled down."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    with open_team(config, folder, live, resume=resume) as team:
        policy = make_policy(config, team)
        optimizer = torch.optim.Adam(policy.parameters(), lr=config.lr, eps=1e-5, fused=True)
        norm = ValueNorm()
        team.keep(acting(policy), policy=policy, optimizer=optimizer, norm=norm)
        for _ in team.updates():
            view = team.view
            for _ in range(config.horizon):
                with team.clock("act"):  # ACT
                    acted = policy.act(
                        view.obs, available_BAN=view.available, active_BA=view.active, generator=team.generator
                    )
                view = team.step(acted.action, acted.logp_BAP, acted.value_BA)  # STEP
            with team.clock("credit"):  # CREDIT
                batch = team.batch(lambda v: policy.value(v.obs, v.active), norm.denormalise)
                ledger = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, config.gae_lambda))
            with team.clock("learn"):  # LEARN
                metrics = learn(config, policy, optimizer, norm, batch, ledger, team.generator)
            team.log(ledger, **metrics)
        return team.finish("mat")


def evaluate(folder: RunFolder, live: Live, episodes: int | None = None, *, env: str = "") -> dict[str, Any]:
    """Play the newest checkpoint frozen; ``env`` may be a team of another size (train with ``ids=False`` for that)."""

    def build(config: Config, team: TeamRun) -> tuple[Act, dict[str, Any]]:
        policy = make_policy(config, team)
        return acting(policy), {"policy": policy}

    return evaluate_team(Config, build, folder, live, episodes=episodes, env=env)


def make_policy(config: Config, team: TeamRun) -> JointPolicy:
    """The network for the team at hand."""
    return JointPolicy(
        team.env.team, team.steps.obs_dim, width=config.width, heads=config.heads, blocks=config.blocks,
        actor=config.actor, mask_dead=config.mask_dead, sizes=not config.ids,
    ).to(team.device)  # fmt: skip


def acting(policy: JointPolicy) -> Act:
    """How the policy plays in an evaluation."""

    def act(view: View, greedy: bool, generator: torch.Generator) -> Tensor:
        return policy.act(
            view.obs, available_BAN=view.available, active_BA=view.active, greedy=greedy, generator=generator
        ).action

    return act


def learn(
    config: Config, policy: JointPolicy, optimizer: torch.optim.Optimizer, norm: ValueNorm, batch: Batch,
    ledger: RolloutLedger, generator: torch.Generator,
) -> dict[str, float]:  # fmt: skip
    """Several passes of clipped policy gradient over one rollout; returns means of the losses."""
    seen, adv = batch.view.flat(), batch.credit(ledger)
    seen = replace(seen, obs=policy.standardise(seen.obs))  # once for all passes
    target, old_value, _ = scaled_targets(norm, batch, ledger, [policy.critic.last])
    adv = normalised(adv, batch.view.active).flatten(0, 1)
    action, old_logp = batch.action.flatten(0, 1), batch.logp.flatten(0, 1)

    def loss_of(rows: Rows) -> tuple[Tensor, dict[str, Tensor | float]]:
        view = seen[rows]
        now = policy.logprobs(
            view.obs, action[rows], available_BAN=view.available, active_BA=view.active, standard=True
        )
        gain = clipped_surrogate(now.logp_BAP, old_logp[rows], adv[rows], clip=config.clip)
        error = value_loss(now.value_BA, target[rows], old_value=old_value[rows], clip=config.clip)
        gain, error = masked_mean(gain, view.active), error.mean()
        entropy = masked_mean(now.entropy_BA, view.active)
        moved = clipped_share(now.logp_BAP, old_logp[rows], config.clip, view.active)
        metrics = {"policy_loss": -gain, "value_loss": error, "entropy": entropy, "clipped": moved}
        return error - gain - config.entropy * entropy, metrics

    passes = batch.passes(config.epochs, config.minibatches, generator)
    # values are a mean over all agents, everything else over those that are alive
    return descend(optimizer, passes, loss_of, adv, grad_clip=config.grad_clip, whole=seen.active is not None)
