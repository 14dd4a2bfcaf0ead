"""DDPG: a deterministic policy that climbs its critic, from a replay buffer; with TD3's three mends as options.

Paper: Lillicrap et al. 2016, Continuous control with deep reinforcement learning (arXiv 1509.02971). TD3: Fujimoto et
al. 2018, Addressing Function Approximation Error in Actor-Critic Methods (arXiv 1802.09477).

    y   = R + gamma^m Q'(o', mu'(o')),                     TD3:  y = R + gamma^m min_i Q_i'(o', a~)
    a~  = clip(mu'(o') + clip(eps, ±0.5), ±1),             eps ~ N(0, ``smoothing``)
    L_Q = mean sum_i (y - Q_i(o, a))²,                     L_mu = - mean Q_1(o, mu(o))
    theta' <- (1 - tau) theta' + tau theta,                TD3:  mu and all copies every second step (``delay``)

TD3 is ``--twin --smoothing 0.2 --delay 2``. Acts with Gaussian noise, in the warm-up uniformly at random. Defaults are
those of DDPG in stable-baselines3: rates 1e-3, batch 256, tau 0.005, a gradient step every step.

Deviations: networks with layer norms that are given the size of the numbers they see (``models.team.sizes``), hidden
256 256 (there 400 300); Gaussian noise of 0.1 (the paper's is correlated, stable-baselines3 has none by default); 1,000
steps of warm-up (there 100; TD3 25,000); the credit that is logged and stored is the TD error of one step by the values
when acting. Environments restart at each checkpoint, and the buffer is a part of it: a run that was killed goes on with
the same numbers.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from evolvent.core.folder import RunFolder
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.runs.team.config import ReplayConfig
from evolvent.runs.team.frozen import evaluate_team, policy_of
from evolvent.runs.team.one import check_one_agent, trained

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from evolvent.envs.team.disrupt import Attack
    from evolvent.learn.team.batch import View
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.practice import Practice
    from evolvent.learn.team.replay import Transitions
    from evolvent.learn.team.views import Views
    from evolvent.models.team.actors import Perceptron
    from evolvent.runs.team.run import TeamRun

PAPER = "arXiv 1509.02971"
LEVELS = ("step",)
STATUS = "tested"
SMOOTHING_CLIP = 0.5


@dataclass(frozen=True)
class Config(ReplayConfig):
    """Settings of DDPG."""

    env: str = "gymnasium:Pendulum-v1"
    """Environment of one agent whose actions are numbers, with its options; or yours, file.py[:NAME]."""
    steps: int = 20_000
    """Total environment steps over all copies. Only whole updates are run."""
    batch: int = 256
    """Transitions of a gradient step."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of policy and critics, as their widths."""
    lr: float = 1e-3
    """Learning rate of the policy (Adam)."""
    critic_lr: float = 1e-3
    """Learning rate of the critics (Adam)."""
    tau: float = 0.005
    """Share by which the copies follow in a step."""
    noise: float = 0.1
    """Standard deviation of the noise when acting, on the scale of [-1, 1]."""
    twin: bool = False
    """Two critics, the lesser of which makes the target (TD3)."""
    smoothing: float = 0.0
    """Standard deviation of the noise on the actions of targets; 0.2 in TD3."""
    delay: int = 1
    """Gradient steps of the critics for one of the policy and of the copies; 2 in TD3."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.runs.team.run import open_team

    with open_team(config, folder, live, resume=resume) as team:
        loop(config, team)
        return team.finish("ddpg")


def loop(config: Config, team: TeamRun | Practice) -> None:
    """Act, step, learn from what is in the buffer, until the steps are over."""
    import torch

    from evolvent.learn.team.descent import means
    from evolvent.learn.team.replay import Replay

    nets, copies = make_networks(config, team.views), team.env.n_envs
    old = copy.deepcopy(nets)
    for net in old:
        net.requires_grad_(False)
    adams = [
        torch.optim.Adam(net.parameters(), lr=lr, fused=True)
        for net, lr in zip(nets, (config.lr, config.critic_lr), strict=True)
    ]
    replay = Replay(team.views, config.buffer, copies, n_step=config.n_step, gamma=config.gamma)
    parts = {"actors": nets.actor, "critics": nets.critics, "old_actor": old.actor, "old_critics": old.critics}
    team.arm(attack_of(team.views, nets))
    team.keep(acting(nets.actor, config.noise), **parts, adam=adams[0], critic_adam=adams[1], replay=replay)
    for update in team.updates():
        if team.restarted:
            replay.cut()
        view, losses = team.view, list[dict[str, float]]()
        for step in range(update * config.horizon, (update + 1) * config.horizon):
            with team.clock("act"), torch.no_grad():  # ACT
                noise = config.noise if step * copies >= config.warmup else None
                action, logp = explore(nets.actor, view.obs, noise, team.generator)
                said = nets.values(view.obs, action)[0]
            view = team.step(action, logp, said)  # STEP
            with team.clock("learn"):  # LEARN
                replay.add(team.steps)
                if (step + 1) * copies > config.warmup and (step + 1) % config.train_every == 0:
                    drawn, last = replay.sample(config.batch, team.generator), (step + 1) // config.train_every
                    also = last % config.delay == 0
                    losses.append(improve(config, nets, old, adams, drawn, team.generator, policy=also))
        with team.clock("credit"):  # CREDIT, for the log: learning has its targets from the buffer
            batch = team.batch(lambda view: nets.values(view.obs, nets.act(view.obs))[0])
            ledger = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, 0.0))
        team.log(ledger, **means(losses))


class Networks(NamedTuple):
    """A policy and its critics."""

    actor: Perceptron
    critics: nn.ModuleList

    def act(self, obs: Tensor) -> Tensor:
        """``mu(o)``, ``[..., A, dims]`` in [-1, 1]."""
        return self.actor(obs).tanh()

    def values(self, obs: Tensor, action: Tensor) -> list[Tensor]:
        """What each critic says, ``[..., A]``."""
        import torch

        seen = torch.cat([obs, action], dim=-1)
        return [critic(seen) for critic in self.critics]


def improve(
    config: Config,
    nets: Networks,
    old: Networks,
    adams: list[torch.optim.Adam],
    drawn: Transitions,
    generator: torch.Generator,
    *,
    policy: bool,
) -> dict[str, float]:
    """One gradient step of the critics and, where it is time, of the policy and the copies; what was seen."""
    import torch

    from evolvent.learn.team.targets import follow

    target = targets(config, old, drawn, generator)
    said = nets.values(drawn.view.obs, drawn.action)
    loss = torch.stack([(target - value).square().mean() for value in said]).sum()
    adams[1].zero_grad()
    loss.backward()
    adams[1].step()
    if policy:
        loss_mu, weights = -nets.values(drawn.view.obs, nets.act(drawn.view.obs))[0].mean(), [*nets.actor.parameters()]
        for weight, grad in zip(weights, torch.autograd.grad(loss_mu, weights), strict=True):
            weight.grad = grad  # of the policy alone: the critics only pass it on
        adams[0].step()
        for mine, its in zip(old, nets, strict=True):
            follow(mine, its, config.tau)
    return {"value_loss": loss.item() / len(said), "value": said[0].detach().mean().item()}


def targets(config: Config, old: Networks, drawn: Transitions, generator: torch.Generator) -> Tensor:
    """``y`` of the module's docstring, ``[M, A]``."""
    import torch

    from evolvent.learn.team.targets import smoothed, td_target

    with torch.no_grad():
        action = old.act(drawn.after.obs)
        if config.smoothing:
            action = smoothed(action, config.smoothing, SMOOTHING_CLIP, generator)
        value = torch.stack(old.values(drawn.after.obs, action)).amin(0)
        return td_target(drawn.reward, drawn.discount, value)


def explore(actor: Perceptron, obs: Tensor, noise: float | None, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Actions with Gaussian noise, or uniform ones (``None``), and logp by part, *before* they are clipped."""
    import torch

    from evolvent.models.team.action_heads import LOG_TAU, normal

    mean = actor(obs).tanh()
    if noise is None:
        uniform = torch.rand(mean.shape, generator=generator, device=mean.device) * 2.0 - 1.0
        return uniform, torch.full_like(mean, -math.log(2.0))
    eps = normal(mean.shape, mean, generator)
    return (mean + noise * eps).clamp(-1.0, 1.0), -0.5 * (eps.square() + LOG_TAU) - math.log(noise)


def make_networks(config: Config, views: Views) -> Networks:
    """A policy and one or two critics.

    Raises:
        BadInput: a team, or an agent that chooses.
    """
    from torch import nn

    from evolvent.models.team.actors import Critic, Perceptron

    team = views.team
    check_one_agent(team, ("continuous",), config.env)
    actor = Perceptron(team.obs_dim, team.dims, config.hidden, gain=0.01)
    critics = [Critic(team.obs_dim + team.dims, hidden=config.hidden, ids=team.dims) for _ in range(1 + config.twin)]
    return Networks(actor.to(views.device), nn.ModuleList(critics).to(views.device))


def acting(actor: Perceptron, noise: float) -> Act:
    """How it plays: greedily, or with noise."""

    def act(view: Any, greedy: bool, generator: torch.Generator) -> Tensor:
        return actor(view.obs).tanh() if greedy else explore(actor, view.obs, noise, generator)[0]

    return act


def played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    """For ``evaluate_team``: how it acts, and the parts of a checkpoint that this needs."""
    nets = make_networks(config, views)
    return acting(nets.actor, config.noise), {"actors": nets.actor}


def _attack(config: Config, views: Views) -> tuple[Attack, dict[str, Any]]:
    """For an adversary that knows the networks."""
    nets = make_networks(config, views)
    return attack_of(views, nets), {"actors": nets.actor, "critics": nets.critics}


def attack_of(views: Views, nets: Networks) -> Attack:
    """An adversary by the gradients of actor and critic."""
    from evolvent.learn.team.attack import GradientAttack

    def worth(view: View, action: Tensor) -> Tensor:
        return nets.values(view.obs, action)[0]

    return GradientAttack(views, lambda view: nets.act(view.obs), worth=worth)


evaluate = partial(evaluate_team, Config, played, attack=_attack)
policy = partial(policy_of, Config, played)
train = partial(trained, loop)
