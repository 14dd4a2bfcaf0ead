"""Proximal policy optimisation of a team: of separate or shared actors, all agents at once (MAPPO, IPPO), or of a joint
policy whose values come from the same network (MAT, PMAT).

    L = mean[ min(r A, clip(r, 1 +- eps) A) ] + c H,   r = prod over the parts of an action of pi / pi_old

Paper: Schulman et al. 2017 (arXiv 1707.06347); in teams Yu et al. 2022 (arXiv 2103.01955).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.learn.losses import clipped_share, clipped_surrogate, masked_mean, normalised, own_means, value_loss
from evolvent.learn.team.batch import Batch
from evolvent.learn.team.config import PPO, Joint
from evolvent.learn.team.critic import scaled_targets
from evolvent.learn.team.descent import Rows, descend
from evolvent.learn.team.value_norm import ValueNorm
from evolvent.models.team.actors import Actors
from evolvent.models.team.joint import JointLogprobs, JointPolicy


def improve_together(
    config: PPO, actors: Actors, adam: torch.optim.Adam, batch: Batch, adv_TBA: Tensor, generator: torch.Generator
) -> dict[str, float]:
    """Several passes over a rollout with advantages that are normalised already.

    ``adam`` is the optimizer of ``actors.groups()``; separate actors learn from their own means. Returns means for the
    log: policy_loss, entropy, grad_norm, clipped.
    """
    (seen, action, old_logp), adv = batch.learned(), batch.rows(adv_TBA)
    weight, each = (1.0, 1) if actors.shared else (own_means(adv, seen.active), adv.shape[-1])

    def loss_of(rows: Rows) -> tuple[Tensor, dict[str, Tensor | float]]:
        view = seen[rows]
        known = actors.seen(view.obs, view.memory, view.begins)
        now = actors.logprobs(known, action[rows], available_BAN=view.available)
        gain = clipped_surrogate(now.logp, old_logp[rows], adv[rows], clip=config.clip, parts="product")
        gain, entropy = (masked_mean(weight * x, view.active) for x in (gain, now.entropy))
        moved = clipped_share(now.logp, old_logp[rows], config.clip, view.active)
        metrics = {"policy_loss": -gain / each, "entropy": entropy / each, "clipped": moved}
        return -gain - config.entropy * entropy, metrics

    passes = batch.passes(config.epochs, config.minibatches, generator, learned=True)
    return descend(adam, passes, loss_of, adv, mask=seen.active, grad_clip=config.grad_clip)


def improve_joint(
    config: Joint,
    policy: JointPolicy,
    optimizer: torch.optim.Optimizer,
    norm: ValueNorm,
    batch: Batch,
    ledger: RolloutLedger,
    generator: torch.Generator,
    besides: Callable[[Rows, JointLogprobs, Tensor], tuple[Tensor, dict[str, Tensor]]] | None = None,
) -> dict[str, float]:
    """Several passes of clipped policy gradient over one rollout.

    Who acted did so in the agents' own order or in that of ``batch.extra["order"]``. The ledger is of a rule that gives
    targets, which ``norm`` takes in. ``besides`` takes rows, what the policy says of them and their advantages to what
    is added to the loss, and to the log. Returns means: policy_loss, value_loss, entropy, grad_norm, clipped.
    """
    seen, adv = batch.view.flat(), batch.credit(ledger)
    seen = replace(seen, obs=policy.standardise(seen.obs))  # once for all passes
    target, old_value, _ = scaled_targets(norm, batch, ledger, [policy.critic.last])
    assert old_value is not None  # a joint policy notes its values
    adv = normalised(adv, batch.view.active).flatten(0, 1)
    action, old_logp = batch.action.flatten(0, 1), batch.logp.flatten(0, 1)
    order = batch.extra["order"].flatten(0, 1) if "order" in batch.extra else None

    def loss_of(rows: Rows) -> tuple[Tensor, dict[str, Tensor | float]]:
        view = seen[rows]
        now = policy.logprobs(
            view.obs,
            action[rows],
            available_BAN=view.available,
            active_BA=view.active,
            order_BA=None if order is None else order[rows],
            standard=True,
        )
        gain = clipped_surrogate(now.logp_BAP, old_logp[rows], adv[rows], clip=config.clip)
        error = value_loss(now.value_BA, target[rows], old_value=old_value[rows], clip=config.clip)
        gain, error = masked_mean(gain, view.active), error.mean()
        entropy = masked_mean(now.entropy_BA, view.active)
        moved = clipped_share(now.logp_BAP, old_logp[rows], config.clip, view.active)
        loss = error - gain - config.entropy * entropy
        metrics = {"policy_loss": -gain, "value_loss": error, "entropy": entropy, "clipped": moved}
        if besides is not None:
            more, logged = besides(rows, now, adv[rows])
            loss, metrics = loss + more, metrics | logged
        return loss, metrics

    passes = batch.passes(config.epochs, config.minibatches, generator)
    # values (and orders) are a mean over joint steps, everything else over those that are alive
    return descend(optimizer, passes, loss_of, adv, grad_clip=config.grad_clip, whole=seen.active is not None)
