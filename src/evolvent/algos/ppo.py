"""PPO: clipped policy gradient for one agent, choices or numbers.

Paper: Schulman et al. 2017, Proximal Policy Optimization Algorithms (arXiv 1707.06347).

    A    = GAE of V(o)
    L    = mean[ min(r A, clip(r, 1 +- eps) A) ] + c H,   r = prod over the parts of the action of pi / pi_old
    L_V  = H(R - V)

IPPO with a team of one, and with the settings that are usual for one agent (stable-baselines3, CleanRL for numbers):
2,048 steps an update in 32 minibatches, ten epochs, 3e-4, gradients of norm 0.5, hidden 64 64, no entropy bonus, values
not clipped. ``train`` is the same without a run folder: a best response inside another run.

Deviations: networks with layer norms that are given the size of the numbers they see (``models.team.sizes``; there tanh
and, for robots, normalised observations: ``--normalise-obs on``); numbers have a spread of at most 0.5 on
[-1, 1] (there unbounded, 1 at the start); actor and critic are apart, each with its own gradient norm; advantages are
normalised over the rollout (there over a minibatch); value targets are normalised (there not, or rewards are); 8 copies
x 256 steps (there 1 x 2,048); the learning rate stays (CleanRL lets it fall); a time limit is bootstrapped from the
observation where the attempt stopped (in CleanRL it counts as an end).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from evolvent.core.folder import RunFolder
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.runs.team.actors import acting
from evolvent.runs.team.config import OneAgentPPO
from evolvent.runs.team.frozen import evaluate_team, policy_of
from evolvent.runs.team.one import check_one_agent, networks_of, trained

if TYPE_CHECKING:
    from evolvent.envs.team.disrupt import Attack
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.practice import Practice
    from evolvent.learn.team.views import Views
    from evolvent.runs.team.run import TeamRun

PAPER = "arXiv 1707.06347"
LEVELS = ("step",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(OneAgentPPO):
    """Settings of PPO."""

    env: str = "gymnasium:CartPole-v1"
    """Environment of one agent with its options, e.g. gymnasium:Hopper-v5; or yours, file.py[:NAME]."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.runs.team.run import open_team

    with open_team(config, folder, live, resume=resume) as team:
        loop(config, team)
        return team.finish("ppo")


def loop(config: Config, team: TeamRun | Practice) -> None:
    """Act, step, credit, learn, until the steps are over."""
    import torch

    from evolvent.learn.losses import normalised
    from evolvent.learn.team.attack import actors_attack
    from evolvent.learn.team.critic import fit_critic, scaled_targets
    from evolvent.learn.team.ppo import improve_together

    check_one_agent(team.env.team, ("discrete", "continuous", "mixed"), config.env)
    parts = networks_of(config, team.env.team, team.device)
    actors, critic, norm, adam, critic_adam = parts.values()
    team.arm(actors_attack(team.views, actors, critic))
    team.keep(acting(actors), **parts)
    for _ in team.updates():
        view = team.view
        for _ in range(config.horizon):
            with team.clock("act"), torch.no_grad():  # ACT
                action, logp = actors.act(view.obs, available_BAN=view.available, generator=team.generator)
                said = critic(view.obs)
            view = team.step(action, logp, said)  # STEP
        with team.clock("credit"):  # CREDIT
            batch = team.batch(lambda view: critic(view.obs), norm.denormalise)
            ledger = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, config.gae_lambda))
        with team.clock("learn"):  # LEARN
            metrics = improve_together(config, actors, adam, batch, normalised(batch.credit(ledger)), team.generator)
            obs, targets = batch.view.obs.flatten(0, 1), scaled_targets(norm, batch, ledger, [critic.head])
            passes = batch.passes(config.epochs, config.minibatches, team.generator)
            metrics |= fit_critic(
                lambda rows, obs=obs: critic(obs[rows]), critic_adam, targets, passes, grad_clip=config.grad_clip
            )
        team.log(ledger, **metrics)


def played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    """For ``evaluate_team``: how it acts, and the parts of a checkpoint that this needs."""
    actors = networks_of(config, views.team, views.device)["actors"]
    return acting(actors), {"actors": actors}


def _attack(config: Config, views: Views) -> tuple[Attack, dict[str, Any]]:
    """For an adversary that knows the networks."""
    from evolvent.learn.team.attack import actors_attack

    nets = networks_of(config, views.team, views.device)
    parts = {"actors": nets["actors"], "critic": nets["critic"]}
    return actors_attack(views, **parts), parts


evaluate = partial(evaluate_team, Config, played, attack=_attack)
policy = partial(policy_of, Config, played)
train = partial(trained, loop)
