"""MAPPO: PPO for every agent with a critic of the shared state; optionally with the baseline of least variance.

Paper: Yu et al. 2022, The Surprising Effectiveness of PPO in Cooperative Multi-Agent Games (arXiv 2103.01955).

    A    = GAE of one critic V(s); every agent earns the team's mean reward
    L    = mean[ min(r A, clip(r, 1 +- eps) A) ] + c H,   r = prod over the parts of the action of pi / pi_old
    L_V  = max(H(R - V), H(R - V_clipped))

``optimal_baseline`` (Kuba et al. 2021, arXiv 2108.08612) replaces V(s) as what is subtracted by
``b*(s, a^{-i}) = sum_a x(a) Q(s, (a^{-i}, a))``, ``x(a) ∝ pi(a) |grad log pi(a)|²``: the advantage becomes
``R - b*``, R the lambda-return. ``surrogate`` takes the gradient with respect to logits (for numbers: with respect to
mean and spread, by ``OB_SAMPLES`` draws), ``exact`` with respect to all weights (choices only; slow).

One actor plays all agents, as in the paper; ``shared=False`` gives each its own, which learns from its own mean. Other
defaults are those of HARL (arXiv 2304.09870, its configuration file of mappo: 20 copies x 200 steps, hidden 128 128,
5 epochs, clip 0.2; actors are shared there too, and in 10 of its 12 tuned settings).

Deviations: critics, and actors without ids, are given the size of the numbers that they see (``models.team.sizes``;
there a layer norm over the raw state makes V(c s) = V(s)); time limits are bootstrapped from the observation where the
attempt stopped; value targets are normalised once a rollout and the critics' last layers are rescaled with them.
Optimal baseline: 100 draws (there 1000); Q sees what the others did (there the own action only) and learns from R; V
stays to bootstrap, so that R is a lambda-return (there it is the plain discounted return); what is not available weighs
nothing; advantages are divided by their spread but not centred, since their mean would be another baseline.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.credit import agent_gae, agent_optimal_baseline
from evolvent.evaluate.live import Live
from evolvent.learn.team.config import PPO
from evolvent.runs.team.actors import RecurrentConfig, acting, make_actors, played, state_value
from evolvent.runs.team.frozen import evaluate_team

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from evolvent.learn.team.batch import Batch
    from evolvent.learn.team.value_norm import ValueNorm
    from evolvent.learn.team.views import Views
    from evolvent.models.team.actors import Actors, Critic, JointQ

PAPER = "arXiv 2103.01955"
LEVELS = ("agent", "step")
STATUS = "tested"
OB_SAMPLES = 100  # actions drawn for the baseline of a continuous action


@dataclass(frozen=True)
class Config(PPO, RecurrentConfig):
    """Settings of MAPPO."""

    shared: bool = True
    """Share the parameters of one actor among all agents."""
    optimal_baseline: Literal["none", "surrogate", "exact"] = "none"
    """Baseline: none = V(s); of least variance: surrogate = by logits, exact = by all weights."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    import torch

    from evolvent.learn.team.ppo import improve_together
    from evolvent.learn.team.value_norm import ValueNorm
    from evolvent.models.team.actors import Critic
    from evolvent.runs.team.run import open_team

    with open_team(config, folder, live, resume=resume) as team:
        actors = make_actors(config, team.views)
        critic = Critic(team.views.state_dim, hidden=config.hidden).to(team.device)
        q = None if config.optimal_baseline == "none" else joint_q(config, team.views)
        adam = torch.optim.Adam(actors.groups(), lr=config.lr, eps=1e-5, fused=True)
        critics = [critic] if q is None else [critic, q]
        rate = config.critic_lr
        critic_adams = [torch.optim.Adam(net.parameters(), lr=rate, eps=1e-5, fused=True) for net in critics]
        norm, value = ValueNorm(), state_value(critic, team.env.team.n_agents)
        parts = {f"critic_{i}": net for i, net in enumerate(critics)}
        parts |= {f"critic_adam_{i}": net for i, net in enumerate(critic_adams)}
        team.keep(acting(actors), actors=actors, adam=adam, norm=norm, **parts)
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
                if q is None:
                    rule = agent_gae.Config(config.gamma, config.gae_lambda, pooled=True)
                    ledger = agent_gae.assign(batch.rollout, rule)
                else:
                    ledger = over_optimal_baseline(config, actors, q, norm, batch, team.generator)
            with team.clock("learn"):  # LEARN
                metrics = improve_together(config, actors, adam, batch, scaled(config, batch, ledger), team.generator)
                metrics |= learn_values(config, critic, q, critic_adams, norm, batch, ledger, team.generator)
            team.log(ledger, **metrics)
        return team.finish("mappo")


evaluate = partial(evaluate_team, Config, played)


def scaled(config: Config, batch: Batch, ledger: RolloutLedger) -> Tensor:
    """Normalised advantages; over the optimal baseline they are not centred."""
    from evolvent.learn.losses import normalised

    centre = config.optimal_baseline == "none"
    return normalised(batch.credit(ledger), batch.view.active, per_agent=not config.shared, centre=centre)


def learn_values(
    config: Config,
    critic: Critic,
    q: JointQ | None,
    adams: list[torch.optim.Adam],
    norm: ValueNorm,
    batch: Batch,
    ledger: RolloutLedger,
    generator: torch.Generator,
) -> dict[str, float]:
    """Fit V, and Q of what was done where there is one, to the lambda-returns of the team; mean losses."""
    from evolvent.learn.team.critic import Targets, fit_critic, scaled_targets

    heads = [critic.head] if q is None else [critic.head, q.head]
    targets = scaled_targets(norm, batch, ledger, heads, shared=True)
    seen, action = batch.view.flat(), batch.action.flatten(0, 1)
    passes = partial(batch.passes, config.critic_epochs, config.minibatches, generator)
    metrics = fit_critic(
        lambda rows: critic(seen.state[rows]),
        adams[0],
        targets,
        passes(),
        clip=config.clip,
        grad_clip=config.grad_clip,
    )
    if q is not None:
        said = fit_critic(
            lambda rows: q.taken(seen.state[rows], seen.obs[rows], action[rows]),
            adams[1],
            Targets(targets.target.unsqueeze(-1).expand(-1, seen.obs.shape[1]), mask=seen.active),
            passes(),
            grad_clip=config.grad_clip,
        )
        metrics["q_loss"] = said["value_loss"]
    return metrics


# ------------------------------------------------------------------------------------------ optimal baseline
def joint_q(config: Config, views: Views) -> JointQ:
    """The critic of joint actions that the optimal baseline needs.

    Raises:
        BadInput: the exact form for numbers, or actors with memory.
    """
    from evolvent.models.team.actors import JointQ

    if views.memory:
        raise BadInput(
            "no optimal baseline for actors with memory",
            got=f"--memory {views.memory}",
            expected="0",
            where="--optimal-baseline",
        )
    if config.optimal_baseline == "exact" and views.team.dims:
        raise BadInput(
            "no exact baseline for continuous actions",
            got=config.optimal_baseline,
            expected="surrogate",
            where="--optimal-baseline",
        )
    q = JointQ(views.team, views.state_dim, views.team.obs_dim, hidden=config.hidden, ids=views.ids)
    return q.to(views.device)


def over_optimal_baseline(
    config: Config, actors: Actors, q: JointQ, norm: ValueNorm, batch: Batch, generator: torch.Generator
) -> RolloutLedger:
    """Lambda-returns minus the baseline of least variance."""
    import torch

    from evolvent.learn.team.optimal_baseline import choice_columns, number_columns

    rule, view = (
        agent_optimal_baseline.Config(gamma=config.gamma, gae_lambda=config.gae_lambda, pooled=True),
        batch.view,
    )
    if q.choices:
        seen, exact = (view.state, view.obs, view.available), config.optimal_baseline == "exact"
        columns = choice_columns(actors, q, norm, seen, batch.action, exact=exact)
    else:
        seed = int(torch.randint(2**31, (), generator=generator, device=generator.device))
        columns = number_columns(actors, q, norm, (view.state, view.obs), batch.action, samples=OB_SAMPLES, seed=seed)
    return agent_optimal_baseline.assign(batch.rollout, rule, **columns)
