"""Proximal policy optimisation of a team's separate or shared actors, all agents at once (MAPPO, IPPO).

    L = mean[ min(r A, clip(r, 1 +- eps) A) ] + c H,   r = prod over the parts of an action of pi / pi_old

Paper: Schulman et al. 2017 (arXiv 1707.06347); in teams Yu et al. 2022 (arXiv 2103.01955).
"""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent.learn.losses import clipped_share, clipped_surrogate, masked_mean, own_means
from evolvent.learn.team.batch import Batch
from evolvent.learn.team.config import PPO
from evolvent.learn.team.descent import Rows, descend
from evolvent.models.team.actors import Actors


def improve_together(
    config: PPO, actors: Actors, adam: torch.optim.Adam, batch: Batch, adv_TBA: Tensor, generator: torch.Generator
) -> dict[str, float]:
    """Several passes over a rollout with advantages that are normalised already.

    ``adam`` is the optimizer of ``actors.groups()``; separate actors learn from their own means. Returns means for the
    log: policy_loss, entropy, grad_norm, clipped.
    """
    seen, action, old_logp = batch.view.flat(), batch.action.flatten(0, 1), batch.logp.flatten(0, 1)
    adv = adv_TBA.flatten(0, 1)
    weight, each = (1.0, 1) if actors.shared else (own_means(adv, seen.active), adv.shape[1])

    def loss_of(rows: Rows) -> tuple[Tensor, dict[str, Tensor | float]]:
        view = seen[rows]
        now = actors.logprobs(view.obs, action[rows], available_BAN=view.available)
        gain = clipped_surrogate(now.logp, old_logp[rows], adv[rows], clip=config.clip, parts="product")
        gain, entropy = (masked_mean(weight * x, view.active) for x in (gain, now.entropy))
        moved = clipped_share(now.logp, old_logp[rows], config.clip, view.active)
        metrics = {"policy_loss": -gain / each, "entropy": entropy / each, "clipped": moved}
        return -gain - config.entropy * entropy, metrics

    passes = batch.passes(config.epochs, config.minibatches, generator)
    return descend(adam, passes, loss_of, adv, mask=seen.active, grad_clip=config.grad_clip)
