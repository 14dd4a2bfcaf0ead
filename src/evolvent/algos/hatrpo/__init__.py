"""HATRPO: TRPO for agents that are updated one after another: natural gradient inside a trust region.

Paper: Kuba et al. 2022, Trust Region Policy Optimisation in Multi-Agent Reinforcement Learning (arXiv 2109.11251);
code and defaults: Zhong et al. 2024, Heterogeneous-Agent Reinforcement Learning (HARL, arXiv 2304.09870).

    A        = GAE of one critic of the shared state; every agent earns the team's mean reward
    M^{i_1}  = 1;   for the agents i_1 … i_n in an order drawn anew for each rollout:
    theta    = theta + b^k sqrt(2 delta / x^T F x) x,   F x = grad mean[ r M A ],   r = prod over parts of pi / pi_old
               with the least k for which the KL is at most delta and the gain at least half of what was promised
    M       <- M pi_new^{i_m} / pi_old^{i_m}

The defaults are those of HARL (its configuration file of hatrpo: delta 0.01, 10 tries, factor 0.8, 20 copies x 200
steps, hidden 128 128, one batch, no entropy). Its tuned delta for multi-agent MuJoCo: Ant 4x2 0.005, Hopper 3x1 0.001.

Deviations: critics, and actors without ids, are given the size of the numbers that they see (``models.team.sizes``);
the KL of choices is ``sum p (log p - log q)`` (released code leaves the weights p out, which is 12 to 53 times as much
at 5 to 36 choices, so its delta for choices are no thresholds of a KL; ours are); ratio of whole actions in the
gradient and in the line search alike; parameters that nothing depends on cannot shift the others; the products with F
share one graph; time limits are bootstrapped from the observation where the attempt stopped; value targets are
normalised once a rollout and the critic's last layer is rescaled with them; agents that are not alive leave M as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from evolvent.core.folder import RunFolder
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.runs.team.actors import ActorsConfig, acting, make_actors, played, state_value
from evolvent.runs.team.frozen import evaluate_team

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from evolvent.algos.hatrpo.trust_region import Step
    from evolvent.learn.team.batch import Batch, Own
    from evolvent.models.team.actors import Actors

PAPER = "arXiv 2109.11251"
LEVELS = ("agent", "step")
STATUS = "tested"


@dataclass(frozen=True)
class Config(ActorsConfig):
    """Settings of HATRPO."""

    delta: float = 0.01
    """Trust region: largest mean KL divergence between an actor before and after an update, in nats."""
    damping: float = 0.1
    """Damping of the natural gradient: added to the diagonal of the Fisher matrix."""
    accept_ratio: float = 0.5
    """Line search: a step is accepted if it gains at least this share of what the gradient predicts."""
    backtracks: int = 10
    """Line search: largest number of steps tried."""
    backtrack: float = 0.8
    """Line search: factor by which a step shrinks from one try to the next."""
    value_clip: float = 0.2
    """Clip range of values."""
    grad_clip: float = 10.0
    """Gradient norm above which the critic's gradient is scaled down."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    import torch

    from evolvent.learn.team.critic import fit_state_critic
    from evolvent.learn.team.value_norm import ValueNorm
    from evolvent.models.team.actors import Critic
    from evolvent.runs.team.run import open_team

    with open_team(config, folder, live, resume=resume) as team:
        actors = make_actors(config, team.views)
        critic = Critic(team.views.state_dim, hidden=config.hidden).to(team.device)
        critic_adam = torch.optim.Adam(critic.parameters(), lr=config.critic_lr, eps=1e-5, fused=True)
        norm, value = ValueNorm(), state_value(critic, team.env.team.n_agents)
        team.keep(acting(actors), actors=actors, critic=critic, norm=norm, critic_adam=critic_adam)
        for _ in team.updates():
            view = team.view
            for _ in range(config.horizon):
                with team.clock("act"), torch.no_grad():  # ACT
                    action, logp = actors.act(view.obs, available_BAN=view.available, generator=team.generator)
                    said = value(view)
                view = team.step(action, logp, said)  # STEP
            with team.clock("credit"):  # CREDIT
                batch = team.batch(value, norm.denormalise)
                ledger = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, config.gae_lambda, pooled=True))
                adv = batch.credit(ledger)
            with team.clock("learn"):  # LEARN
                _, metrics = improve_in_turn(config, actors, batch, adv, team.generator)
                passes = batch.passes(config.critic_epochs, 1, team.generator)
                metrics |= fit_state_critic(
                    critic, critic_adam, norm, batch, ledger, passes, clip=config.value_clip, grad_clip=config.grad_clip
                )
            team.log(ledger, **metrics)
        return team.finish("hatrpo")


evaluate = partial(evaluate_team, Config, played)


def improve_in_turn(
    config: Config, actors: Actors, batch: Batch, adv_TBA: Tensor, generator: torch.Generator
) -> tuple[Tensor, dict[str, float]]:
    """A trust-region step for one actor after another; returns M of every joint step ``[T*B]`` and the log.

    In the end M is ``prod_i pi_new^i / pi_old^i`` of the actions that were taken.
    """
    import torch

    from evolvent.algos.hatrpo.trust_region import Step
    from evolvent.learn.losses import normalised

    adv = normalised(adv_TBA, batch.view.active, per_agent=True).flatten(0, 1)
    factor, steps = torch.ones_like(adv[:, 0]), list[Step]()
    for i in torch.randperm(actors.n_agents, generator=generator, device=generator.device).tolist():
        step, ratio = improve_one(config, actors, i, batch.of(i), factor * adv[:, i])
        steps.append(step)
        factor = factor * ratio
    metrics = {
        "accepted": fmean(step.accepted for step in steps),
        "kl": fmean(step.kl for step in steps),
        "kl_max": max(step.kl for step in steps),
        "improvement": fmean(step.improvement for step in steps),
        "fraction": fmean(step.fraction for step in steps),
        "factor_mean": factor.mean().item(),
        "factor_sd": factor.std(unbiased=False).item(),
    }
    return factor, metrics


def improve_one(config: Config, actors: Actors, agent: int, own: Own, weight: Tensor) -> tuple[Step, Tensor]:
    """Raise ``mean[r weight]`` for one actor within its trust region; what was done, and r ``[T*B]`` afterwards."""
    import torch

    from evolvent.algos.hatrpo.trust_region import trust_region_step
    from evolvent.learn.losses import masked_mean

    with torch.no_grad():
        old = actors.params_one(agent, own.obs, available_BN=own.available)

    def ratio() -> Tensor:
        return own.ratio(actors.logprobs_one(agent, own.obs, own.action, available_BN=own.available).logp)

    def kl() -> Tensor:
        now = actors.params_one(agent, own.obs, available_BN=own.available)
        return masked_mean(actors.kl_one(agent, old, now), own.active)

    step = trust_region_step(
        actors.parameters_of(agent),
        lambda: masked_mean(ratio() * weight, own.active),
        kl,
        delta=config.delta,
        damping=config.damping,
        accept_ratio=config.accept_ratio,
        backtracks=(config.backtracks, config.backtrack),
    )
    with torch.no_grad():
        return step, ratio()
