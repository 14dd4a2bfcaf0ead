"""IPPO: independent PPO: every agent learns from its own observations and rewards.

Paper: de Witt et al. 2020, Is Independent Learning All You Need in the StarCraft Multi-Agent Challenge?
(arXiv 2011.09533).

    A^i  = GAE of V(o^i) with the agent's own reward
    L    = mean[ min(r A, clip(r, 1 +- eps) A) ] + c H,   r = prod over the parts of the action of pi / pi_old
    L_V  = max(H(R - V), H(R - V_clipped))

One actor and one critic serve all agents, as in the paper; ``shared=False`` gives each its own, which
learns from its own mean. It is what MAPPO must
beat: the same but for the critic, which sees no more than the agent, and the reward, which is not the team's mean. The
other defaults are those of MAPPO here, so that the two can be compared.

Deviations: critics, and actors without ids, are given the size of the numbers that they see (``models.team.sizes``);
time limits are bootstrapped from the observation where the attempt stopped; value targets are normalised once a rollout
and the critics' last layers are rescaled with them; no recurrence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from evolvent.core.folder import RunFolder
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.learn.team.config import PPO
from evolvent.runs.team.actors import RecurrentConfig, acting, make_actors, played
from evolvent.runs.team.frozen import evaluate_team

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from evolvent.learn.team.batch import Batch, View
    from evolvent.learn.team.value_norm import ValueNorm

PAPER = "arXiv 2011.09533"
LEVELS = ("agent", "step")
STATUS = "tested"


@dataclass(frozen=True)
class Config(PPO, RecurrentConfig):
    """Settings of IPPO."""

    shared: bool = True
    """Share the parameters of one actor and of one critic among all agents."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    import torch
    from torch import nn

    from evolvent.learn.losses import normalised
    from evolvent.learn.team.ppo import improve_together
    from evolvent.learn.team.value_norm import ValueNorm
    from evolvent.models.team.actors import Critic
    from evolvent.runs.team.run import open_team

    with open_team(config, folder, live, resume=resume) as team:
        spec = team.env.team
        actors = make_actors(config, team.views)
        numbers = spec.n_agents * config.ids
        critics = nn.ModuleList(
            Critic(spec.obs_dim + numbers, hidden=config.hidden, ids=numbers)
            for _ in range(1 if config.shared else spec.n_agents)
        ).to(team.device)
        adam = torch.optim.Adam(actors.groups(), lr=config.lr, eps=1e-5, fused=True)
        groups = [{"params": list(net.parameters())} for net in critics]
        critic_adam = torch.optim.Adam(groups, lr=config.critic_lr, eps=1e-5, fused=True)
        norm = ValueNorm()
        team.keep(acting(actors), actors=actors, critics=critics, norm=norm, adam=adam, critic_adam=critic_adam)

        def value(view: View) -> Tensor:
            return values_of(critics, seen_by_critics(config, view))

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
                ledger = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, config.gae_lambda))
                adv = batch.credit(ledger)
            with team.clock("learn"):  # LEARN
                scaled = normalised(adv, batch.view.active, per_agent=not config.shared)
                metrics = improve_together(config, actors, adam, batch, scaled, team.generator)
                metrics |= learn_values(config, critics, critic_adam, norm, batch, ledger, team.generator)
            team.log(ledger, **metrics)
        return team.finish("ippo")


evaluate = partial(evaluate_team, Config, played)


def seen_by_critics(config: Config, view: View) -> Tensor:
    """Observations ``[B, A, D]``, with the agents' numbers where these are asked for."""
    from evolvent.models.team.sizes import with_ids

    return with_ids(view.obs) if config.ids else view.obs


def values_of(critics: nn.ModuleList, obs_BAD: Tensor) -> Tensor:
    """What each agent's critic says of what it sees, ``[B, A]``."""
    import torch

    if len(critics) == 1:
        return critics[0](obs_BAD)
    return torch.stack([critic(obs_BAD[:, i]) for i, critic in enumerate(critics)], dim=1)


def learn_values(
    config: Config,
    critics: nn.ModuleList,
    adam: torch.optim.Adam,
    norm: ValueNorm,
    batch: Batch,
    ledger: RolloutLedger,
    generator: torch.Generator,
) -> dict[str, float]:
    """Fit the critics to every agent's own lambda-returns; their mean loss, and how much of them they knew."""
    from evolvent.learn.losses import own_means
    from evolvent.learn.team.critic import fit_critic, scaled_targets
    from evolvent.models.team.actors import Critic

    obs = seen_by_critics(config, batch.view.flat())
    heads = [critic.head for critic in critics if isinstance(critic, Critic)]
    targets = scaled_targets(norm, batch, ledger, heads)
    passes = batch.passes(config.critic_epochs, config.minibatches, generator)
    return fit_critic(
        lambda rows: values_of(critics, obs[rows]),
        adam,
        targets,
        passes,
        clip=config.clip,
        grad_clip=config.grad_clip,
        weight=1.0 if config.shared else own_means(targets.target),
    )
