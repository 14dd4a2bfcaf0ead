"""HAPPO: PPO for agents that are updated one after another, each correcting for the updates before it.

Paper: Kuba et al. 2022, Trust Region Policy Optimisation in Multi-Agent Reinforcement Learning (arXiv 2109.11251);
code and defaults: Zhong et al. 2024, Heterogeneous-Agent Reinforcement Learning (HARL, arXiv 2304.09870).

    A        = GAE of one critic of the shared state; every agent earns the team's mean reward
    M^{i_1}  = 1;   for the agents i_1 … i_n in an order drawn anew for each rollout:
    L        = mean[ M min(r A, clip(r, 1 +- eps) A) ] + c H,   r = prod over the parts of the action of pi / pi_old
    M       <- M pi_new^{i_m} / pi_old^{i_m}                     so that in the end M = prod_i pi_new^i / pi_old^i

Actors have their own parameters: with shared ones some games can be solved with probability 2/2^n at best (``split``).
The defaults are those of HARL (its configuration file of happo: 20 copies x 200 steps, hidden 128 128). Its tuned
settings: multi-agent MuJoCo hidden 128 128 128, Ant 4x2 clip 0.1 and entropy 0; HalfCheetah 2x3 15 epochs, clip 0.05.

Deviations: critics, and actors without ids, are given the size of the numbers that they see (``models.team.sizes``);
time limits are bootstrapped from the observation where the attempt stopped (there the advantage of the last step is set
to 0); value targets are normalised once a rollout and the critic's last layer is rescaled with them; pi_old is the
log-probability stored when acting; agents that are not alive leave M as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from evolvent.core.folder import RunFolder
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.learn.team.config import PPO
from evolvent.runs.team.actors import RecurrentConfig, acting, make_actors, played, state_value
from evolvent.runs.team.frozen import evaluate_team

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from evolvent.learn.team.batch import Batch, Own
    from evolvent.learn.team.descent import Rows
    from evolvent.models.team.actors import Actors

PAPER = "arXiv 2109.11251"
LEVELS = ("agent", "step")
STATUS = "tested"


@dataclass(frozen=True)
class Config(PPO, RecurrentConfig):
    """Settings of HAPPO."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    import torch

    from evolvent.learn.team.critic import fit_state_critic
    from evolvent.learn.team.value_norm import ValueNorm
    from evolvent.models.team.actors import Critic
    from evolvent.runs.team.run import open_team

    with open_team(config, folder, live, resume=resume) as team:
        n_agents = team.env.team.n_agents
        actors = make_actors(config, team.views)
        critic = Critic(team.views.state_dim, hidden=config.hidden).to(team.device)
        adams = [torch.optim.Adam(actors.parameters_of(i), lr=config.lr, eps=1e-5, fused=True) for i in range(n_agents)]
        critic_adam = torch.optim.Adam(critic.parameters(), lr=config.critic_lr, eps=1e-5, fused=True)
        norm, value = ValueNorm(), state_value(critic, n_agents)
        parts = {f"adam_{i}": adam for i, adam in enumerate(adams)}
        team.keep(acting(actors), actors=actors, critic=critic, norm=norm, critic_adam=critic_adam, **parts)
        for _ in team.updates():
            view = team.view
            for _ in range(config.horizon):
                with team.clock("act"), torch.no_grad():  # ACT
                    seen = actors.seen(view.obs, view.memory)
                    action, logp = actors.act(seen, available_BAN=view.available, generator=team.generator)
                    said = value(view)
                view = team.step(action, logp, said, memory=seen)  # STEP
            with team.clock("credit"):  # CREDIT
                batch = team.batch(value, norm.denormalise)
                ledger = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, config.gae_lambda, pooled=True))
                adv = batch.credit(ledger)
            with team.clock("learn"):  # LEARN
                _, metrics = improve_in_turn(config, actors, adams, batch, adv, team.generator)
                passes = batch.passes(config.critic_epochs, config.minibatches, team.generator)
                metrics |= fit_state_critic(
                    critic, critic_adam, norm, batch, ledger, passes, clip=config.clip, grad_clip=config.grad_clip
                )
            team.log(ledger, **metrics)
        return team.finish("happo")


evaluate = partial(evaluate_team, Config, played)


def improve_in_turn(
    config: Config,
    actors: Actors,
    adams: list[torch.optim.Adam],
    batch: Batch,
    adv_TBA: Tensor,
    generator: torch.Generator,
) -> tuple[Tensor, dict[str, float]]:
    """Clipped policy gradient for one actor after another; returns M of every joint step and the log.

    In the end M is ``prod_i pi_new^i / pi_old^i`` of the actions that were taken.
    """
    import torch

    from evolvent.learn.losses import normalised

    adv = batch.rows(normalised(adv_TBA, batch.view.active, per_agent=True))
    factor, logged = torch.ones_like(adv[..., 0]), list[dict[str, float]]()
    for i in torch.randperm(actors.n_agents, generator=generator, device=generator.device).tolist():
        own, passes = batch.of(i), batch.passes(config.epochs, config.minibatches, generator, learned=True)
        logged.append(improve_one(config, actors, i, adams[i], own, passes, (adv[..., i], factor)))
        with torch.no_grad():
            seen = actors.seen_one(i, own.obs, own.memory, own.begins)
            logp = actors.logprobs_one(i, seen, own.action, available_BN=own.available).logp
            factor = factor * own.ratio(logp)
    metrics = {name: fmean(row[name] for row in logged) for name in logged[0]}
    return factor, metrics | {"factor_mean": factor.mean().item(), "factor_sd": factor.std(unbiased=False).item()}


def improve_one(
    config: Config,
    actors: Actors,
    agent: int,
    adam: torch.optim.Adam,
    own: Own,
    passes: Iterable[Rows],
    weighed: tuple[Tensor, Tensor],
) -> dict[str, float]:
    """Clipped policy gradient for one actor; ``weighed``: advantage and M of every joint step. Means for the log."""
    from evolvent.learn.losses import clipped_share, clipped_surrogate, masked_mean
    from evolvent.learn.team.descent import descend

    adv, factor = weighed

    def loss_of(rows: Rows) -> tuple[Tensor, dict[str, Tensor | float]]:
        columns = (own.available, own.active, own.memory, own.begins)
        available, active, memory, begins = (None if x is None else x[rows] for x in columns)
        seen = actors.seen_one(agent, own.obs[rows], memory, begins)
        judged = actors.logprobs_one(agent, seen, own.action[rows], available_BN=available)
        gain = clipped_surrogate(
            judged.logp, own.logp[rows], adv[rows], clip=config.clip, parts="product", weight=factor[rows]
        )
        gain, entropy = masked_mean(gain, active), masked_mean(judged.entropy, active)
        moved = clipped_share(judged.logp, own.logp[rows], config.clip, active)
        return -gain - config.entropy * entropy, {"policy_loss": -gain, "entropy": entropy, "clipped": moved}

    return descend(adam, passes, loss_of, adv, mask=own.active, grad_clip=config.grad_clip)
