"""TD3+BC: a deterministic policy that climbs its critic and stays close to the actions of the data. Offline.

Paper: Fujimoto and Gu 2021, A Minimalist Approach to Offline Reinforcement Learning (arXiv 2106.06860).

    y    = r + gamma min_i Q_i'(o', a~),   a~ = clip(mu'(o') + clip(eps, ±0.5), ±1),   eps ~ N(0, 0.2)
    L_Q  = mean sum_i (y - Q_i(o, a))²
    L_mu = - lambda mean Q_1(o, mu(o)) + mean (mu(o) - a)²,   lambda = alpha / mean |Q_1(o, mu(o))|

lambda is no part of the gradient. The policy and all copies learn every second step. Nothing is added to the target
after an end, but what was seen last counts where an attempt was cut off. Defaults are the paper's: alpha 2.5, two
layers of 256, rates 3e-4, batch 256, copies follow by 0.005, observations in units of their spread in the data.

Deviation: networks with layer norms (``models.team.actors``).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.runs.offline.config import OfflineConfig
from evolvent.runs.team.frozen import evaluate_team, policy_of
from evolvent.runs.team.one import check_one_agent

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from evolvent.learn.team.player import Act
    from evolvent.learn.team.replay import Transitions
    from evolvent.learn.team.views import Views
    from evolvent.models.team.actors import Perceptron
    from evolvent.models.team.critics import ActionCritics
    from evolvent.runs.offline.run import OfflineRun

PAPER = "arXiv 2106.06860"
LEVELS = ("step",)
STATUS = "tested"
SMOOTHING, SMOOTHING_CLIP = 0.2, 0.5
DELAY = 2


@dataclass(frozen=True)
class Config(OfflineConfig):
    """Settings of TD3+BC."""

    gamma: float = 0.99
    """Discount factor per step."""
    alpha: float = 2.5
    """Weight of the critic against imitation; 0 = imitation alone."""
    tau: float = 0.005
    """Share by which the copies follow in a step."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of policy and critics, as their widths."""
    lr: float = 3e-4
    """Learning rate of both (Adam)."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.runs.offline.run import open_offline

    with open_offline(config, folder, live, resume=resume) as offline:
        loop(config, offline)
        return offline.finish("td3_bc")


def loop(config: Config, offline: OfflineRun) -> None:
    """Draw transitions and learn from them, until the gradient steps are over."""
    from evolvent.learn.team.descent import means

    nets = make_networks(config, offline.views)
    old = copy.deepcopy(nets)
    for net in old:
        net.requires_grad_(False)
    adams = make_adams(nets, config.lr)
    parts = {"old_actor": old.actor, "old_critics": old.critics, "adam": adams[0], "critic_adam": adams[1]}
    offline.keep(acting(nets), actors=nets.actor, critics=nets.critics, **parts)
    for update in offline.updates():
        with offline.clock("learn"):  # LEARN
            losses: list[dict[str, float]] = []
            for step in range(update * config.log_every, (update + 1) * config.log_every):
                drawn, also = offline.replay.sample(config.batch, offline.generator), step % DELAY == 0
                losses.append(improve(config, nets, old, adams, drawn, offline.generator, policy=also))
        offline.log(**means(losses))


class Networks(NamedTuple):
    """A policy and two critics."""

    actor: Perceptron
    critics: ActionCritics

    def act(self, obs: Tensor) -> Tensor:
        """``mu(o)``, ``[..., dims]`` in [-1, 1]."""
        return self.actor(obs).tanh()


def improve(
    config: Config,
    nets: Networks,
    old: Networks,
    adams: tuple[torch.optim.Adam, torch.optim.Adam],
    drawn: Transitions,
    generator: torch.Generator,
    *,
    policy: bool,
) -> dict[str, float]:
    """One gradient step of the critics and, where it is time, of the policy and the copies; what was seen."""
    import torch

    from evolvent.learn.team.targets import follow, smoothed, td_target

    obs = drawn.view.obs
    with torch.no_grad():
        after = smoothed(old.act(drawn.after.obs), SMOOTHING, SMOOTHING_CLIP, generator)
        target = td_target(drawn.reward, drawn.discount, old.critics(drawn.after.obs, after).amin(0))
    said = nets.critics(obs, drawn.action)
    loss = (target - said).square().mean(-1).mean(-1).sum()
    adams[1].zero_grad()
    loss.backward()
    adams[1].step()
    if policy:
        done = nets.act(obs)
        loss_mu = policy_loss(nets.critics(obs, done)[0], done, drawn.action, config.alpha)
        weights = [*nets.actor.parameters()]
        for weight, grad in zip(weights, torch.autograd.grad(loss_mu, weights), strict=True):
            weight.grad = grad  # of the policy alone: the critics only pass it on
        adams[0].step()
        for mine, its in zip(old, nets, strict=True):
            follow(mine, its, config.tau)
    return {"value_loss": loss.item() / len(said), "value": said.detach().mean().item()}


def policy_loss(q: Tensor, done: Tensor, action: Tensor, alpha: float) -> Tensor:
    """``L_mu``: Q of what the policy does ``[...]``, that, and what was done in the data, ``[..., dims]``."""
    weight = alpha / q.detach().abs().mean()
    return -weight * q.mean() + (done - action).square().mean()


def make_networks(config: Config, views: Views) -> Networks:
    """A policy and its critics.

    Raises:
        BadInput: a team, or an agent that chooses.
    """
    from evolvent.models.team.actors import Perceptron
    from evolvent.models.team.critics import ActionCritics

    team = views.team
    check_one_agent(team, ("continuous",), config.env, "use bc, or iql for choices")
    actor = Perceptron(team.obs_dim, team.dims, config.hidden, gain=0.01)
    return Networks(actor.to(views.device), ActionCritics(team, config.hidden).to(views.device))


def make_adams(nets: Networks, lr: float) -> tuple[torch.optim.Adam, torch.optim.Adam]:
    """Of the policy, and of the critics."""
    import torch

    return (
        torch.optim.Adam(nets.actor.parameters(), lr=lr, fused=True),
        torch.optim.Adam(nets.critics.parameters(), lr=lr, fused=True),
    )


def acting(nets: Networks) -> Act:
    """How it plays: always the same in the same place."""

    def act(view: Any, greedy: bool, generator: torch.Generator) -> Tensor:
        return nets.act(view.obs)

    return act


def _played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    nets = make_networks(config, views)
    return acting(nets), {"actors": nets.actor}


evaluate, policy = partial(evaluate_team, Config, _played), partial(policy_of, Config, _played)
