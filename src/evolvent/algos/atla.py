"""ATLA: PPO against an adversary that learns, in turns, to disturb what it sees.

Paper: Zhang et al. 2021, Robust Reinforcement Learning on State Observations with Learned Optimal Adversary
(arXiv 2101.08452).

    policy       a ~ pi(. | s + eps nu(s)),   max E sum r       nu fixed
    adversary    nu(s) in [-1, 1]^D,          max E sum -r      pi fixed

Each is PPO with its own networks; ``block`` updates of the adversary come before as many of the policy. The ball's eps
stands in the environment, ``disrupt:[ENV],obs=adversary:EPS``.

Deviations: the policy meets the adversary's mean (there a draw); no regulariser of the policy's smoothness and no
recurrent networks (two of the paper's arms); those of ``ppo``.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from evolvent.core.folder import RunFolder
from evolvent.core.seeding import seed_tree
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.runs.team.actors import acting
from evolvent.runs.team.config import OneAgentPPO
from evolvent.runs.team.frozen import evaluate_team, policy_of
from evolvent.runs.team.one import check_one_agent, networks_of

if TYPE_CHECKING:
    from evolvent.learn.team.practice import Practice
    from evolvent.learn.team.views import Views
    from evolvent.runs.team.run import TeamRun

PAPER = "arXiv 2101.08452"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(OneAgentPPO):
    """Settings of ATLA, the same for both sides; ``steps`` are those of the policy, the adversary takes as many."""

    env: str = "disrupt:[gymnasium:InvertedPendulum-v5],obs=adversary:0.1"
    """Environment of one agent in disrupt:[…],obs=adversary:EPS."""
    block: int = 5
    """Updates of one side before the other learns."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent import envs
    from evolvent.envs.team._opponent import Opponent
    from evolvent.envs.team.disrupt import ball
    from evolvent.learn.team.attack import LearnedAttack, actors_attack
    from evolvent.learn.team.player import TeamPlayer
    from evolvent.learn.team.practice import practice
    from evolvent.runs.team.run import open_team

    steps, device = config.block * config.envs * config.horizon, config.plan.device
    its_env = envs.load_team(config.env, config.envs, workers=config.plan.workers)
    with closing(its_env), open_team(config, folder, live, resume=resume) as team:
        check_one_agent(team.env.team, ("discrete", "continuous", "mixed"), config.env)
        opponent = Opponent(*ball(its_env))
        mine, its = networks_of(config, team.env.team, team.device), networks_of(config, opponent.team, team.device)
        player = TeamPlayer(team.views, acting(mine["actors"]))
        team.arm(LearnedAttack(actors_attack(team.views, mine["actors"], mine["critic"]), its["actors"]))
        team.keep(acting(mine["actors"]), **mine, **{f"its_{name}": part for name, part in its.items()})
        for update in team.updates():
            if update % config.block == 0:
                seed = seed_tree(config.seed, "adversary", update)
                with practice(opponent, steps=steps, horizon=config.horizon, seed=seed, device=device) as enemy:
                    opponent.act = partial(player.act, greedy=False, generator=enemy.generator)
                    for _ in enemy.updates():
                        learn(config, enemy, its)
            ledger, metrics = learn(config, team, mine)
            team.log(ledger, **metrics)
        return team.finish("atla")


def learn(config: Config, team: TeamRun | Practice, side: dict[str, Any]) -> tuple[Any, dict[str, float]]:
    """An update of one side: its ledger, and losses by name."""
    import torch

    from evolvent.learn.losses import normalised
    from evolvent.learn.team.critic import fit_critic, scaled_targets
    from evolvent.learn.team.ppo import improve_together

    view, actors, critic, norm = team.view, side["actors"], side["critic"], side["norm"]
    for _ in range(config.horizon):
        with team.clock("act"), torch.no_grad():  # ACT
            action, logp = actors.act(view.obs, available_BAN=view.available, generator=team.generator)
            said = critic(view.obs)
        view = team.step(action, logp, said)  # STEP
    with team.clock("credit"):  # CREDIT
        batch = team.batch(lambda view: critic(view.obs), norm.denormalise)
        ledger = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, config.gae_lambda))
    with team.clock("learn"):  # LEARN
        adv = normalised(batch.credit(ledger))
        losses = improve_together(config, actors, side["adam"], batch, adv, team.generator)
        obs, targets = batch.view.obs.flatten(0, 1), scaled_targets(norm, batch, ledger, [critic.head])
        passes, clip = batch.passes(config.epochs, config.minibatches, team.generator), config.grad_clip
        losses |= fit_critic(lambda rows: critic(obs[rows]), side["critic_adam"], targets, passes, grad_clip=clip)
    return ledger, losses


def _played(config: Config, views: Views) -> tuple[Any, dict[str, Any]]:
    actors = networks_of(config, views.team, views.device)["actors"]
    return acting(actors), {"actors": actors}


def _attack(config: Config, views: Views) -> tuple[Any, dict[str, Any]]:
    """The adversary that was learned with the policy; by the policy's gradient where that is asked for."""
    from evolvent.envs.team._opponent import team_of
    from evolvent.learn.team.attack import LearnedAttack, actors_attack

    mine, its = networks_of(config, views.team, views.device), networks_of(config, team_of(views.team), views.device)
    parts = {"actors": mine["actors"], "critic": mine["critic"], "its_actors": its["actors"]}
    return LearnedAttack(actors_attack(views, parts["actors"], parts["critic"]), its["actors"]), parts


evaluate, policy = partial(evaluate_team, Config, _played, attack=_attack), partial(policy_of, Config, _played)
