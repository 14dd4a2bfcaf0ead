"""JSSP: a dispatcher for job shops that learns on small random problems and is applied to larger, published ones.

Paper: Zhang et al. 2020, Learning to Dispatch for Job Shop Scheduling via Deep Reinforcement Learning (arXiv
2010.12367): a graph network over the operations, PPO, reward = minus the rise of a lower bound of the makespan.

    L    = mean[ min(r A, clip(r, 1 +- eps) A) ] + c H,   A = GAE of V(shop), gamma 1

``envs.team.jssp`` is what is played; the network (``graph_net``) has no size, so that what was learned on 6 x 6 acts on
any shop. At the end it plays the problems named by ``test``, greedily and drawing 32 times, beside dispatch rules, the
best of 200 random schedules, and CP-SAT with the seconds that the greedy dispatcher took, where ``ortools`` is
installed. Every schedule is checked by code that shares nothing with the environment.

Deviations: dispatching without needless delay (there an operation may be put into a gap before others); the bound
counts what machines have left, too; messages along the job both ways and from the machine's open operations (there GIN
over the disjunctive graph, arcs added as machines are ordered); features relative to what is left of the bound; the
critic is a network of its own; 32 copies x 36 choices, Adam 1e-3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.learn.team.config import PPO
from evolvent.runs.team.actors import acting
from evolvent.runs.team.config import EnvConfig
from evolvent.runs.team.frozen import evaluate_team, policy_of

if TYPE_CHECKING:
    from evolvent.formulas.job_shop import Instance
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.views import Views
    from evolvent.models.team.actors import Actors
    from evolvent.runs.team.run import TeamRun

PAPER = "arXiv 2010.12367"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(PPO, EnvConfig):
    """Settings of the dispatcher."""

    one_size = False

    env: str = "jssp:train=6x6,test=ft06+la01+ta01"
    """What it plays (train: a size, or names) and is judged on at the end (test: names or files, joined by +)."""
    steps: int = 100_000
    """Total choices over all copies. Only whole updates are run."""
    envs: int = 32
    """Copies of the environment that are stepped in parallel."""
    horizon: int = 36
    """Rollout length T: choices of each copy between two updates."""
    gamma: float = 1.0
    """Discount factor per step; below 1 it is not the makespan that is learned."""
    gae_lambda: float = 0.95
    """λ of GAE."""
    width: int = 32
    """Features of an operation inside the network."""
    rounds: int = 2
    """Rounds of messages between neighbours."""
    epochs: int = 4
    """Epochs over a rollout, of actor and critic."""
    minibatches: int = 4
    """Minibatches that a rollout is split into."""
    lr: float = 1e-3
    """Learning rate of actor and critic (Adam, eps 1e-5)."""
    grad_clip: float = 0.5
    """Gradient norm above which a gradient is scaled down."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train, judge, and return the summary that stands in ``summary.json``."""
    from evolvent.algos.jssp.judged import judge
    from evolvent.runs.team.run import open_team

    tests = check_shop(config)
    with open_team(config, folder, live, resume=resume) as team:
        actors = _loop(config, team)
        summary = team.finish("jssp")
        if tests:
            summary |= judge(partial(make_actors, config), actors, tests, folder, live)
            folder.write_summary(summary)
    return summary


def check_shop(config: Config) -> tuple[Instance, ...]:
    """The problems of ``test``.

    Raises:
        BadInput: another environment than job shops, or observations to be normalised.
    """
    from evolvent import envs
    from evolvent.envs.team.jssp import make_team

    spec, found = config.env, envs.find(config.env, "--env")
    if config.plan.normalise_obs == "on":
        got, do = "--normalise-obs on", "leave it out"
        raise BadInput("what is seen of a shop holds addresses", got=got, expected="auto or off", where="jssp", do=do)
    if found.make is not make_team:
        do = "use ppo, or `evolvent list algos`"
        raise BadInput("not a job shop", got=spec, expected="jssp:train=6x6,test=ft06", where="--env", do=do)
    return make_team(n_envs=1, **found.given("--env")).tests


def _loop(config: Config, team: TeamRun) -> Actors:
    import torch

    from evolvent.algos.jssp.graph_net import ShopNet
    from evolvent.learn.losses import normalised
    from evolvent.learn.team.critic import fit_critic, scaled_targets
    from evolvent.learn.team.ppo import improve_together
    from evolvent.learn.team.value_norm import ValueNorm

    actors, norm = make_actors(config, team.views), ValueNorm()
    critic = ShopNet(team.env.team.choices, config.width, config.rounds, value=True).to(team.device)
    adam = torch.optim.Adam(actors.groups(), lr=config.lr, eps=1e-5, fused=True)
    critic_adam = torch.optim.Adam(critic.parameters(), lr=config.lr, eps=1e-5, fused=True)
    team.keep(acting(actors), actors=actors, critic=critic, norm=norm, adam=adam, critic_adam=critic_adam)
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
    return actors


def make_actors(config: Config, views: Views) -> Actors:
    """The dispatcher, for shops of the size at hand."""
    from evolvent.algos.jssp.graph_net import ShopNet
    from evolvent.models.team.actors import Actors

    def network(_: int, jobs: int) -> ShopNet:
        return ShopNet(jobs, config.width, config.rounds)

    return Actors(views.team, views.team.obs_dim, network=network).to(views.device)


def _played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    actors = make_actors(config, views)
    return acting(actors), {"actors": actors}


evaluate, policy = partial(evaluate_team, Config, _played), partial(policy_of, Config, _played)
